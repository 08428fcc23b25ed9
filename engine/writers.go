package engine

import (
	"container/list"
	"errors"
	"path/filepath"
	"sync"

	"felix.local/felix/device"
	"felix.local/felix/segment"
)

// writerCache bounds the descriptors of active segments. A log that is idle and
// wholly synced may give its descriptor up and opens it again with its next
// append; one with unsynced bytes keeps it, because an error of writing them back
// is reported only to descriptors that were open when it happened.
type writerCache struct {
	max int
	mu  struct {
		sync.Mutex
		order list.List // of *Log, the one to look at first in front
		place map[*Log]*list.Element
	}
}

func newWriterCache(maxOpen int) *writerCache {
	c := &writerCache{max: maxOpen}
	c.mu.place = make(map[*Log]*list.Element)
	return c
}

// opened says that the log has a descriptor.
func (c *writerCache) opened(l *Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.place[l] == nil {
		c.mu.place[l] = c.mu.order.PushBack(l)
	}
}

// closed says that the log has none any more.
func (c *writerCache) closed(l *Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.mu.place[l]; e != nil {
		c.mu.order.Remove(e)
		delete(c.mu.place, l)
	}
}

func (c *writerCache) open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.place)
}

// candidates gives up to n logs to ask, the longest unused first: a log that was
// used since it was last looked at goes to the back once.
func (c *writerCache) candidates(n int, except *Log) []*Log {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*Log
	for looked, total := 0, 2*c.mu.order.Len(); looked < total && len(out) < n; looked++ {
		e := c.mu.order.Front()
		l := e.Value.(*Log)
		c.mu.order.MoveToBack(e)
		if l != except && !l.recent.Swap(false) {
			out = append(out, l)
		}
	}
	return out
}

// roomAttempts bounds how many logs are asked to give up a descriptor, and
// roomFlush how many are flushed so that they can.
const (
	roomAttempts = 256
	roomFlush    = 64
)

// makeRoom makes a descriptor free before one more is opened for l. When no log
// can give one up the bound is exceeded: the kernel's own limit then answers, with
// an error that can be tried again.
func (s *Store) makeRoom(l *Log) {
	c := s.writers
	if c.open() < c.max {
		return
	}
	candidates := c.candidates(roomAttempts, l)
	for _, other := range candidates {
		if other.giveUpFile() && c.open() < c.max {
			return
		}
	}
	// Everybody has unsynced bytes: flush the longest unused, in one submission,
	// and go on as soon as one of them has made room.
	candidates = candidates[:min(roomFlush, len(candidates))]
	judged := make(chan *Log, len(candidates))
	tell := func(other *Log) { judged <- other }
	lagging, written := partition(candidates, (*Log).lags)
	if len(lagging) > 0 {
		go s.journal.checkpoint(lagging, tell)
	}
	if len(written) > 0 {
		go s.flushLogs(written, tell)
	}
	for range candidates {
		if other := <-judged; other.giveUpFile() && c.open() < c.max {
			return
		}
	}
}

// partition divides logs by what holds of them.
func partition(logs []*Log, holds func(*Log) bool) (yes, no []*Log) {
	for _, l := range logs {
		if holds(l) {
			yes = append(yes, l)
		} else {
			no = append(no, l)
		}
	}
	return yes, no
}

// giveUpFile closes the active segment's descriptor if nothing is unsynced or
// under way. Reserved blocks are dropped first: an idle log holds none back.
func (l *Log) giveUpFile() bool {
	l.mu.Lock()
	w := &l.mu.active
	idle := w.file != nil && !l.mu.committing && !l.mu.flushing && len(l.mu.staged) == 0 &&
		l.mu.retired == nil && l.mu.poison == nil && l.mu.gate == nil && w.synced == w.size
	if !idle {
		l.mu.Unlock()
		return false
	}
	l.mu.committing = true // this goroutine is the commit loop now
	l.mu.Unlock()

	l.dropReservation()
	l.writeIndex(true)
	l.mu.Lock()
	file := w.file
	w.file = nil
	l.mu.Unlock()
	file.release()
	l.store.writers.closed(l)
	l.handOver()
	return true
}

// dropReservation frees blocks past the end of the active segment.
func (l *Log) dropReservation() {
	l.awaitReservation()
	if w := &l.mu.active; w.file != nil && w.reserve.bytes > w.size {
		l.giveBackBlocks()
	}
}

// giveBackBlocks frees what is reserved past the end of the active segment; the
// caller holds the commit role. That the length stays the same makes it need no
// flush, and a failure costs only blocks.
func (l *Log) giveBackBlocks() {
	if l.settleLag() != nil {
		return // and the log is poisoned
	}
	w := &l.mu.active
	if err := w.file.Truncate(w.size); err != nil {
		l.store.logger.Warn("reserved blocks could not be freed", "log", l.label, "error", err)
		return
	}
	w.reserve.bytes, w.reserve.backed = 0, 0
}

// openFailed says what it means that the active segment could not be opened
// again. One that is gone, or not as this log left it, is nothing to append to.
func (l *Log) openFailed(err error) error {
	if device.IsNotExist(err) || errors.Is(err, errSizeChanged) {
		return l.poisonWith(err)
	}
	return l.usable("open segment", err)
}

var errSizeChanged = errors.New("the file's length is not what this log wrote; another program changed it")

// writerFile gives the active segment's file, opening it again if it was given
// up. Only the holder of the commit role calls it.
func (l *Log) writerFile() (*openFile, error) {
	l.recent.Store(true)
	w := &l.mu.active
	if w.file != nil {
		return w.file, nil
	}
	l.store.makeRoom(l)
	f, err := l.store.fs.OpenFile(filepath.Join(l.dir, segment.LogName(w.id)), device.ReadWrite, 0)
	if err != nil {
		return nil, err
	}
	if size, err := f.Size(); err != nil || size != w.size {
		if err == nil {
			err = device.NewError("open", f.Name(), w.size, errSizeChanged)
		}
		return nil, errors.Join(err, f.Close())
	}
	l.mu.Lock()
	w.file = newOpenFile(f)
	l.mu.Unlock()
	l.store.writers.opened(l)
	return w.file, nil
}
