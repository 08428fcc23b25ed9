package broker

import (
	"context"
	"errors"
)

// Subscription is a place in a shard that moves forward. Its methods are for one
// goroutine, but Close may be called from any.
type Subscription struct {
	shard *shard
	opts  SubscribeOptions
	// wake is told of every change of the shard.
	wake        chan struct{}
	start, live uint64
	// next is the offset to deliver next. It changes under the shard's lock.
	next uint64
	// records is reused for each page.
	records []Record
	// closed and queue are under the shard's lock. queue is set on an
	// in-memory stream only.
	closed bool
	queue  *queue
}

// Subscribe begins a subscription to one shard. An offset below the oldest held is a
// *CursorTooOldError, one past the next a *CursorInFutureError.
func (s *Stream) Subscribe(ctx context.Context, shard int, start Start, opts SubscribeOptions) (*Subscription, error) {
	if s.broker.draining.Load() {
		return nil, &ClosedError{}
	}
	h, err := s.shard(shard)
	if err != nil {
		return nil, err
	}
	if opts.PageBytes <= 0 {
		opts.PageBytes = s.broker.cfg.PageBytes
	}
	if opts.PageRecords <= 0 {
		opts.PageRecords = DefaultPageRecords
	}
	if !s.broker.claimSubscription() {
		return nil, &LimitError{What: "subscriptions", Max: s.broker.cfg.SubscriptionsMax}
	}
	sub := &Subscription{shard: h, opts: opts, wake: make(chan struct{}, 1)}
	if err := sub.begin(ctx, start); err != nil {
		s.broker.counters.subscriptions.Add(-1)
		return nil, err
	}
	return sub, nil
}

// begin registers first and looks at the bounds after: what is published in between
// is in the view or leaves a wake-up.
func (sub *Subscription) begin(ctx context.Context, start Start) error {
	h := sub.shard
	for {
		at, err := h.resolve(ctx, start)
		if err != nil {
			return err
		}
		logBase := h.logBase()
		live, asOf := h.liveOffset(ctx)
		h.mu.Lock()
		if h.newestInRingLocked() {
			live = h.mu.next
		} else if h.mu.next != asOf {
			h.mu.Unlock()
			continue // the log was cut or a generation began since; both are rare
		}
		// An in-memory stream's base is its ring's, which the lock holds still.
		base := min(h.baseLocked(logBase), h.mu.next)
		switch start.kind {
		case startLatest:
			at = h.mu.next
		case startEarliest:
			at = base
		}
		err = h.readableLocked(at, base)
		var gone *CursorTooOldError
		if errors.As(err, &gone) && start.kind == startTime {
			h.mu.Unlock()
			continue // trimmed since it was resolved; the base rises each time
		}
		if err == nil {
			sub.registerLocked(at, live)
		}
		h.mu.Unlock()
		return err
	}
}

// liveOffset is one past the newest record that readers are given, as of a view that
// ends at next. Most often the ring has that record; else it is looked for on disk,
// before the lock is taken. When it cannot be read, whoever comes there is told why.
func (h *shard) liveOffset(ctx context.Context) (live, next uint64) {
	h.mu.Lock()
	next, known := h.mu.next, h.newestInRingLocked()
	h.mu.Unlock()
	if known || h.log == nil {
		return next, next
	}
	live, err := h.log.LiveOffset(ctx, next)
	if err != nil {
		return next, next
	}
	return live, next
}

// newestInRingLocked says that the newest record of the view is in the ring, which
// holds none that starts a generation.
func (h *shard) newestInRingLocked() bool {
	return h.mu.ring.count > 0 && h.mu.ring.end() == h.mu.next
}

func (sub *Subscription) registerLocked(at, live uint64) {
	h := sub.shard
	sub.start, sub.next, sub.live = at, at, live
	h.mu.watchers = append(h.mu.watchers, sub.wake)
	h.mu.subscriptions++
	if h.log == nil {
		sub.beginQueueLocked(at)
		h.mu.queues = append(h.mu.queues, sub)
	}
	if sub.opts.WhenFull == WhenFullBlock {
		h.mu.blockers = append(h.mu.blockers, sub)
		h.blocking.Add(1)
	}
}

// Start is the first offset that the subscription delivers.
func (sub *Subscription) Start() uint64 { return sub.start }

// Live is one past the newest record there was when the subscription began: what is
// delivered from there on was published later. Records that start a generation, which
// are delivered to nobody, do not count, so that it may lie before the next offset.
func (sub *Subscription) Live() uint64 { return sub.live }

// Next waits for records and gives them in order, without a gap. The Delivery's
// slice is reused by the following call. An error ends the subscription:
// *CursorTooOldError (its next records were trimmed), *UnavailableError (the log
// is poisoned and all that can be read was delivered), *DeletedError,
// *ClosedError (the broker drains and everything was delivered), or the context's.
func (sub *Subscription) Next(ctx context.Context) (Delivery, error) {
	for {
		d, err := sub.take(ctx)
		if err != nil || d.Missed != nil || len(d.Records) > 0 {
			return d, err
		}
		sub.records = nil // an idle subscription keeps no page
		if err := sub.wait(ctx); err != nil {
			return Delivery{Next: sub.next}, err
		}
	}
}

// wait returns at the next change of the shard.
func (sub *Subscription) wait(ctx context.Context) error {
	select {
	case <-sub.wake:
		return nil
	default:
	}
	select {
	case <-sub.wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-sub.shard.broker.drained:
		// One more look: what was acknowledged before is still delivered.
		if d, err := sub.peek(); err != nil || d {
			return err
		}
		return &ClosedError{}
	}
}

// peek says whether there is something to take.
func (sub *Subscription) peek() (bool, error) {
	h := sub.shard
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.ended != nil {
		return false, h.mu.ended
	}
	if sub.queue != nil {
		return !sub.queue.empty(), nil
	}
	return sub.next < h.mu.next, nil
}

// take gives what there is now; nothing at all when there is nothing.
func (sub *Subscription) take(ctx context.Context) (Delivery, error) {
	if sub.queue != nil {
		return sub.takeQueued()
	}
	h := sub.shard
	p, err := h.page(ctx, sub.next, sub.opts.PageBytes, sub.opts.PageRecords, sub.records)
	sub.records = p.Records[:0]
	if err != nil {
		return Delivery{Next: sub.next}, sub.ended(err)
	}
	sub.moved(p)
	if len(p.Records) == 0 {
		return Delivery{Next: sub.next}, sub.poisoned()
	}
	return Delivery{Records: p.Records, Next: sub.next}, nil
}

// ended turns a position past a poisoned shard's end into what happened to it.
func (sub *Subscription) ended(err error) error {
	var future *CursorInFutureError
	if errors.As(err, &future) {
		if poisoned := sub.poisoned(); poisoned != nil {
			return poisoned
		}
	}
	return err
}

// poisoned is the end of a poisoned shard, once everything that can be read of it
// was delivered.
func (sub *Subscription) poisoned() error {
	h := sub.shard
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.state == StatePoisoned && sub.next >= h.mu.next {
		return h.unavailable(StatePoisoned, h.mu.reason)
	}
	return nil
}

// moved advances past what is delivered.
func (sub *Subscription) moved(p Page) {
	if p.Continue == sub.next {
		return
	}
	h := sub.shard
	h.mu.Lock()
	sub.next = p.Continue
	if sub.opts.WhenFull == WhenFullBlock {
		h.makeRoomLocked()
	}
	h.mu.Unlock()
	h.broker.counters.delivered(p.Records)
}

// fullLocked says that the subscription is as far behind as its queue allows.
func (sub *Subscription) fullLocked() bool {
	h := sub.shard
	if sub.queue != nil {
		return !sub.queue.fits(1)
	}
	limit := min(h.broker.cfg.SubscriberQueue, h.broker.cfg.RingRecords)
	return h.mu.next-min(sub.next, h.mu.next) >= uint64(limit)
}

// Close ends the subscription. Nobody may be in Next.
func (sub *Subscription) Close() {
	h := sub.shard
	h.mu.Lock()
	defer h.mu.Unlock()
	if sub.closed {
		return
	}
	sub.closed = true
	h.mu.watchers = without(h.mu.watchers, sub.wake)
	if sub.queue != nil {
		h.mu.queues = without(h.mu.queues, sub)
		sub.endQueueLocked()
	}
	if sub.opts.WhenFull == WhenFullBlock {
		h.mu.blockers = without(h.mu.blockers, sub)
		h.blocking.Add(-1)
		h.makeRoomLocked()
	}
	h.mu.subscriptions--
	h.broker.counters.subscriptions.Add(-1)
}
