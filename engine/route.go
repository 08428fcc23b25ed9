package engine

import (
	"sync/atomic"

	"felix.local/felix/device"
)

// What does not go through the queue, and why. This is the one rule; both routes
// are counted by kind.
//
//   - A plain write under none and periodic: a copy into the page cache. The ring
//     would hand it to a kernel worker on ext4, and on every filesystem the copy
//     costs less than the two thread switches around it.
//   - A dsync write under on_commit of a log that has had the store to itself for
//     a while. A queue pays when it carries several operations at once; with
//     one, it adds a thread switch on the way out and one on the way back.
//
// Everything else waits for a device beside others, and goes through the queue:
// every dsync write as soon as a second log is busy, every flush, every
// reservation. docs/performance.md has the measurements.
const (
	// inlineTokens bounds how many goroutines, and so threads, may be inside an
	// inline operation at once. When none is free the queue takes the operation.
	inlineTokens = 8
	// soloStreak is how many commits in a row one log must have made, without
	// any of another log between them, before its dsync writes go inline.
	soloStreak = 64
)

// solo watches whether one log has the device to itself.
type solo struct {
	log    atomic.Pointer[Log]
	streak atomic.Int64
}

// alone notes a commit of l and says whether l alone has been committing.
func (s *solo) alone(l *Log) bool {
	if s.log.Load() != l {
		s.log.Store(l)
		s.streak.Store(0)
		return false
	}
	return s.streak.Add(1) > soloStreak
}

// inline decides the route of one operation of l.
func (s *Store) inline(l *Log, op *device.Op) bool {
	switch op.Kind {
	case device.Write:
		if l.cfg.FsyncMode == FsyncOnCommit {
			return false
		}
	case device.WriteDsync:
		if !s.solo.alone(l) {
			return false
		}
	default:
		return false
	}
	select {
	case s.inlineTokens <- struct{}{}:
		return true
	default:
		return false
	}
}

// performInline runs op on this goroutine, with a token from inline.
func (s *Store) performInline(op *device.Op) error {
	defer func() { <-s.inlineTokens }()
	s.counters.inline[op.Kind].Add(1)
	op.N, op.Err = op.File.Perform(op)
	return op.Err
}

// leadsInline says whether an appender that finds no commit loop runs it itself:
// where the write is a copy into the page cache, handing it to another goroutine
// would cost more than the write.
func (l *Log) leadsInline() bool { return l.cfg.FsyncMode != FsyncOnCommit }
