package engine

import (
	"context"
	"errors"

	"felix.local/felix/segment"
	"felix.local/felix/sidecar"
)

// applyBytesMax is how much of a shipment is appended in one piece, a single record
// of more apart: a shipment may be larger than a segment should get.
const applyBytesMax = 256 << 10

// ApplyShipment brings the log level with its leader's as far as the shipment goes.
// When it returns, everything up to the shipment's end is acknowledged here under
// the log's fsync mode, and may be counted towards a majority.
//
// In order: the leader is accepted (AcceptGeneration, and its errors); appends of this
// broker's own are refused from here on, until it starts a generation, and those that
// are on their way end; the generation that wrote the record in front is compared, and
// what the log holds of the records, byte for byte, up to its end; what was held is
// labelled with the generations that wrote it; the others are appended at that end, with
// their timestamps and marks, a generation noted before its first record; the commit
// offset is raised to the leader's, as far as the two logs are known to be level.
//
// A difference is a *DivergedError, and a record in front that may differ is a
// *HistoryError; nothing was appended. A *ShipmentGapError says that records before
// these are missing. An append that fails answers as Append does, and what was appended
// before it stays, to be compared when it is sent again. A leader that was replaced
// meanwhile is a *SupersededError, one whose generation was given up
// a *GivenUpError: nothing is appended for it any more, and nothing that was is
// acknowledged to it. Shipments of one log are applied one at a time, and no record is
// dropped meanwhile.
func (l *Log) ApplyShipment(ctx context.Context, s Shipment) error {
	if err := s.check(l.label); err != nil {
		return err
	}
	done, err := l.takeTurn(ctx, l.applying, "apply")
	if err != nil {
		return err
	}
	defer done()
	if _, err := l.AcceptGeneration(ctx, s.Generation, s.Leader); err != nil {
		return err
	}
	tail, err := l.follow(ctx, s)
	if err != nil {
		return err
	}
	offset, diverged, err := l.compare(ctx, s, tail)
	switch {
	case err != nil:
		return err
	case diverged != "":
		return &DivergedError{Label: l.label, Offset: offset, Reason: diverged}
	}
	if err := l.labelHeld(ctx, s, tail); err != nil {
		return err
	}
	for next := tail; next < s.Next(); {
		n, err := l.applyPiece(ctx, s, next)
		if err != nil {
			return err
		}
		next += n
	}
	l.mu.Lock()
	err = l.followedLocked(s.Generation, s.Leader)
	if err == nil {
		l.mu.replication.level.reached(s.Generation, s.Next())
	}
	l.mu.Unlock()
	if err != nil {
		return err // its successor may have been told that the log ends earlier
	}
	return l.AdvanceCommitOffset(min(s.Commit, s.Next()))
}

// follow makes the log the leader's alone, and gives where it ends once all that was
// on its way has landed or failed: appends of this broker's own, from when it led, and
// shipments that were given up. None of them may land behind what is compared, or
// under the name of a generation that is noted for other records.
func (l *Log) follow(ctx context.Context, s Shipment) (tail uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.followedLocked(s.Generation, s.Leader); err != nil {
		return 0, err
	}
	l.mu.replication.following = true
	for l.mu.committing {
		if err := l.waitLocked(ctx); err != nil {
			return 0, &LogError{Label: l.label, Op: "apply", Err: err}
		}
	}
	if err := l.servingLocked(); err != nil {
		return 0, err
	}
	return l.mu.written, nil
}

// labelHeld notes who wrote the records of a shipment that were held and compared.
func (l *Log) labelHeld(ctx context.Context, s Shipment, tail uint64) error {
	_, _, err := l.changeHistory(ctx, &s, func(held sidecar.Epochs, base, _ uint64) sidecar.Epochs {
		return relabel(held, s.First, min(s.Next(), tail), base, tail, s.Generations)
	})
	return err
}

// applyPiece appends records of the shipment at next, where the log was found to end:
// one or more of one generation.
//
// First it is noted, durably, who wrote them, and only then is any of them staged. A
// power loss in between leaves a history that names a generation from the end of the
// log on, or none at all where the writer is unknown: that is true of every record
// there is, and gives way to the next shipment's. The other way round it would leave
// records under a former generation's name, and a leader that holds others under that
// name would be taken to hold these.
//
// A note whose records were refused is taken back, durably, or others that the log
// gets instead would bear the name. It stays where they may be there all the same: when
// the log was poisoned, or ctx ended while they were written.
func (l *Log) applyPiece(ctx context.Context, s Shipment, next uint64) (n uint64, err error) {
	was, noted, err := l.changeHistory(ctx, &s, func(held sidecar.Epochs, base, _ uint64) sidecar.Epochs {
		return noteAhead(held, next, base, s.Generations)
	})
	if err != nil {
		return 0, err
	}
	piece := s.piece(next)
	c := &claim{kind: claimShipped, first: next, generation: s.Generation}
	if _, err := l.appendClaimed(ctx, c, piece); err != nil {
		return 0, l.takeBack(was, noted, err)
	}
	return uint64(len(piece)), nil
}

// piece is what is appended at next in one step.
func (s Shipment) piece(next uint64) []Record {
	end := s.Next()
	for _, g := range s.Generations {
		if g.Start > next {
			end = min(end, g.Start)
		}
	}
	var piece []Record
	size := 0
	for _, r := range s.Records[next-s.First : end-s.First] {
		if size += segment.EncodedSize(r.Mark, len(r.Payload)); size > applyBytesMax && len(piece) > 0 {
			break
		}
		piece = append(piece, Record{Payload: r.Payload, TimestampMicros: r.TimestampMicros, Mark: r.Mark})
	}
	return piece
}

// noteAhead is the history of a log that begins at base and ends at next, for a record
// to come there that the leader says who wrote. Where it does not say, or where that
// does not follow from what is noted in front, nothing is known of what lies in front
// any more: a history names everything from its first entry on, and so the record
// would bear the name of the newest.
func noteAhead(held sidecar.Epochs, next, base uint64, entries []sidecar.Epoch) sidecar.Epochs {
	wrote, known := historyOf(entries).GenerationAt(next)
	if !known {
		return sidecar.Epochs{}
	}
	noted := relabel(held, next, next+1, base, next+1, entries)
	if named, _ := noted.GenerationAt(next); named != wrote {
		return historyOf([]sidecar.Epoch{{Generation: wrote, Start: next}})
	}
	return noted
}

// takeBack makes the history what it was, after the append that it was noted for
// failed with cause, unless something else was noted since.
func (l *Log) takeBack(was, noted sidecar.Epochs, cause error) error {
	var unknown *UnknownOutcomeError
	if errors.As(cause, &unknown) || sameHistory(was, noted) {
		return cause
	}
	unlock := l.takeSidecars()
	defer unlock()
	l.mu.Lock()
	there := l.servingLocked() == nil && sameHistory(l.mu.replication.epochs, noted)
	l.mu.Unlock()
	if !there {
		return cause
	}
	if err := l.storeEpochs(was); err != nil {
		return errors.Join(cause, err)
	}
	return cause
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
