package engine

import (
	"context"
	"math"

	"felix.local/felix/producer"
)

// ProducerBatch names a batch of an idempotent producer.
type ProducerBatch struct {
	// Producer is the producer's id, Sequence says which of its batches this is.
	Producer, Sequence uint64
	// Numbering is how the producer counts.
	Numbering Numbering
}

// ProducedResult is what an append of an idempotent producer came to.
type ProducedResult struct {
	// AppendResult are the offsets of the batch's records, wherever they come
	// from.
	AppendResult
	// Duplicate: the batch was in the log, and nothing was written, or only the
	// records that were missing at its end.
	Duplicate bool
}

// AppendProduced appends a batch of an idempotent producer, in one piece, unless
// the log holds it: then the answer is the offsets it got the first time, and is
// given once those records are acknowledged under the log's mode. However often
// a batch is tried again, over failures, restarts and truncations, the log holds
// each of its records once, as long as the producer does not try another batch
// before.
//
// The records bear no marks; the log makes them. A batch that is neither the
// next one nor held is refused with a *SequenceError and nothing is written. The
// other errors are those of Append. When ctx ends while an earlier try of the
// batch is under way, the error is an *UnknownOutcomeError as well.
//
// A batch of which the log ends with a part is completed; if records of others
// came behind the part, it is written again, whole.
func (l *Log) AppendProduced(ctx context.Context, batch ProducerBatch, records ...Record) (ProducedResult, error) {
	p, lead, err := l.stageProduced(ctx, batch, records, false)
	if err != nil {
		return ProducedResult{}, err
	}
	result, err := l.await(ctx, p, lead)
	if err != nil {
		return ProducedResult{}, err
	}
	return ProducedResult{AppendResult: result, Duplicate: p.Duplicate()}, nil
}

// AppendProducedAsync is AppendProduced as AppendAsync is Append: it returns once
// the batch has its place, so that a producer has several under way and they share
// flushes. Batches of one producer are given to it in the order of their sequences.
//
// What is decided at once is returned as an error: a gap, a producer that is not
// known. All else is the handle's: the handle of a batch that is on its way already
// completes with the append that carries it, and fails with it, and that of one that
// is acknowledged is complete. When a batch fails, all behind it fail too, and are
// not known to the log any more when their handles say so.
func (l *Log) AppendProducedAsync(ctx context.Context, batch ProducerBatch, records ...Record) (Pending, error) {
	p, lead, err := l.stageProduced(ctx, batch, records, true)
	if err != nil {
		return Pending{}, err
	}
	if lead {
		l.goOn(false)
	}
	return p, nil
}

// stageProduced stages what the log lacks of a producer's batch; see stage.
func (l *Log) stageProduced(ctx context.Context, batch ProducerBatch, records []Record, handle bool) (p Pending, lead bool, err error) {
	marked, err := l.markBatch(batch, records)
	if err != nil {
		return Pending{}, false, err
	}
	c := claim{kind: claimProduced, batch: batch}
	// An answer takes no staging memory and no room on the disk, so it does not
	// wait for them either. What is to be written is decided again when it is
	// staged.
	write, err := l.look(ctx, &c, marked)
	switch {
	case err != nil:
		return Pending{}, false, err
	case !write:
		return c.resting(l, marked), false, nil
	default:
		return l.stageClaimed(ctx, &c, marked, handle)
	}
}

// AppendAt is Append, but only if the records get the offsets from first on.
// Otherwise the error is an *OffsetMismatchError with the offset they would have
// got, which lies past the log's tail while other appends are under way.
func (l *Log) AppendAt(ctx context.Context, first uint64, records ...Record) (AppendResult, error) {
	return l.appendClaimed(ctx, &claim{kind: claimAt, first: first}, records)
}

// ContinueProduced appends further records of a batch of which the log ends with
// a part. The records bear no marks. When the log ends with something else the
// error is a *SequenceError for SequenceNotOpen; more records than the batch
// lacks are an *InvalidRangeError.
func (l *Log) ContinueProduced(ctx context.Context, id, sequence uint64, records ...Record) (AppendResult, error) {
	batch := ProducerBatch{Producer: id, Sequence: sequence}
	marked, err := l.markBatch(batch, records)
	if err != nil {
		return AppendResult{}, err
	}
	if len(marked) > 0 {
		marked[0].Mark = producer.Marks(id, sequence, 1)(1)
	}
	return l.appendClaimed(ctx, &claim{kind: claimContinued, batch: batch}, marked)
}

// ProducerSequence says what the log holds of a batch whose producer counts its
// batches, records that are on their way to the disk included.
func (l *Log) ProducerSequence(id, sequence uint64) producer.Class {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.produced.state.Classify(id, sequence)
}

// NextProducerSequence is the sequence that a producer who counts its batches
// sends next, when the log knows it; records that are on their way to the disk
// count.
func (l *Log) NextProducerSequence(id uint64) (sequence uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.produced.state.NextSequence(id)
}

// markBatch gives a copy of the records with the marks of a batch that they are
// all of.
func (l *Log) markBatch(batch ProducerBatch, records []Record) ([]Record, error) {
	if reason := batch.invalid(len(records)); reason != "" {
		return nil, &InvalidRangeError{Label: l.label, Reason: reason}
	}
	marks := producer.Marks(batch.Producer, batch.Sequence, uint32(len(records)))
	marked := make([]Record, len(records))
	for i := range records {
		if records[i].Mark.Kind != 0 {
			return nil, &InvalidRangeError{Label: l.label, Reason: "a record of a producer's batch came with a mark of its own"}
		}
		marked[i] = records[i]
		marked[i].Mark = marks(uint32(i))
	}
	return marked, nil
}

// invalid says why there can be no such batch of n records.
func (b ProducerBatch) invalid(n int) string {
	switch {
	case n == 0:
		return "a producer's batch needs at least one record"
	case b.Numbering > ByRecord:
		return b.Numbering.String() + " is no numbering"
	case uint64(n) > math.MaxUint32:
		return "a producer's batch has more records than its mark can count"
	case b.Numbering == ByRecord && (b.Sequence >= recordSequences || uint64(n) >= recordSequences):
		return "sequences that count records, and the number of records, are below 2^31"
	default:
		return ""
	}
}

// appendClaimed appends what a claim allows.
func (l *Log) appendClaimed(ctx context.Context, c *claim, records []Record) (AppendResult, error) {
	p, lead, err := l.stageClaimed(ctx, c, records, false)
	if err != nil {
		return AppendResult{}, err
	}
	return l.await(ctx, p, lead)
}

// stageClaimed stages what a claim allows; see stage.
func (l *Log) stageClaimed(ctx context.Context, c *claim, records []Record, handle bool) (p Pending, lead bool, err error) {
	p, lead, err = l.stage(ctx, records, handle, c)
	switch {
	case err != nil:
		return Pending{}, false, err
	case p.b == nil:
		return c.resting(l, records), false, nil
	default:
		c.completes(&p)
		return p, lead, nil
	}
}
