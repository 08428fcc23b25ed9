package engine

// MarkTick is the work of one tick of the timer of marks, with a bound of the
// test's own.
func (s *Store) MarkTick(syncedMax int) func() { return s.markTick(syncedMax) }

// AwaitReservation returns once the active segment's reservation in flight, if any,
// has completed. No append may be under way.
func (l *Log) AwaitReservation() {
	l.mu.Lock()
	op := l.mu.active.reserve.op
	l.mu.Unlock()
	if op != nil {
		<-op.Done()
	}
}
