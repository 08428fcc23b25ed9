package engine

import (
	"context"

	"felix.local/felix/segment"
)

// applyBytesMax is how much of a shipment is appended in one piece, a single record
// of more apart: a shipment may be larger than a segment should get.
const applyBytesMax = 256 << 10

// ApplyShipment brings the log level with its leader's as far as the shipment goes.
// When it returns, everything up to the shipment's end is acknowledged here under
// the log's fsync mode, and may be counted towards a majority.
//
// In order: the leader is accepted (AcceptGeneration, and its errors); the
// generation that wrote the record in front is compared, and what the log holds of
// the records, byte for byte; the others are appended at their offsets, with their
// timestamps and marks, a generation noted before its first record; what was held is
// labelled with the generations that wrote it; the commit offset is raised to the
// leader's, as far as the two logs are known to be level.
//
// A difference is a *DivergedError, and a record in front that may differ is a
// *HistoryError (FindDivergence); nothing was appended. A *ShipmentGapError says that
// records before these are missing. An append that fails answers as Append does, and
// what was appended before it stays, to be compared when it is sent again. A leader
// that was replaced meanwhile is a *SupersededError, one whose generation was given up
// a *GivenUpError: nothing is appended for it any more, and nothing that was is
// acknowledged to it. Shipments of one log are applied one at a time, and no record is
// dropped meanwhile.
func (l *Log) ApplyShipment(ctx context.Context, s Shipment) error {
	if err := s.check(l.label); err != nil {
		return err
	}
	done, err := l.applyTurn(ctx, "apply")
	if err != nil {
		return err
	}
	defer done()
	if _, err := l.AcceptGeneration(ctx, s.Generation, s.Leader); err != nil {
		return err
	}
	offset, diverged, err := l.FindDivergence(ctx, s)
	switch {
	case err != nil:
		return err
	case diverged != "":
		return &DivergedError{Label: l.label, Offset: offset, Reason: diverged}
	}
	if err := l.applyMissing(ctx, s); err != nil {
		return err
	}
	l.mu.Lock()
	tail, err := l.mu.written, l.followedLocked(s.Generation, s.Leader)
	if err == nil {
		l.mu.replication.level.reached(s.Generation, s.Next())
	}
	l.mu.Unlock()
	if err != nil {
		return err // its successor may have been told that the log ends earlier
	}
	if len(s.Generations) > 0 {
		if err := l.LabelGenerations(ctx, s.First, s.Next(), s.Generations); err != nil {
			return err
		}
	}
	return l.AdvanceCommitOffset(min(s.Commit, s.Next(), tail))
}

// applyTurn is the turn of applying a shipment, and of dropping records that one may
// be compared with.
func (l *Log) applyTurn(ctx context.Context, op string) (done func(), err error) {
	select {
	case l.applying <- struct{}{}: // free: ctx is not asked
	default:
		select {
		case l.applying <- struct{}{}:
		case <-ctx.Done():
			return nil, &LogError{Label: l.label, Op: op, Err: ctx.Err()}
		}
	}
	return func() { <-l.applying }, nil
}

// applyMissing appends what the log does not hold.
func (l *Log) applyMissing(ctx context.Context, s Shipment) error {
	for next := l.TailOffset(); next < s.Next(); {
		if next < s.First {
			return &ShipmentGapError{Label: l.label, First: s.First, Tail: next}
		}
		end, err := l.noteAhead(ctx, s, next)
		if err != nil {
			return err
		}
		var piece []Record
		size := 0
		for _, r := range s.Records[next-s.First : end-s.First] {
			if size += segment.EncodedSize(r.Mark, len(r.Payload)); size > applyBytesMax && len(piece) > 0 {
				break
			}
			piece = append(piece, Record{Payload: r.Payload, TimestampMicros: r.TimestampMicros, Mark: r.Mark})
		}
		c := &claim{kind: claimShipped, first: next, generation: s.Generation}
		if _, err := l.appendClaimed(ctx, c, piece); err != nil {
			return err
		}
		next += uint64(len(piece))
	}
	return nil
}

// noteAhead notes, durably, which generation wrote the record at next, where the log
// ends, if the shipment says so, and gives where the records of that one end. A crash
// between records and their label would leave them under a former generation's name,
// and a leader that holds others under that name would be taken to hold these.
func (l *Log) noteAhead(ctx context.Context, s Shipment, next uint64) (end uint64, err error) {
	end = s.Next()
	for _, g := range s.Generations {
		if g.Start > next {
			end = min(end, g.Start)
		}
	}
	generation, known := s.generationAt(next)
	if !known {
		return end, nil
	}
	unlock, err := l.lockSidecars(ctx, "label generations")
	if err != nil {
		return 0, err
	}
	defer unlock()
	l.mu.Lock()
	err = l.servingLocked()
	epochs, written := l.mu.replication.epochs, l.mu.written
	l.mu.Unlock()
	if err != nil || written != next {
		return end, err // the append finds out
	}
	stale := epochs.TruncateFrom(next)
	if !epochs.Record(generation, next) && !stale {
		return end, nil
	}
	return end, l.storeEpochs(epochs)
}

// shippedLocked decides about records of a shipment, in the step that stages them:
// a leader that was replaced since it was accepted adds nothing to the log.
func (c *claim) shippedLocked(l *Log) error {
	if err := l.followedLocked(c.generation, ""); err != nil {
		return err
	}
	if c.first != l.mu.plan.next {
		return &OffsetMismatchError{Label: l.label, First: c.first, Tail: l.mu.plan.next}
	}
	return nil
}
