package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Close drains what is staged, flushes in every mode, writes durable.mark and
// gives up the log's files. Later calls of any method answer *ClosedError.
//
// A poisoned log is closed without a further sync, which would prove nothing,
// and Close returns its *PoisonedError. When ctx ends first the error says how
// much was not flushed, and the log stays in the store, closed to new appends;
// what is under way goes on, and a later Close waits for it.
func (l *Log) Close(ctx context.Context) error {
	l.mu.Lock()
	l.mu.closing = true // what waits at the gate, and whatever comes, is refused
	job := l.mu.closeJob
	l.mu.Unlock()
	if job == nil {
		leave, err := l.exclusive(ctx, "close")
		if err != nil {
			if errors.Is(err, ErrClosed) {
				return err
			}
			return l.notClosed(err)
		}
		job = &closeJob{done: make(chan struct{})}
		l.mu.Lock()
		l.mu.closeJob = job
		l.mu.Unlock()
		go func() {
			defer close(job.done)
			job.err = l.finishClose(leave)
		}()
	}
	select {
	case <-job.done:
	default:
		select {
		case <-job.done:
		case <-ctx.Done():
			return l.notClosed(&LogError{Label: l.label, Op: "close", Err: ctx.Err()})
		}
	}
	if job.told.Swap(true) {
		return &ClosedError{Label: l.label}
	}
	return job.err
}

// closeJob does the disk work of closing, which may hang with the device while
// its caller has a deadline.
type closeJob struct {
	done chan struct{}
	err  error
	told atomic.Bool // somebody was given err
}

func (l *Log) notClosed(err error) error {
	return fmt.Errorf("%w (%d bytes not flushed)", err, l.UnsyncedBytes())
}

func (l *Log) finishClose(leave func()) error {
	// Whoever writes a small file ends before the log does, and finds it closed after.
	l.endSaving()
	unlock := l.takeSidecars()
	err := l.closeIdle()
	if err != nil {
		l.store.unclean.Store(true)
	}
	l.mu.Lock()
	l.mu.closed = true
	l.mu.viewVersion++
	files := []*openFile{l.mu.active.file}
	l.mu.active.file = nil
	// A poisoned log may still have both.
	if l.mu.retired != nil {
		files = append(files, l.mu.retired.file)
		l.mu.retired = nil
	}
	if l.mu.roll.prepared != nil {
		files = append(files, l.mu.roll.prepared.file)
		l.mu.roll.prepared = nil
	}
	l.notifyLocked()
	l.mu.Unlock()
	unlock()
	leave()
	for _, f := range files {
		if f != nil {
			f.release()
		}
	}
	l.store.writers.closed(l)
	l.store.sealed.drop(l, 0, true)
	l.store.mu.Lock()
	delete(l.store.mu.logs, l.name)
	l.store.mu.Unlock()
	return err
}

// closeIdle does the disk work of closing; the caller has the log to itself.
func (l *Log) closeIdle() error {
	l.awaitReservation()
	if poison := l.Poisoned(); poison != nil {
		return poison
	}
	if err := l.flushActive(); err != nil {
		return err
	}
	discarded := l.discardPrepared()
	if errors.Is(discarded, ErrPoisoned) {
		return discarded
	}
	l.dropReservation()
	l.saveProducersNow()
	l.writeIndex(true)
	if err := l.saveMark(true); err != nil {
		// Everything is durable; only the proof of it is older than it could be.
		return errors.Join(discarded, l.saveReplicaAtClose(), &LogError{Label: l.label, Op: "write durable.mark", Err: err})
	}
	return errors.Join(discarded, l.saveReplicaAtClose())
}
