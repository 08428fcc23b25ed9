package engine

import (
	"context"
	"fmt"

	"felix.local/felix/producer"
)

// claim is an append that depends on how the log ends. It is decided under
// Log.mu, against the staged tail, in the step that stages the records: nothing
// comes between the two, and what a batch that fails takes with it is taken back
// before the next claim is decided.
type claim struct {
	kind  claimKind
	first uint64 // of claimAt and claimShipped
	// generation is the leader's that shipped the records.
	generation uint64
	batch      ProducerBatch

	// found is what the log held of the batch.
	found producer.Class
	// refused is the answer of a batch that can not be written, once what it waits
	// for is acknowledged.
	refused error
	// rests are the records that the answer of a claim that stages nothing rests on.
	// earlier is the batch on its way to the disk that has the last of them, nil when
	// they are acknowledged, and done its signal.
	rests   AppendResult
	earlier *batch
	done    chan struct{}
}

type claimKind uint8

const (
	claimProduced claimKind = iota
	claimContinued
	claimAt
	claimShipped
)

// decideLocked gives the records that are to be staged, none when the claim's
// answer says all.
func (c *claim) decideLocked(l *Log, records []Record) ([]Record, error) {
	c.found, c.refused, c.earlier, c.done = producer.Class{}, nil, nil, nil
	if c.kind != claimShipped {
		if err := l.ownLocked(); err != nil {
			return nil, err
		}
	}
	switch c.kind {
	case claimAt:
		if c.first != l.mu.plan.next {
			return nil, &OffsetMismatchError{Label: l.label, First: c.first, Tail: l.mu.plan.next}
		}
		return records, nil
	case claimShipped:
		return records, c.shippedLocked(l)
	case claimContinued:
		return c.continueLocked(l, records)
	default:
		return c.produceLocked(l, records)
	}
}

func (c *claim) continueLocked(l *Log, records []Record) ([]Record, error) {
	found := l.mu.produced.state.Classify(c.batch.Producer, c.batch.Sequence)
	if found.Verdict != producer.Partial {
		return nil, c.refusal(l, SequenceNotOpen)
	}
	if missing := found.Len - found.Held; uint64(len(records)) > uint64(missing) {
		return nil, &InvalidRangeError{Label: l.label, Reason: fmt.Sprintf(
			"%d records for a batch that lacks %d of %d", len(records), missing, found.Len)}
	}
	return records, nil
}

func (c *claim) produceLocked(l *Log, records []Record) ([]Record, error) {
	state := l.mu.produced.state
	n := uint32(len(records))
	c.found = c.batch.classify(state, n)
	switch c.found.Verdict {
	case producer.Next:
		return records, nil
	case producer.Unknown:
		if c.batch.Sequence != 0 {
			return nil, c.refusal(l, SequenceUnknown)
		}
		return records, nil
	case producer.Partial:
		held := records[:min(c.found.Held, n)]
		if c.found.Len != n || c.found.Digest.Contradicts(digestOf(held)) {
			return nil, c.refusal(l, SequenceReused)
		}
		return records[c.found.Held:], nil
	case producer.Held:
		return nil, c.restOnLocked(l, c.found)
	case producer.Expired:
		// Its producer takes the answer as that the batch was stored, so it rests on
		// all that is stored of it.
		c.refused = c.refusal(l, SequenceExpired)
		next, _ := state.NextSequence(c.batch.Producer)
		return nil, c.restOnLocked(l, state.Classify(c.batch.Producer, next-1))
	default:
		return nil, c.refusal(l, SequenceGap)
	}
}

func (c *claim) refusal(l *Log, reason SequenceReason) error {
	return &SequenceError{
		Label: l.label, Reason: reason, Producer: c.batch.Producer, Sequence: c.batch.Sequence,
		Expected: c.found.Expected,
	}
}

// restOnLocked makes the answer wait until what is held is acknowledged.
//
// It waits for the batch that carries the last record, never for the bound to pass
// the offset: after a failure the offset goes to another record, and the answer
// would say of a record that was lost that it is there.
func (c *claim) restOnLocked(l *Log, held producer.Class) error {
	c.rests = AppendResult{First: held.First, Last: held.Last}
	if b := l.carrierLocked(held.Last); b != nil {
		c.earlier, c.done = b, b.done
		return nil
	}
	if l.mu.poison != nil && held.Last >= l.mu.durable {
		return l.mu.poison
	}
	return nil
}

// carrierLocked is the staged batch, or the one in flight, that holds a record of
// a producer; nil when the record is acknowledged.
func (l *Log) carrierLocked(offset uint64) *batch {
	if b := l.mu.inFlight; b != nil && b.holds(offset) {
		return b
	}
	for _, b := range l.mu.staged {
		if b.holds(offset) {
			return b
		}
	}
	return nil
}

func (b *batch) holds(offset uint64) bool { return offset >= b.first && offset < b.next }

// resting is the handle of a claim that staged nothing: its answer, once what it
// rests on is acknowledged. The records are looked at before it returns.
func (c *claim) resting(l *Log, records []Record) Pending {
	p := Pending{log: l, b: c.earlier, done: c.done, result: c.rests, held: c.found.Len, refused: c.refused}
	if p.done == nil {
		p.done = make(chan struct{})
		close(p.done)
	}
	if p.refused == nil && (uint64(c.found.Len) != uint64(len(records)) || c.found.Digest.Contradicts(digestOf(records))) {
		p.refused = c.refusal(l, SequenceReused)
	}
	return p
}

// completes makes the handle of the records that a batch lacked that of the batch.
func (c *claim) completes(p *Pending) {
	if c.kind == claimProduced && c.found.Verdict == producer.Partial {
		p.result.First, p.held = c.found.First, c.found.Held
	}
}

func digestOf(records []Record) producer.Digest {
	d := producer.Digest{Known: true}
	for i := range records {
		d = d.With(records[i].Payload)
	}
	return d
}

// look decides a claim without staging anything: write says that there is
// something to write. It waits for exclusive work such as a truncation to end.
func (l *Log) look(ctx context.Context, c *claim, records []Record) (write bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.admitLocked(ctx); err != nil {
		return false, err
	}
	rest, err := c.decideLocked(l, records)
	return len(rest) > 0, err
}
