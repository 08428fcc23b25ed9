package engine

import (
	"bytes"
	"context"
	"fmt"

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
// labelled with the generations that wrote it; the
// commit offset is raised to the leader's, as far as the two logs are known to be
// level.
//
// A difference is a *DivergedError and nothing was appended. A *ShipmentGapError
// says that records before these are missing. An append that fails answers as
// Append does, and what was appended before it stays, to be compared when it is sent
// again. A leader that was replaced meanwhile is a *SupersededError, one whose
// generation was given up a *GivenUpError: nothing is appended for it any more, and
// nothing that was is acknowledged to it. Shipments of one log are applied one at a time, and no
// record is dropped meanwhile.
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

// FindDivergence compares a shipment with the log: the generation that wrote the
// record in front of it, where both know it, and every record that both hold.
// reason is "" when nothing differs; otherwise it says what does at offset. A
// shipment that begins past the tail is a *ShipmentGapError.
//
// Where one of the two does not know who wrote the record in front, nothing vouches
// for it unless it is committed or was compared before, at the same generation. Such
// a shipment is a *HistoryError: one that begins at the commit offset, or at the base,
// is compared byte for byte.
//
// Two logs of which the same generation wrote the record at an offset hold the same
// records up to there: a generation has one leader, and a leader ships what it has.
func (l *Log) FindDivergence(ctx context.Context, s Shipment) (offset uint64, reason string, err error) {
	l.mu.Lock()
	base, tail := l.baseLocked(), l.tailLocked()
	commit, level := l.mu.replication.commit, l.mu.replication.level
	l.mu.Unlock()
	if s.First > tail {
		return 0, "", &ShipmentGapError{Label: l.label, First: s.First, Tail: tail}
	}
	if s.First > base {
		theirs, known := s.generationAt(s.First - 1)
		ours, knownHere := l.GenerationAt(s.First - 1)
		switch {
		case known && knownHere && theirs != ours:
			return s.First - 1, fmt.Sprintf("generation %d wrote it here and generation %d there", ours, theirs), nil
		case known && knownHere || s.First <= commit || level.covers(s.Generation, s.First):
		default:
			return 0, "", &HistoryError{Label: l.label, Reason: fmt.Sprintf(
				"who wrote record %d is not known in both logs, and those sent follow it; have the records from offset %d on sent, to be compared",
				s.First-1, max(base, commit))}
		}
	}
	for next, end := max(s.First, base), min(s.Next(), tail); next < end; {
		page, err := l.ReadStored(ctx, next, applyBytesMax, int(min(end-next, 1<<20)))
		if err != nil {
			return 0, "", err
		}
		if len(page) == 0 {
			return 0, "", &LogError{Label: l.label, Op: "compare", Err: errReplan}
		}
		for i := range page {
			if reason := differs(&page[i], &s.Records[page[i].Offset-s.First]); reason != "" {
				return page[i].Offset, reason, nil
			}
		}
		next = page[len(page)-1].Offset + 1
	}
	return 0, "", nil
}

// level is how far a log was found to hold what the leader of a generation holds.
type level struct{ generation, next uint64 }

// reached notes that the two are level up to next. A leader's log only grows.
func (v *level) reached(generation, next uint64) {
	if v.generation == generation {
		next = max(next, v.next)
	}
	*v = level{generation, next}
}

func (v level) covers(generation, next uint64) bool {
	return v.generation == generation && next <= v.next
}

// differs says in what a record that is held is not the one that was sent.
func differs(held, sent *segment.Record) string {
	switch {
	case held.Mark != sent.Mark:
		return fmt.Sprintf("%+v here and %+v there", held.Mark, sent.Mark)
	case sent.TimestampMicros != 0 && held.TimestampMicros != sent.TimestampMicros:
		return fmt.Sprintf("published at %d µs here and at %d µs there", held.TimestampMicros, sent.TimestampMicros)
	case !bytes.Equal(held.Payload, sent.Payload):
		return fmt.Sprintf("another payload, of %d bytes here and of %d there", len(held.Payload), len(sent.Payload))
	default:
		return ""
	}
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
