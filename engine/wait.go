package engine

import "context"

// WaitDurable returns once the record at offset is on the device. Under none
// nothing but Sync, a roll or closing brings that about.
func (l *Log) WaitDurable(ctx context.Context, offset uint64) error {
	return l.waitFor(ctx, "wait for durability", func() bool { return l.mu.durable > offset })
}

// WaitTail returns once readers can see the record at offset.
func (l *Log) WaitTail(ctx context.Context, offset uint64) error {
	return l.waitFor(ctx, "wait for the tail", func() bool { return l.tailLocked() > offset })
}

func (l *Log) waitFor(ctx context.Context, op string, reachedLocked func() bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		switch {
		case reachedLocked():
			return nil
		case l.mu.poison != nil:
			return l.mu.poison
		case l.mu.closed:
			return &ClosedError{Label: l.label}
		}
		if err := l.waitLocked(ctx); err != nil {
			return &LogError{Label: l.label, Op: op, Err: err}
		}
	}
}
