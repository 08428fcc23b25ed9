package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// dirtyLists hold the logs that the timers have something to do for, so that
// idle logs cost nothing.
type dirtyLists struct {
	sync.Mutex
	flush, mark, commit []*Log
}

// becameDirty puts a log on the timers' lists after its bounds moved; flush says
// that it has bytes a power loss would take.
func (s *Store) becameDirty(l *Log, flush bool) {
	s.listMark(l)
	if flush && l.cfg.FsyncMode == FsyncPeriodic && l.flushListed.CompareAndSwap(false, true) {
		s.dirty.Lock()
		s.dirty.flush = append(s.dirty.flush, l)
		s.dirty.Unlock()
	}
}

func (s *Store) listMark(l *Log) {
	if l.markListed.CompareAndSwap(false, true) {
		s.dirty.Lock()
		s.dirty.mark = append(s.dirty.mark, l)
		s.dirty.Unlock()
	}
}

func (s *Store) listCommit(l *Log) {
	if l.commitListed.CompareAndSwap(false, true) {
		s.dirty.Lock()
		s.dirty.commit = append(s.dirty.commit, l)
		s.dirty.Unlock()
	}
}

// take empties a list. Each log is taken off before its state is read, so that a
// change after the reading lists it again.
func (d *dirtyLists) take(list *[]*Log, listed func(*Log) *atomic.Bool) []*Log {
	d.Lock()
	defer d.Unlock()
	logs := *list
	*list = nil
	for _, l := range logs {
		listed(l).Store(false)
	}
	return logs
}

func (s *Store) takeFlushList() []*Log {
	return s.dirty.take(&s.dirty.flush, func(l *Log) *atomic.Bool { return &l.flushListed })
}

func (s *Store) takeMarkList() []*Log {
	return s.dirty.take(&s.dirty.mark, func(l *Log) *atomic.Bool { return &l.markListed })
}

func (s *Store) takeCommitList() []*Log {
	return s.dirty.take(&s.dirty.commit, func(l *Log) *atomic.Bool { return &l.commitListed })
}

// every runs work at each tick until the store closes. Ticks that pass while
// work runs are dropped.
func (s *Store) every(interval time.Duration, work func()) {
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-ticker.C:
				work()
			}
		}
	}()
}

// lazyMarkInterval is how often marks that moved are handed to the page cache:
// often enough that a killed process leaves a mark that vouches for nearly
// everything it acknowledged.
const lazyMarkInterval = 100 * time.Millisecond

// backendWatchInterval is how long logs that submit nothing may go on after the
// backend broke.
const backendWatchInterval = 100 * time.Millisecond

// syncedMarksPerTick bounds the durable writes of marks that one tick adds to
// those of commits; the rest has its turn at the next tick.
const syncedMarksPerTick = 1024

func (s *Store) startTimers() {
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		s.space.run(s.stop)
	}()
	s.every(lazyMarkInterval, s.markTick(syncedMarksPerTick))
	s.every(backendWatchInterval, s.watchBackend)
	s.every(commitSaveInterval, s.saveCommits)
}

// needTimers starts the timers that only some logs need, with the first that
// does. A store that is closing starts none: it flushes what it closes.
func (s *Store) needTimers(l *Log) {
	flush, retain := l.cfg.FsyncMode == FsyncPeriodic, l.retains()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return // nothing is added to running any more
	}
	if flush && !s.mu.flushTimer {
		s.mu.flushTimer = true
		s.every(s.cfg.FsyncInterval, s.flushTick)
	}
	if retain && s.cfg.RetentionInterval > 0 && !s.mu.retentionTimer {
		s.mu.retentionTimer = true
		s.every(s.cfg.RetentionInterval, s.enforceRetention)
	}
}

// flushTick flushes what is dirty. The next tick does not wait for a flush that
// hangs.
func (s *Store) flushTick() {
	s.running.Add(1)
	logs := s.takeFlushList()
	go func() {
		defer s.running.Done()
		s.flushLogs(logs, nil)
	}()
}

// markTick gives the work of one mark tick: every mark that moved goes to the
// page cache, and once per MarkSyncInterval those that moved since are made
// durable, at most syncedMax in one tick.
func (s *Store) markTick(syncedMax int) func() {
	synced := time.Now()
	var moved []*Log
	return func() {
		logs := s.takeMarkList()
		s.saveMarks(logs, false)
		if s.cfg.MarkSyncInterval == 0 {
			return
		}
		moved = append(moved, logs...)
		if time.Since(synced) < s.cfg.MarkSyncInterval {
			return
		}
		moved = dedupe(moved)
		turn := moved[:min(syncedMax, len(moved))]
		s.saveMarks(turn, true)
		if moved = moved[len(turn):]; len(moved) == 0 {
			synced, moved = time.Now(), nil
		}
	}
}

// enforceRetention makes a pass over all logs that may have something to let go
// of; closing the store ends it.
func (s *Store) enforceRetention() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-s.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	for _, l := range s.logs() {
		if !l.retains() {
			continue
		}
		_, err := l.EnforceRetention(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrClosed) || errors.Is(err, ErrPoisoned) {
			continue
		}
		s.logger.Warn("retention failed; it is tried again at the next interval", "log", l.label, "error", err)
	}
}

func dedupe(logs []*Log) []*Log {
	seen := make(map[*Log]bool, len(logs))
	out := logs[:0]
	for _, l := range logs {
		if !seen[l] {
			seen[l] = true
			out = append(out, l)
		}
	}
	return out
}
