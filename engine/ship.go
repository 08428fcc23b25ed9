package engine

import (
	"context"
	"fmt"
	"slices"

	"felix.local/felix/segment"
	"felix.local/felix/sidecar"
)

// Replication ships records from the log of a leader to that of a follower, in
// pieces; how they travel is its caller's matter. The leader's part is to start its
// generation and to read:
//
//	AcceptGeneration(its generation, itself) ─ StartGeneration ─
//	ReadShipment(where the follower's log ends) … AdvanceCommitOffset(what a majority holds)
//
// It names its generation and itself each time: once it was replaced, it is told so.
// Its own appends are refused from the first shipment of another leader on, until it
// starts a generation again.
//
// The follower's is to apply, and to repair where its log differs:
//
//	ApplyShipment ── *ShipmentGapError: ask from Tail on, or ResetTo(First) when the
//	      │          leader holds nothing older
//	      │ *HistoryError: ask from CommitOffset on, or the base if that is higher, so
//	      │          that the bytes decide
//	      └ *DivergedError: AcceptGeneration ─ TruncationPoint(its Offset,
//	                 the leader's generations) ─ Truncate ─ ask again from there
//	                 └ *HistoryError, *BelowCommitError: an operator, or ResetTo
//
// A shipment holds records exactly as the leader stores them: offsets, timestamps,
// marks of producers, and the records that start a generation.

// Shipment is a piece of a leader's log.
type Shipment struct {
	// Generation is the one that the sender leads at, Leader its node id, "" when it
	// is not named.
	Generation uint64
	Leader     string
	// First is the offset of the first record, or where it would be.
	First uint64
	// Records have consecutive offsets from First on; there may be none. One without
	// a timestamp gets the follower's time.
	Records []segment.Record
	// Generations is the part of the leader's history that says who wrote the record
	// in front of First and those from there on, oldest first, sidecar.EpochsMax at
	// most, none newer than Generation. It is empty where the leader does not know, and
	// says nothing of records in front of the first.
	Generations []sidecar.Epoch
	// Base, Tail and Commit are the leader's base, tail and commit offset.
	Base, Tail, Commit uint64
}

// Next is one past the last record.
func (s Shipment) Next() uint64 { return s.First + uint64(len(s.Records)) }

// generationAt is who wrote a record, as far as the shipment says.
func (s Shipment) generationAt(offset uint64) (uint64, bool) {
	return historyOf(s.Generations).GenerationAt(offset)
}

// check refuses a shipment that is none.
func (s Shipment) check(label string) error {
	for i := range s.Records {
		r := &s.Records[i]
		want := s.First + uint64(i)
		if r.Offset != want || want < s.First || want+1 == 0 {
			return &InvalidRangeError{Label: label, Reason: fmt.Sprintf("a shipment holds record %d where %d belongs", r.Offset, want)}
		}
		if reason := unwritable(r.Mark, r.Payload); reason != "" {
			return &UnsupportedError{Label: label, Reason: fmt.Sprintf("record %d of a shipment %s", r.Offset, reason)}
		}
	}
	if n := len(s.Generations); n > sidecar.EpochsMax {
		return &InvalidRangeError{Label: label, Reason: fmt.Sprintf(
			"a shipment says of %d generations who wrote it; a history holds %d", n, sidecar.EpochsMax)}
	}
	for i := 1; i < len(s.Generations); i++ {
		former, g := s.Generations[i-1], s.Generations[i]
		if g.Generation <= former.Generation || g.Start < former.Start {
			return &InvalidRangeError{Label: label, Reason: fmt.Sprintf(
				"a shipment's generation %d from offset %d on stands behind %d from %d on", g.Generation, g.Start, former.Generation, former.Start)}
		}
	}
	if n := len(s.Generations); n > 0 && s.Generations[n-1].Generation > s.Generation {
		return &InvalidRangeError{Label: label, Reason: fmt.Sprintf(
			"a shipment of generation %d says that %d wrote records of it", s.Generation, s.Generations[n-1].Generation)}
	}
	return nil
}

// Sealed describes the segments that get no further record, oldest first.
func (l *Log) Sealed() []segment.Descriptor {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.mu.sealed)
}

// ReadShipment reads what a follower whose log ends at from is to get next: records
// up to maxBytes of payload, at least one if there is one, with what the follower
// has to know beside them. At the tail the shipment has no record and still says
// who leads and what is committed. Below the base the error is a *TrimmedError, past
// the tail, where the follower holds what this log does not, a *DivergedError.
//
// generation and leader, a node id, are who the caller leads as. When this log does
// not follow that leader any more, the error is one of AcceptGeneration's: a leader
// that was replaced ships nothing under its successor's name. A generation that was
// not accepted here yet is an *InvalidRangeError.
func (l *Log) ReadShipment(ctx context.Context, generation uint64, leader string, from uint64, maxBytes int64) (Shipment, error) {
	for range replanMax {
		l.mu.Lock()
		view, tail, err := l.mu.viewVersion, l.tailLocked(), l.followedLocked(generation, leader)
		l.mu.Unlock()
		if err != nil {
			return Shipment{}, err
		}
		if from > tail {
			return Shipment{}, &DivergedError{Label: l.label, Offset: tail, Reason: fmt.Sprintf(
				"records from %d on were asked for; the leader's log ends here", from)}
		}
		records, err := l.ReadStored(ctx, from, maxBytes, l.cfg.MaxRecordsPerRead)
		if err != nil {
			return Shipment{}, err
		}
		// A generation is noted before its first record can be read, so the history
		// as it is now covers what was read, unless records were cut meanwhile.
		s := Shipment{Generation: generation, Leader: leader, First: from, Records: records}
		if same, err := l.completeShipment(&s, view); same || err != nil {
			return s, err
		}
	}
	return Shipment{}, &LogError{Label: l.label, Op: "read", Err: errReplan}
}

// completeShipment adds what goes with the records, as long as its sender leads; not
// same when the log was cut since view.
func (l *Log) completeShipment(s *Shipment, view uint64) (same bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.followedLocked(s.Generation, s.Leader); err != nil {
		*s = Shipment{}
		return false, err
	}
	r := &l.mu.replication
	s.Base, s.Tail, s.Commit = l.baseLocked(), l.tailLocked(), r.commit
	for _, e := range r.epochs.Entries() {
		switch {
		case e.Start < s.First: // the newest of these wrote the record in front
			s.Generations = append(s.Generations[:0], e)
		case e.Start < s.Next():
			s.Generations = append(s.Generations, e)
		}
	}
	return l.mu.viewVersion == view, nil
}
