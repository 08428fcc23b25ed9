package engine

import (
	"context"
	"runtime"
)

// MarkTick is the work of one tick of the timer of marks, with a bound of the
// test's own.
func (s *Store) MarkTick(syncedMax int) func() { return s.markTick(syncedMax) }

// AwaitReservation returns once the active segment's reservation in flight, if any,
// has completed, and leaves it to the log to take note of that. No append may be under
// way.
func (l *Log) AwaitReservation() {
	l.mu.Lock()
	op := l.mu.active.reserve.op
	l.mu.Unlock()
	for op != nil && len(op.Done()) == 0 {
		runtime.Gosched()
	}
}

// AwaitProducersSaved returns once no snapshot of producers is on its way to the disk.
// Exclusive work may not be under way.
func (l *Log) AwaitProducersSaved() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.mu.produced.saving.next.view != nil && l.mu.poison == nil || l.mu.produced.saving.writing || l.mu.roll.sealing {
		_ = l.waitLocked(context.Background())
	}
}

// ProducerSaversMax is how many snapshots are written at a time.
const ProducerSaversMax = producerSaversMax
