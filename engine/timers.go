package engine

import (
	"context"
	"sync"
	"time"
)

// dirtyLists hold the logs that the timers have something to do for, so that
// idle logs cost nothing.
type dirtyLists struct {
	sync.Mutex
	flush, mark []*Log
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

// takeDirty empties a list. Each log is taken off before its state is read, so
// that a change after the reading lists it again.
func (s *Store) takeFlushList() []*Log {
	s.dirty.Lock()
	defer s.dirty.Unlock()
	logs := s.dirty.flush
	s.dirty.flush = nil
	for _, l := range logs {
		l.flushListed.Store(false)
	}
	return logs
}

func (s *Store) takeMarkList() []*Log {
	s.dirty.Lock()
	defer s.dirty.Unlock()
	logs := s.dirty.mark
	s.dirty.mark = nil
	for _, l := range logs {
		l.markListed.Store(false)
	}
	return logs
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

func (s *Store) startTimers() {
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		s.space.run(s.stop)
	}()
	if s.cfg.FsyncMode == FsyncPeriodic {
		s.every(s.cfg.FsyncInterval, func() { s.flushLogs(s.takeFlushList()) })
	}
	lastSynced := time.Now()
	var moved []*Log // logs whose mark was written lazily since
	s.every(lazyMarkInterval, func() {
		logs := s.takeMarkList()
		s.saveMarks(logs, false)
		if s.cfg.MarkSyncInterval == 0 {
			return
		}
		moved = append(moved, logs...)
		if time.Since(lastSynced) >= s.cfg.MarkSyncInterval {
			lastSynced = time.Now()
			s.saveMarks(dedupe(moved), true)
			moved = moved[:0]
		}
	})
	if s.cfg.RetentionBytes > 0 || s.cfg.RetentionAge > 0 {
		s.every(s.cfg.RetentionInterval, s.enforceRetention)
	}
}

func (s *Store) enforceRetention() {
	for _, l := range s.logs() {
		if _, err := l.EnforceRetention(context.Background()); err != nil {
			s.logger.Warn("retention failed; it is tried again at the next interval", "log", l.label, "error", err)
		}
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
