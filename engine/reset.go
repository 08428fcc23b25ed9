package engine

import (
	"context"
	"fmt"
)

// ResetTo empties the log and has it begin at base, in front of or behind where it
// was: a replica is rebuilt from what its leader still holds. What was accepted,
// and the commit offset, stay; the generations go with the records.
//
// It is refused with a *BelowCommitError while a record would go that is committed
// and that the leader's log, from base on, holds no more of than this one does.
//
// Order, so that a crash leaves the log with a beginning of its records, or empty
// where it began, or empty at base: all copies that offload.manifest names, those of
// records that are not held here any more too, are taken out of it; the records are
// truncated; the history of
// generations is emptied; a segment that begins at base takes the place of the
// empty one, created first; the mark follows. A failure after the first change
// poisons.
func (l *Log) ResetTo(ctx context.Context, base uint64) error {
	leave, err := l.alone(ctx, "reset")
	if err != nil {
		return err
	}
	defer leave()
	l.mu.Lock()
	held := l.baseLocked()
	committed := l.belowCommitLocked(max(held, base))
	if committed == nil {
		l.mu.replication.level = level{}
	}
	l.mu.Unlock()
	if committed != nil {
		return committed
	}
	if err := l.dropCopies(0); err != nil {
		return err
	}
	// Also when there is no record: what is known of producers goes with it.
	if err := l.cutBack(ctx, held); err != nil {
		return err
	}
	if err := l.cutGenerations(0); err != nil || base == held {
		return err
	}
	if err := l.moveTo(base); err != nil {
		return l.poisonWith(err)
	}
	return nil
}

// moveTo has an empty log begin at base.
func (l *Log) moveTo(base uint64) error {
	if l.mu.active.hasRecords() || l.baseLocked() != l.mu.active.base {
		panic(fmt.Sprintf("engine: %s was to begin at %d and holds records", l.label, base))
	}
	if err := l.replaceEmpty(base); err != nil {
		return err
	}
	if err := l.saveMark(true); err != nil {
		return err
	}
	return l.dropSnapshots()
}
