package httpapi

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"

	"felix.local/felix/auth"
	"felix.local/felix/broker"
)

// subscription is what a subscribe request asks for.
type subscription struct {
	stream  *broker.Stream
	shard   int
	start   broker.Start
	options broker.SubscribeOptions
	media   string
}

// subscribe streams records until the client leaves, the server closes, or reading on
// is impossible. Errors before the first event are ordinary answers.
func (s *Server) subscribe(x *exchange) error {
	asked, err := x.subscription()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(x.r.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.closing, func() { cancel(&broker.ClosedError{}) })()
	sub, err := asked.stream.Subscribe(ctx, asked.shard, asked.start, asked.options)
	if err != nil {
		return ended(ctx, err)
	}
	defer sub.Close()
	s.counters.subscriptions.Add(1)
	defer s.counters.subscriptions.Add(-1)

	f := x.openFeed(asked, func() { cancel(errReaderGone) })
	defer f.close()
	err = f.subscribed(sub.Start(), sub.Live())
	position := sub.Start()
	for err == nil {
		position, err = f.deliver(ctx, sub, asked, position)
	}
	f.end(ended(ctx, err))
	return nil
}

// errReaderGone says that a write to the client failed.
var errReaderGone = errors.New("the client takes nothing any more")

// ended prefers the reason for which ctx was ended to what its end led to.
func ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// deliver waits for records and writes them; position is the offset to come. The
// principal may have lost its grant since the last page. The payloads are let go of, so
// that a silent subscription holds none.
//
// Where records are there already, room for a page is waited for before they are read.
// What comes while the subscription is silent is in the broker's memory anyway when it
// is taken, and waits for its room afterwards.
func (f *feed) deliver(ctx context.Context, sub *broker.Subscription, asked subscription, position uint64) (uint64, error) {
	h := f.x.hold()
	defer h.release()
	settle := func() {}
	if shard, err := asked.stream.Shard(asked.shard); err == nil && position < shard.Next {
		if err := h.wait(ctx, f.x.server.cfg.FeedPageBytes); err != nil {
			return position, err
		}
		// Offsets may hold no records, and the subscription be silent after all.
		settle = h.lend(f.x.server.cfg.WriteTimeout)
	}
	delivery, err := sub.Next(ctx)
	settle()
	if err != nil {
		return position, err
	}
	defer clear(delivery.Records)
	if err := f.x.permits(asked); err != nil {
		return position, err
	}
	if err := h.waitFor(ctx, pageBytes(delivery.Records)); err != nil {
		return position, err
	}
	return delivery.Next, f.page(delivery)
}

// permits says that the principal may have this subscription, now. One that holds
// publishers back needs their grant too.
func (x *exchange) permits(asked subscription) error {
	if err := x.mayStill(auth.Read); err != nil {
		return err
	}
	if asked.options.WhenFull == broker.WhenFullBlock && !x.principal.Allows(auth.Write, x.name.Tenant) {
		return blocksPublishers(x.principal.Name(), x.name.Tenant)
	}
	return nil
}

func (x *exchange) subscription() (asked subscription, err error) {
	if x.r.Method == http.MethodHead {
		x.header().Set("Allow", http.MethodGet)
		return asked, methodNotAllowed(x.r.Method, http.MethodGet)
	}
	if asked.media, err = choose(x.r, mediaEvents, mediaNDJSON); err != nil {
		return asked, err
	}
	q, err := x.query("shard", "from", "when_full")
	if err != nil {
		return asked, err
	}
	asked.options.PageBytes = x.server.cfg.FeedPageBytes
	if asked.options.WhenFull, err = q.whenFull(); err != nil {
		return asked, err
	}
	if err = x.permits(asked); err != nil {
		return asked, err
	}
	if asked.start, err = x.resumed(q); err != nil {
		return asked, err
	}
	if asked.stream, err = x.server.broker.Stream(x.name); err != nil {
		return asked, err
	}
	asked.shard, err = q.shard(asked.stream)
	return asked, err
}

func (q query) whenFull() (broker.WhenFull, error) {
	switch {
	case !q.has("when_full"), q.is("when_full", "disk"):
		return broker.WhenFullDisk, nil
	case q.is("when_full", "block"):
		return broker.WhenFullBlock, nil
	}
	return 0, badParameter("when_full", "when_full="+short(q.text("when_full"))+" is neither disk nor block", "use disk or block")
}

// resumed gives the start: behind the last event that the client has seen, else what
// from says, else what comes next.
func (x *exchange) resumed(q query) (broker.Start, error) {
	last := x.r.Header.Get("Last-Event-ID")
	if last == "" {
		return q.start(broker.Latest())
	}
	offset, err := strconv.ParseUint(last, 10, 64)
	if err != nil || offset == math.MaxUint64 {
		return broker.Start{}, badParameter("Last-Event-ID", "Last-Event-ID "+short(last)+" is no offset",
			"send the id of the last event, or none")
	}
	return broker.AtOffset(offset + 1), nil
}
