package workload

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
)

// MarkBytes is the size of a block of marks, and what its position is a multiple of.
const MarkBytes = 4096

// markBegin is the first line of a block.
const markBegin = "FELIX ACKNOWLEDGED"

// Bound is how far a log is promised; both are exclusive.
type Bound struct{ Acked, Durable uint64 }

// Log names a log of a run.
type Log struct{ Store, Log string }

// Marks writes what is promised into one block of a disk, over and over, past the page
// cache and without a flush. In a log of the disk's writes such a block stands behind
// everything that was done for what it promises.
type Marks struct {
	file *os.File
	at   int64
	page []byte

	mu struct {
		sync.Mutex
		wake    *sync.Cond
		bounds  map[Log]Bound
		changed bool
		closed  bool
	}
	ended chan error
}

// OpenMarks opens a device for marks at a position and starts writing them.
func OpenMarks(path string, position int64) (*Marks, error) {
	file, err := os.OpenFile(path, os.O_RDWR|syscall.O_DIRECT, 0)
	if err != nil {
		return nil, err
	}
	// A mapping is aligned as direct writes ask for.
	page, err := unix.Mmap(-1, 0, device.DirectBlockBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	m := &Marks{file: file, at: position, page: page, ended: make(chan error, 1)}
	m.mu.bounds = make(map[Log]Bound)
	m.mu.wake = sync.NewCond(&m.mu)
	go func() { m.ended <- m.write() }()
	return m, nil
}

// tell takes a promise into the next block.
func (m *Marks) tell(e Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if note(m.mu.bounds, e) {
		m.mu.changed = true
		m.mu.wake.Signal()
	}
}

// note takes a promise into the bounds; false when they hold it already.
func note(bounds map[Log]Bound, e Event) bool {
	at := Log{e.Store, e.Log}
	b := bounds[at]
	switch {
	case e.Kind == Acked && e.Bound+1 > b.Acked:
		b.Acked = e.Bound + 1
	case e.Kind == Durable && e.Bound > b.Durable:
		b.Durable = e.Bound
	default:
		return false
	}
	bounds[at] = b
	return true
}

// write writes a block whenever something changed. What it holds was promised before.
func (m *Marks) write() error {
	for {
		block, ok := m.next()
		if !ok {
			return nil
		}
		if len(block) > MarkBytes {
			return fmt.Errorf("the marks need %d bytes and a block has %d", len(block), MarkBytes)
		}
		clear(m.page)
		copy(m.page, block)
		if _, err := m.file.WriteAt(m.page[:MarkBytes], m.at); err != nil {
			return err
		}
	}
}

func (m *Marks) next() (block []byte, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for !m.mu.changed && !m.mu.closed {
		m.mu.wake.Wait()
	}
	if !m.mu.changed {
		return nil, false
	}
	m.mu.changed = false
	return FormatMarks(m.mu.bounds), true
}

// Close writes the last block and says what failed.
func (m *Marks) Close() error {
	m.mu.Lock()
	m.mu.closed = true
	m.mu.wake.Signal()
	m.mu.Unlock()
	return errors.Join(<-m.ended, unix.Munmap(m.page), m.file.Close())
}

// FormatMarks is a block's text.
func FormatMarks(bounds map[Log]Bound) []byte {
	var lines []string
	for at, b := range bounds {
		if b.Acked > 0 {
			lines = append(lines, Event{Kind: Acked, Store: at.Store, Log: at.Log, Bound: b.Acked - 1}.String())
		}
		if b.Durable > 0 {
			lines = append(lines, Event{Kind: Durable, Store: at.Store, Log: at.Log, Bound: b.Durable}.String())
		}
	}
	slices.SortFunc(lines, cmp.Compare[string])
	return []byte(markBegin + "\n" + strings.Join(lines, "\n") + "\n")
}

// ParseMarks reads a block; ok is false for one that holds no marks.
func ParseMarks(block []byte) (bounds map[Log]Bound, ok bool) {
	text, ok := strings.CutPrefix(string(bytes.TrimRight(block, "\x00")), markBegin+"\n")
	if !ok {
		return nil, false
	}
	bounds = make(map[Log]Bound)
	for line := range strings.Lines(text) {
		e, known := ParseEvent(line)
		if !known || e.Kind != Acked && e.Kind != Durable {
			return nil, false
		}
		note(bounds, e)
	}
	return bounds, true
}
