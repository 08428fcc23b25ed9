package engine

import (
	"bytes"
	"context"
	"fmt"

	"felix.local/felix/segment"
)

// compare holds a shipment against the log, which ends at tail: the generation that
// wrote the record in front of it, where both know it, and every record that both
// hold. reason is "" when nothing differs; otherwise it says what does at offset. A
// shipment that begins past the tail is a *ShipmentGapError.
//
// Where one of the two does not know who wrote the record in front, nothing vouches
// for it unless it is committed or was compared before, at the same generation. Such
// a shipment is a *HistoryError: one that begins at the commit offset, or at the base,
// is compared byte for byte.
//
// Two logs of which the same generation wrote the record at an offset hold the same
// records up to there: a generation has one leader, and a leader ships what it has.
//
// A record behind the shipment differs, if it is of an older generation than the last
// one of it: generations rise along a log.
func (l *Log) compare(ctx context.Context, s Shipment, tail uint64) (offset uint64, reason string, err error) {
	l.mu.Lock()
	base := l.baseLocked()
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
	if end := s.Next(); end > max(s.First, base) && end < tail {
		theirs, known := s.generationAt(end - 1)
		if ours, knownHere := l.GenerationAt(end); known && knownHere && ours < theirs {
			return end, fmt.Sprintf("generation %d wrote it here, and there generation %d the one in front of it", ours, theirs), nil
		}
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
