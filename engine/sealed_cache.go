package engine

import (
	"cmp"
	"container/list"
	"path/filepath"
	"slices"
	"sync"

	"felix.local/felix/device"
	"felix.local/felix/segment"
)

// sealedCache keeps the most recently read sealed segments of a store open, with
// their index in memory. An entry that is read while it is evicted stays open
// until the reader lets go.
type sealedCache struct {
	max int
	mu  struct {
		sync.Mutex
		order list.List // of *sealedSegment, most recent in front
		place map[sealedKey]*list.Element
	}
}

type sealedKey struct {
	log *Log
	id  uint64
}

type sealedSegment struct {
	key     sealedKey
	file    *openFile
	entries []segment.IndexEntry
}

func newSealedCache(maxOpen int) *sealedCache {
	c := &sealedCache{max: maxOpen}
	c.mu.place = make(map[sealedKey]*list.Element)
	return c
}

func (c *sealedCache) open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.order.Len()
}

// get gives the segment with a reference that the caller releases.
func (c *sealedCache) get(l *Log, d segment.Descriptor) (file *openFile, entries []segment.IndexEntry, err error) {
	key := sealedKey{l, d.ID}
	c.mu.Lock()
	if e := c.mu.place[key]; e != nil {
		c.mu.order.MoveToFront(e)
		s := e.Value.(*sealedSegment)
		file = s.file.hold()
		c.mu.Unlock()
		return file, s.entries, nil
	}
	c.mu.Unlock()

	s, err := openSealed(l, d)
	if err != nil {
		return nil, nil, err
	}
	file = s.file.hold()
	c.put(s)
	if !l.lists(d) {
		// It was removed, or the log closed, while this entry was on its way in.
		// Whoever removes a segment takes it off the list before it drops the
		// entry, so one of the two sees the other.
		c.dropExactly(s)
	}
	return file, s.entries, nil
}

// lists says whether the log is open and d is one of its sealed segments.
func (l *Log) lists(d segment.Descriptor) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, found := slices.BinarySearchFunc(l.mu.sealed, d.ID, func(e segment.Descriptor, id uint64) int {
		return cmp.Compare(e.ID, id)
	})
	return found && !l.mu.closed && l.mu.sealed[at] == d
}

func openSealed(l *Log, d segment.Descriptor) (*sealedSegment, error) {
	f, err := l.store.fs.OpenFile(filepath.Join(l.dir, segment.LogName(d.ID)), device.ReadOnly, 0)
	if err != nil {
		return nil, err
	}
	return &sealedSegment{key: sealedKey{l, d.ID}, file: newOpenFile(f), entries: l.loadIndex(d)}, nil
}

// loadIndex reads a sealed segment's index. One that is missing or unusable gives
// none: reads then walk from the segment's start, and the next open rebuilds it.
func (l *Log) loadIndex(d segment.Descriptor) []segment.IndexEntry {
	f, err := l.store.fs.OpenFile(filepath.Join(l.dir, segment.IndexName(d.ID)), device.ReadOnly, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	size, err := f.Size()
	// An index has at most one entry per record header's worth of segment.
	if err != nil || size > segment.IndexHeaderSize+d.Size/segment.RecordHeaderSize*segment.IndexEntrySize+segment.IndexEntrySize {
		return nil
	}
	buf := make([]byte, size)
	if _, err := f.ReadAt(buf, 0); err != nil {
		return nil
	}
	entries, err := segment.DecodeIndex(buf, d.BaseOffset)
	if err != nil {
		return nil
	}
	return entries
}

// put adds a segment and evicts the longest unread ones past the bound.
func (c *sealedCache) put(s *sealedSegment) {
	var evicted []*sealedSegment
	c.mu.Lock()
	if old := c.mu.place[s.key]; old != nil {
		evicted = append(evicted, c.mu.order.Remove(old).(*sealedSegment))
	}
	c.mu.place[s.key] = c.mu.order.PushFront(s)
	for c.mu.order.Len() > c.max {
		last := c.mu.order.Remove(c.mu.order.Back()).(*sealedSegment)
		delete(c.mu.place, last.key)
		evicted = append(evicted, last)
	}
	c.mu.Unlock()
	for _, e := range evicted {
		e.file.release()
	}
}

// adopt takes in a segment that was just sealed, with a reference to its file.
func (c *sealedCache) adopt(l *Log, w *writer) {
	c.put(&sealedSegment{key: sealedKey{l, w.id}, file: w.file.hold(), entries: w.entries})
}

// dropExactly forgets s unless another entry took its place.
func (c *sealedCache) dropExactly(s *sealedSegment) {
	c.mu.Lock()
	e := c.mu.place[s.key]
	mine := e != nil && e.Value.(*sealedSegment) == s
	if mine {
		c.mu.order.Remove(e)
		delete(c.mu.place, s.key)
	}
	c.mu.Unlock()
	if mine {
		s.file.release()
	}
}

// drop forgets a segment that is about to be removed, or all of a log's when all
// is set.
func (c *sealedCache) drop(l *Log, id uint64, all bool) {
	var dropped []*sealedSegment
	c.mu.Lock()
	for e := c.mu.order.Front(); e != nil; {
		next := e.Next()
		if s := e.Value.(*sealedSegment); s.key.log == l && (all || s.key.id == id) {
			c.mu.order.Remove(e)
			delete(c.mu.place, s.key)
			dropped = append(dropped, s)
		}
		e = next
	}
	c.mu.Unlock()
	for _, s := range dropped {
		s.file.release()
	}
}
