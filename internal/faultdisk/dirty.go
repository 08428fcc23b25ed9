package faultdisk

import (
	"fmt"
	"slices"
	"sync"

	"felix.local/felix/device"
)

// node knows which bytes of a file are durable. A length set by Truncate counts as
// durable at once, and bytes written while a flush ran may count as flushed by
// it: a disk may do either.
type node struct {
	fs device.FS

	mu struct {
		sync.Mutex
		path    string // the newest name
		durable []byte
		dirty   []span // in order of completion
		base    int    // spans forgotten from the front so far
		lost    []span // could not be written back; no flush makes them durable
	}
}

// span is a written range that no flush has covered.
type span struct{ start, end int64 }

// nodeOf finds the node behind a file just opened. What is in the file when it
// is first opened counts as durable.
func (d *Disk) nodeOf(f device.File, made bool) (*node, error) {
	info, err := d.fs.Lstat(f.Name())
	if err != nil {
		return nil, err
	}
	fresh := &node{fs: d.fs}
	if fresh.mu.durable, err = readRange(f, 0, info.Size); err != nil {
		return nil, err
	}
	id := inode{info.Dev, info.Ino}
	d.mu.Lock()
	n := d.mu.nodes[id]
	if n == nil || made {
		// A file that was just made may have the number of one that is gone.
		n = fresh
		d.mu.nodes[id] = n
	}
	d.mu.Unlock()
	n.rename(f.Name())
	return n, nil
}

// renamed tells the node behind a name, if there is one, its new name.
func (d *Disk) renamed(path string) {
	info, err := d.fs.Lstat(path)
	if err != nil {
		return
	}
	d.mu.Lock()
	n := d.mu.nodes[inode{info.Dev, info.Ino}]
	d.mu.Unlock()
	if n != nil {
		n.rename(path)
	}
}

func (n *node) rename(path string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.path = path
}

func readRange(f device.File, start, end int64) ([]byte, error) {
	b := make([]byte, end-start)
	n, err := f.ReadAt(b, start)
	if n == len(b) {
		err = nil
	}
	return b, err
}

// wrote books a completed plain write.
func (n *node) wrote(pos, length int64) {
	if length == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.dirty = append(n.mu.dirty, span{pos, pos + length})
}

// wroteDurably books a completed dsync write: its bytes, and the length up to
// their end.
func (n *node) wroteDurably(b []byte, pos int64) {
	if len(b) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.setDurableLocked(b, pos)
}

func (n *node) setDurableLocked(b []byte, pos int64) {
	if grow := pos + int64(len(b)) - int64(len(n.mu.durable)); grow > 0 {
		n.mu.durable = append(n.mu.durable, make([]byte, grow)...)
	}
	copy(n.mu.durable[pos:], b)
}

func (n *node) truncated(size int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if grow := size - int64(len(n.mu.durable)); grow > 0 {
		n.mu.durable = append(n.mu.durable, make([]byte, grow)...)
	}
	n.mu.durable = n.mu.durable[:size]
}

// flushStarts returns the number of spans that a flush starting now covers, counted
// from the file's first one.
func (n *node) flushStarts() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.base + len(n.mu.dirty)
}

// flushed makes the first spans, up to the covered one, durable.
func (n *node) flushed(covered int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := covered - n.mu.base
	if count <= 0 {
		return
	}
	f, err := n.fs.OpenFile(n.mu.path, device.ReadOnly, 0)
	if err != nil {
		return // it lost its name, and with it the chance to lose bytes
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		panic(fmt.Sprintf("faultdisk: tracking %s: %v", n.mu.path, err))
	}
	for _, s := range n.mu.dirty[:count] {
		end := min(s.end, size)
		if s.start >= end {
			continue // cut off since
		}
		b, err := readRange(f, s.start, end)
		if err != nil {
			panic(fmt.Sprintf("faultdisk: tracking %s: %v", n.mu.path, err))
		}
		n.setDurableLocked(b, s.start)
	}
	n.mu.dirty = append([]span(nil), n.mu.dirty[count:]...)
	n.mu.base = covered
}

// lose takes what is dirty out of the reach of every flush: the kernel tried to
// write it back, could not, and will not try again.
func (n *node) lose() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.lost = append(n.mu.lost, n.mu.dirty...)
	n.forgetLocked()
}

func (n *node) forgetLocked() {
	n.mu.base += len(n.mu.dirty)
	n.mu.dirty = nil
}

// drop puts the file back to its durable bytes.
func (n *node) drop() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	f, err := n.fs.OpenFile(n.mu.path, device.ReadWrite, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size := int64(len(n.mu.durable))
	if now, err := f.Size(); err != nil || now > size {
		if err == nil {
			err = f.Truncate(size)
		}
		if err != nil {
			return err
		}
	}
	for _, s := range slices.Concat(n.mu.lost, n.mu.dirty) {
		if end := min(s.end, size); s.start < end {
			op := &device.Op{Kind: device.Write, File: f, Buf: n.mu.durable[s.start:end], Pos: s.start}
			if _, err := f.Perform(op); err != nil {
				return err
			}
		}
	}
	n.mu.lost = nil
	n.forgetLocked()
	return nil
}
