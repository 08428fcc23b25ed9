package engine

// MarkTick is the work of one tick of the timer of marks, with a bound of the
// test's own.
func (s *Store) MarkTick(syncedMax int) func() { return s.markTick(syncedMax) }
