package engine

import (
	"context"
	"fmt"
	"slices"

	"felix.local/felix/sidecar"
)

// Generations tells which generation wrote which records, oldest first.
func (l *Log) Generations() []sidecar.Epoch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.replication.epochs.Entries()
}

// GenerationAt is the generation that wrote the record at an offset; false for one
// from before the history begins.
func (l *Log) GenerationAt(offset uint64) (uint64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.replication.epochs.GenerationAt(offset)
}

// GenerationEnd is one past the last offset that a generation wrote in a log that
// ends at tail: where the next one begins, or tail. It is false for a generation
// that is not in the history.
func (l *Log) GenerationEnd(generation, tail uint64) (uint64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.replication.epochs.EndOf(generation, tail)
}

// RecordGeneration notes, durably, that a generation writes the records from start
// on. One that is not newer than the newest is known already, and nothing changes.
// A start past what was written, or in front of the newest generation's, is an
// *InvalidRangeError.
//
// The note comes first: a leader records its generation before its first append,
// or a crash between the two would leave records under a former generation's name.
func (l *Log) RecordGeneration(ctx context.Context, generation, start uint64) error {
	unlock, err := l.takeTurn(ctx, l.sidecars, "record generation")
	if err != nil {
		return err
	}
	defer unlock()
	return l.recordGeneration(generation, start)
}

// recordGeneration is for a caller that has the turn.
func (l *Log) recordGeneration(generation, start uint64) error {
	l.mu.Lock()
	err := l.servingLocked()
	epochs, written := l.mu.replication.epochs, l.mu.written
	l.mu.Unlock()
	newest, any := epochs.Newest()
	switch {
	case err != nil:
		return err
	case any && generation <= newest.Generation:
		return nil
	case start > written || any && start < newest.Start:
		return &InvalidRangeError{Label: l.label, Reason: fmt.Sprintf(
			"generation %d was to begin at %d; the newest begins at %d and the log ends at %d", generation, start, newest.Start, written)}
	}
	epochs.Record(generation, start)
	return l.storeEpochs(epochs)
}

// LabelGenerations notes, durably, which generations wrote the records of [from, to),
// as far as they are held, as their leader says: entries are its history as far as it
// covers them, the first of which may begin below from. What was noted about these
// records before goes; what is noted of those behind them stays, and of those in front
// of entries, of which the leader does not know who wrote them. Where no history can
// say both, because generations would fall or what is noted nowhere would get a name,
// nothing changes. Generations that begin at the end of the log or past it are left
// out: a label for records that are not held would be taken for a reason to keep others.
func (l *Log) LabelGenerations(ctx context.Context, from, to uint64, entries []sidecar.Epoch) error {
	_, _, err := l.changeHistory(ctx, nil, func(held sidecar.Epochs, base, tail uint64) sidecar.Epochs {
		return relabel(held, from, min(to, tail), base, tail, entries)
	})
	return err
}

// changeHistory stores what change makes of the history of a log that holds [base,
// tail), durably, and gives both. A change for a shipment, which may be nil, is refused
// once its leader was replaced: nobody is promised anything while it is made.
func (l *Log) changeHistory(ctx context.Context, s *Shipment, change func(held sidecar.Epochs, base, tail uint64) sidecar.Epochs) (was, is sidecar.Epochs, err error) {
	unlock, err := l.takeTurn(ctx, l.sidecars, "label generations")
	if err != nil {
		return was, is, err
	}
	defer unlock()
	l.mu.Lock()
	err = l.servingLocked()
	if err == nil && s != nil {
		err = l.followedLocked(s.Generation, s.Leader)
	}
	was, base, tail := l.mu.replication.epochs, l.baseLocked(), l.mu.written
	l.mu.Unlock()
	if err != nil {
		return was, was, err
	}
	if is = change(was, base, tail); !sameHistory(was, is) {
		err = l.storeEpochs(is)
	}
	return was, is, err
}

func sameHistory(a, b sidecar.Epochs) bool { return slices.Equal(a.Entries(), b.Entries()) }

// relabel is the history of a log that holds [base, tail), after its records of
// [from, to) were labelled with entries; what it was, where they do not fit into it.
func relabel(held sidecar.Epochs, from, to, base, tail uint64, entries []sidecar.Epoch) sidecar.Epochs {
	if len(entries) == 0 {
		return held
	}
	from = max(from, entries[0].Start)
	if to <= base || to <= from {
		return held
	}
	labelled := held
	labelled.TruncateFrom(from)
	at := []uint64{from}
	for i, e := range entries {
		switch {
		case e.Start >= to:
		case e.Start > from:
			at = append(at, e.Start)
			labelled.Record(e.Generation, e.Start)
		case e.Start == from || from <= base:
			labelled.Record(e.Generation, e.Start)
		case i == len(entries)-1 || entries[i+1].Start > from:
			labelled.Record(e.Generation, from) // about what lies before, this log's own history speaks
		}
	}
	for _, e := range notedFrom(held, to, tail) {
		labelled.Record(e.Generation, e.Start)
	}
	theirs := historyOf(entries)
	for _, offset := range at {
		if !sayTheSame(labelled, theirs, offset) {
			return held
		}
	}
	if to < tail && !sayTheSame(labelled, held, to) {
		return held
	}
	return labelled
}

// sayTheSame: the two name the same generation for a record, or both none.
func sayTheSame(a, b sidecar.Epochs, offset uint64) bool {
	one, known := a.GenerationAt(offset)
	other, knownToo := b.GenerationAt(offset)
	return one == other && known == knownToo
}

func historyOf(entries []sidecar.Epoch) (e sidecar.Epochs) {
	for _, g := range entries {
		e.Record(g.Generation, g.Start)
	}
	return e
}

// notedFrom is what a history says of the records of [from, tail).
func notedFrom(held sidecar.Epochs, from, tail uint64) []sidecar.Epoch {
	if from >= tail {
		return nil
	}
	entries := held.Entries()
	for i, e := range entries {
		switch {
		case e.Start >= from:
			return entries[i:]
		case i == len(entries)-1 || entries[i+1].Start > from:
			entries[i].Start = from
			return entries[i:]
		}
	}
	return nil
}

// storeEpochs writes the history. The caller has the turn.
func (l *Log) storeEpochs(epochs sidecar.Epochs) error {
	if err := l.replaceFile(sidecar.EpochsName, epochs.AppendTo(nil)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.replication.epochs = epochs
	l.notifyLocked()
	return nil
}

// cutGenerations drops the generations that begin at offset or behind it, with the
// records that were cut there. The caller has the log to itself, and the turn.
//
// It comes after the cut: before it, a crash would leave records under a former
// generation's name. A crash in between leaves generations past the tail, which the
// next open drops. A failure poisons.
func (l *Log) cutGenerations(offset uint64) error {
	l.mu.Lock()
	epochs := l.mu.replication.epochs
	changed := epochs.TruncateFrom(offset)
	l.mu.Unlock()
	if !changed {
		return nil
	}
	if err := l.storeEpochs(epochs); err != nil {
		return l.poisonWith(err)
	}
	return nil
}
