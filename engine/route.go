package engine

import "felix.local/felix/device"

// inlineTokens bounds how many goroutines, and so threads, may be inside an
// inline operation at once. When none is free the queue takes the operation.
const inlineTokens = 8

// inlineWrite is the one rule for what does not go through the queue: a plain
// write to the page cache under none and periodic. On ext4 the ring only hands
// such a write to a kernel worker, and on every filesystem the copy costs less
// than the two thread switches around it. Everything that waits for a device
// (dsync writes, flushes, reservations) goes through the queue, and under
// on_commit so does every write.
func (s *Store) inlineWrite(mode FsyncMode, op *device.Op) bool {
	if mode == FsyncOnCommit || op.Kind != device.Write {
		return false
	}
	select {
	case s.inline <- struct{}{}:
		return true
	default:
		return false
	}
}

// performInline runs op on this goroutine, with a token from inlineWrite, and
// counts it.
func (s *Store) performInline(op *device.Op) error {
	defer func() { <-s.inline }()
	s.counters.inline[op.Kind].Add(1)
	op.N, op.Err = op.File.Perform(op)
	return op.Err
}

// leadsInline says whether an appender that finds no commit loop runs it itself:
// where the write is a copy into the page cache, handing it to another goroutine
// would cost more than the write.
func (l *Log) leadsInline() bool { return l.cfg.FsyncMode != FsyncOnCommit }
