package engine

import (
	"context"
	"time"

	"felix.local/felix/segment"
)

// Record is one record to append.
type Record struct {
	// Payload is at most segment.MaxPayloadBytes. It is copied before the
	// append returns, or before AppendAsync returns.
	Payload []byte
	// TimestampMicros is the publish time in microseconds since 1970; 0 takes
	// the time of the append.
	TimestampMicros uint64
	// Mark is what the record means to idempotent producers and replication;
	// the zero value is an ordinary record.
	Mark segment.Mark
}

// AppendResult names the offsets that an append got.
type AppendResult struct{ First, Last uint64 }

// Append appends records, all in one segment and with consecutive offsets, and
// returns when they are acknowledged under the log's fsync mode.
//
// A *FullError or a *LogError means that nothing was appended and the log is
// usable. A *PoisonedError means that the records may or may not be on the
// device and the log accepts no more. When ctx ends first the error is an
// *UnknownOutcomeError: the append goes on and keeps its place in the order. Only
// a write into the page cache, under none and periodic, is not given up, nor is
// undoing one that failed: it is the caller's own.
func (l *Log) Append(ctx context.Context, records ...Record) (AppendResult, error) {
	p, lead, err := l.stage(ctx, records, false, nil)
	if err != nil {
		return AppendResult{}, err
	}
	return l.await(ctx, p, lead)
}

// await gives the outcome of a blocking append, and does the commit loop's work
// for it if lead says that there is none.
func (l *Log) await(ctx context.Context, p Pending, lead bool) (AppendResult, error) {
	switch {
	case !lead:
	case l.leadsInline(p.b):
		l.commit(p.b)
	default:
		l.goOn(l.waitsInline(ctx))
	}
	if p.crowd != nil {
		p.crowd.wait()
	}
	if !signalled(ctx, p.done) {
		return AppendResult{}, p.unknown(ctx)
	}
	if p.lone {
		l.store.signals.Put(p.done)
	}
	return p.outcome()
}

// AppendAsync stages records and returns a handle that completes when they are
// acknowledged. Handles of one log complete in offset order. It waits only for
// staging memory, and for exclusive work such as a truncation to end.
func (l *Log) AppendAsync(ctx context.Context, records ...Record) (Pending, error) {
	p, lead, err := l.stage(ctx, records, true, nil)
	if err != nil {
		return Pending{}, err
	}
	if lead {
		l.goOn(false)
	}
	return p, nil
}

// Pending is an append under way.
type Pending struct {
	log *Log
	// b is the batch that carries the append, nil for one that was acknowledged when
	// it came.
	b      *batch
	result AppendResult
	// held is how many of the records, its first ones, the log held before, and
	// refused what such an append is answered with once those are acknowledged.
	held         uint32
	refused      error
	payloadBytes int64
	started      time.Time // zero when nobody observes
	// done is the batch's signal that this append waits for. lone says that it is
	// this append's own and reused after it was received; no handle has one.
	done chan struct{}
	lone bool
	// crowd is what a blocking append that came after another, under on_commit and
	// with a context that can end, waits for before it looks at done.
	crowd *crowd
}

// Done is closed when the append was acknowledged or failed.
func (p Pending) Done() <-chan struct{} { return p.done }

// Offsets are the offsets the records get if the append succeeds. Until then
// they are provisional: after a failure they go to other records.
func (p Pending) Offsets() AppendResult { return p.result }

// Duplicate says of a batch of an idempotent producer that the log held it when it
// came, or a part of it that ended the log: nothing is written, or only what was
// missing.
func (p Pending) Duplicate() bool { return p.held > 0 }

// Refused says that Wait is going to refuse the append: nothing is written, and its
// Offsets are those of what has to be acknowledged before that can be said.
func (p Pending) Refused() bool { return p.refused != nil }

// Wait returns the outcome, as Append does. Each Wait is one observation for
// the append duration.
func (p Pending) Wait(ctx context.Context) (AppendResult, error) {
	if !signalled(ctx, p.done) {
		return AppendResult{}, p.unknown(ctx)
	}
	return p.outcome()
}

// signalled waits for done; false says that ctx ended first.
func signalled(ctx context.Context, done <-chan struct{}) bool {
	if ctx.Done() == nil {
		<-done
		return true
	}
	select {
	case <-done:
		return true
	default:
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p Pending) unknown(ctx context.Context) error {
	return &UnknownOutcomeError{Label: p.log.label, First: p.result.First, Last: p.result.Last, Cause: ctx.Err()}
}

// outcome is what a completed append gives.
func (p Pending) outcome() (AppendResult, error) {
	switch {
	case p.b != nil && p.b.err != nil:
		return AppendResult{}, p.b.err
	case p.refused != nil:
		return AppendResult{}, p.refused
	}
	records := p.result.Last - p.result.First + 1 - uint64(p.held)
	if s := p.log.store; records > 0 && s.observed() {
		s.observer.Appended(int(records), p.payloadBytes, time.Since(p.started))
	}
	return p.result, nil
}
