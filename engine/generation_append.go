package engine

import "context"

// appendExclusive appends records for a caller that has the log to itself, while
// appends wait at the gate, and returns when they are acknowledged.
func (l *Log) appendExclusive(ctx context.Context, records ...Record) error {
	size, _, version, err := l.measure(records)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return &LogError{Label: l.label, Op: "append", Err: err}
	}
	if reason, ok := l.store.space.admit(size); !ok {
		l.store.counters.full.Add(1)
		return &FullError{Label: l.label, Guard: reason}
	}
	l.mu.Lock()
	l.replanLocked()
	b, _, err := l.putLocked(records, size, version)
	if err != nil {
		l.mu.Unlock()
		return err
	}
	// The commit loop's role is the caller's, and nothing else is staged.
	l.mu.staged = l.mu.staged[:0]
	l.mu.inFlight = b
	l.mu.Unlock()
	// Not by the commit journal, with which the role would go away.
	if file, ok := l.ready(b); ok {
		l.writeSegment(b, file)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.inFlight = nil
	return b.err
}
