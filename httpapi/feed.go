package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"felix.local/felix/broker"
)

// feed writes a subscription to its client: as Server-Sent Events, or as lines of
// JSON, where a line with a member "event" is no record.
type feed struct {
	x      *exchange
	shard  int
	events bool // Server-Sent Events
	// lost is called when a heartbeat could not be written.
	lost func()

	mu struct {
		sync.Mutex
		closed    bool
		heartbeat *time.Timer
	}
}

// openFeed begins the answer.
func (x *exchange) openFeed(asked subscription, lost func()) *feed {
	f := &feed{x: x, shard: asked.shard, events: asked.media == mediaEvents, lost: lost}
	header := x.header()
	header.Set("Content-Type", asked.media)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // proxies that hold answers back let this one through
	x.begun(http.StatusOK)
	f.mu.Lock() // the first beat may be due before this is over
	defer f.mu.Unlock()
	f.mu.heartbeat = time.AfterFunc(x.server.cfg.HeartbeatInterval, f.beat)
	return f
}

// close ends all writing; afterwards the handler may return.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.closed = true
	f.mu.heartbeat.Stop()
	f.x.extendWrite() // for the end of the answer, which the server writes
}

// send sends what write puts out, and puts the next heartbeat off.
func (f *feed) send(write func(out *output)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sendLocked(write)
}

// sendLocked has a buffer only while it sends: most subscriptions are silent.
func (f *feed) sendLocked(write func(out *output)) error {
	out := f.x.server.output(f.x)
	defer out.done(f.x.server)
	write(out)
	err := out.flush()
	if err == nil {
		err = f.x.flush()
	}
	// While nothing is written no deadline may run: on HTTP/2 it would end the stream.
	f.x.clearWrite()
	if err != nil {
		return errors.Join(errReaderGone, err)
	}
	f.mu.heartbeat.Reset(f.x.server.cfg.HeartbeatInterval)
	return nil
}

// beat shows the client, and whatever is between, that the subscription lives. Its
// failing is how a client that left without a word is noticed.
func (f *feed) beat() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.closed {
		return
	}
	text := `{"event":"heartbeat"}` + "\n"
	if f.events {
		text = ": heartbeat\n\n"
	}
	if err := f.sendLocked(func(out *output) { out.raw(text) }); err != nil {
		f.lost()
		return
	}
	f.x.server.counters.heartbeats.Add(1)
}

// subscribed is the first event: where delivery begins, and which offset the next
// record published gets.
func (f *feed) subscribed(start, live uint64) error {
	return f.send(func(out *output) {
		f.open(out, "subscribed")
		out.name("shard")
		out.uint(uint64(f.shard))
		out.name("start_offset")
		out.uint(start)
		out.name("live_offset")
		out.uint(live)
		f.shut(out)
	})
}

// page writes a delivery.
func (f *feed) page(d broker.Delivery) error {
	return f.send(func(out *output) {
		if d.Missed != nil {
			f.missed(out, *d.Missed)
		}
		for i := range d.Records {
			f.record(out, &d.Records[i])
			if out.err != nil {
				return
			}
		}
	})
}

func (f *feed) record(out *output, r *broker.Record) {
	if f.events {
		f.id(out, r.Offset)
		out.raw("event: record\ndata: ")
	}
	out.record(f.shard, r)
	out.raw("\n")
	if f.events {
		out.raw("\n")
	}
}

// missed tells which offsets were dropped; resuming goes on behind them.
func (f *feed) missed(out *output, gone broker.OffsetRange) {
	if f.events {
		f.id(out, gone.Last)
	}
	f.open(out, "missed")
	out.name("shard")
	out.uint(uint64(f.shard))
	out.name("first")
	out.uint(gone.First)
	out.name("last")
	out.uint(gone.Last)
	f.shut(out)
}

func (f *feed) id(out *output, offset uint64) {
	out.raw("id: ")
	out.uint(offset)
	out.raw("\n")
}

// open begins an event that is no record; its JSON has the member "event" in both forms.
func (f *feed) open(out *output, event string) {
	if f.events {
		out.raw("event: ")
		out.raw(event)
		out.raw("\ndata: ")
	}
	out.raw(`{"event":"`)
	out.raw(event)
	out.raw(`"`)
}

func (f *feed) shut(out *output) {
	out.raw("}\n")
	if f.events {
		out.raw("\n")
	}
}

// end tells the client why the server ends the subscription, if the client is there.
func (f *feed) end(reason error) {
	if errors.Is(reason, errReaderGone) || f.x.r.Context().Err() != nil {
		return
	}
	event := "error"
	p := f.x.server.explain(reason)
	if p.code == codeClosing {
		event = "closing"
	}
	if p.code == codeInternal {
		f.x.server.cfg.Logger.Error("http: a subscription ended for a reason that no client can be told",
			"path", f.x.r.URL.Path, "error", reason)
	}
	text, err := json.Marshal(p.json())
	if err != nil {
		panic("httpapi: a problem that is no JSON: " + err.Error())
	}
	// The client may be gone by now, which is an end too.
	_ = f.send(func(out *output) {
		f.open(out, event)
		out.name("error")
		out.long(text)
		f.shut(out)
	})
}
