package engine

import "fmt"

// GenerationEnds answers as GenerationEnd does, for another log: one past the last
// offset that a generation wrote there, and false for a generation it does not know.
type GenerationEnds func(generation uint64) (end uint64, known bool)

// TruncationPoint tells from where on a follower's records have to go, so that it
// holds nothing but what its leader holds; the tail when nothing has to. diverged is
// the Offset of the *DivergedError that says the two differ. The leader has to be
// accepted first. As with ApplyShipment, appends of this broker's own are refused from
// here on: behind the cut they would bear the name of the generation that is the newest
// then.
//
// It is where the newest generation that both logs know ends in the one or in the
// other, whichever is lower: up to there the records are that generation's or older,
// and the same. Only what an older generation than the leader's wrote may be
// dropped. It fails with a *HistoryError when no generation is known to both, when
// the two histories contradict each other, or when that point lies past diverged: two
// records of one generation differ then, and no truncation that the generations call
// for removes the difference. It fails with a *BelowCommitError when a committed
// record would have to go.
func (l *Log) TruncationPoint(diverged uint64, leader GenerationEnds) (uint64, error) {
	l.mu.Lock()
	r := &l.mu.replication
	entries, accepted, tail := r.epochs.Entries(), r.promise.Generation, l.mu.written
	r.following = r.following || accepted > 0
	l.mu.Unlock()
	if len(entries) == 0 {
		return 0, &HistoryError{Label: l.label, Reason: "no history of generations is held here"}
	}
	own := tail
	for i := len(entries) - 1; i >= 0; i-- {
		e := entries[i]
		if theirs, known := leader(e.Generation); known {
			cut := min(own, theirs)
			if cut > diverged {
				return 0, &HistoryError{Label: l.label, Reason: fmt.Sprintf(
					"record %d differs, and by generation %d, which both know, the two logs are the same up to %d", diverged, e.Generation, cut)}
			}
			return l.cutAt(e.Generation, e.Start, cut, accepted, tail)
		}
		own = e.Start
	}
	return 0, &HistoryError{Label: l.label, Reason: fmt.Sprintf(
		"its leader knows none of the generations %d to %d", entries[0].Generation, entries[len(entries)-1].Generation)}
}

// cutAt checks a point that the common generation, which begins at start, gives.
func (l *Log) cutAt(common, start, cut, accepted, tail uint64) (uint64, error) {
	switch {
	case cut >= tail:
		return tail, nil
	case cut < start:
		return 0, &HistoryError{Label: l.label, Reason: fmt.Sprintf(
			"generation %d ends at %d there and begins at %d here", common, cut, start)}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if newest, _ := l.mu.replication.epochs.Newest(); newest.Generation >= accepted && newest.Start < tail {
		return 0, &HistoryError{Label: l.label, Reason: fmt.Sprintf(
			"records from %d on are missing in the leader's log, and generation %d, which it leads, wrote those here", cut, newest.Generation)}
	}
	return cut, l.belowCommitLocked(cut)
}
