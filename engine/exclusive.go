package engine

import "context"

// exclusive keeps everything else away from the log's files until leave is called.
//
// maintenance is taken first, so that one such piece of work waits for another
// without holding anything an appender takes.
func (l *Log) exclusive(ctx context.Context, op string) (leave func(), err error) {
	done, err := l.takeTurn(ctx, l.maintenance, op)
	if err != nil {
		return nil, err
	}
	readmit, err := l.shutOut(ctx, op)
	if err != nil {
		done()
		return nil, err
	}
	return func() {
		readmit()
		done()
	}, nil
}

// shutOut is exclusive for a caller that holds maintenance: new appends wait at
// the gate, and what is staged, flushing, marking or rolling in the background
// has ended when it returns. readmit opens the gate again; other maintenance still
// waits, so that what none but maintenance changes stays as it is.
func (l *Log) shutOut(ctx context.Context, op string) (readmit func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return nil, &ClosedError{Label: l.label}
	}
	l.mu.gate = make(chan struct{})
	for l.mu.committing || l.mu.flushing || l.mu.marking || l.mu.roll.preparing || l.mu.roll.sealing || l.mu.produced.saving.writing {
		if err := l.waitLocked(ctx); err != nil {
			l.openGateLocked()
			return nil, &LogError{Label: l.label, Op: op, Err: err}
		}
	}
	// From here to readmit this goroutine has the commit loop's role, and no pass
	// of the flush timer or of Sync begins while the gate is closed.
	l.mu.committing = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.mu.committing = false
		l.replanLocked()
		l.openGateLocked()
	}, nil
}

func (l *Log) openGateLocked() {
	close(l.mu.gate)
	l.mu.gate = nil
	l.askToSaveLocked()
	l.notifyLocked()
}

// takeTurn takes maintenance, sidecars or applying, until done is called.
func (l *Log) takeTurn(ctx context.Context, turn chan struct{}, op string) (done func(), err error) {
	select {
	case turn <- struct{}{}: // free: ctx is not asked
	default:
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			return nil, &LogError{Label: l.label, Op: op, Err: ctx.Err()}
		}
	}
	return func() { <-turn }, nil
}

// takeSidecars is takeTurn for the small files and those who cannot give up.
func (l *Log) takeSidecars() (done func()) {
	l.sidecars <- struct{}{}
	return func() { <-l.sidecars }
}
