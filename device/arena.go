package device

import (
	"errors"
	"math/bits"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Arena hands out page-aligned buffers that live outside the Go heap, so that
// the kernel may write from them while the collector runs. Buffers come in
// power-of-two sizes from one page up, carved from slabs that are kept; a buffer
// above MaxPooled is mapped alone and unmapped when it is returned.
//
// The arena does not bound what is taken: callers reserve bytes first and the
// memory mapped is at most twice what they reserved, plus a page per buffer.
type Arena struct {
	mu struct {
		sync.Mutex
		free   map[int][][]byte // by size
		slabs  [][]byte
		taken  int64 // bytes handed out
		mapped int64 // bytes mapped
		closed bool
	}
}

const (
	slabBytes = 1 << 20
	// MaxPooled is the largest buffer that is kept for reuse.
	MaxPooled = slabBytes
)

var pageBytes = os.Getpagesize()

// NewArena makes an empty arena.
func NewArena() *Arena {
	a := &Arena{}
	a.mu.free = make(map[int][][]byte)
	return a
}

// ClassBytes is the size of the buffer that Take(n) returns.
func ClassBytes(n int) int {
	if n <= pageBytes {
		return pageBytes
	}
	return 1 << bits.Len(uint(n-1))
}

// Take returns a buffer of at least n bytes; its content is arbitrary. The
// capacity is the buffer's class. It fails only when the kernel has no memory.
func (a *Arena) Take(n int) ([]byte, error) {
	size := ClassBytes(n)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.closed {
		return nil, errors.New("device: arena used after Close")
	}
	if size > MaxPooled {
		b, err := mapAnonymous(size)
		if err != nil {
			return nil, err
		}
		a.mu.mapped += int64(size)
		a.mu.taken += int64(size)
		return b, nil
	}
	if len(a.mu.free[size]) == 0 {
		slab, err := mapAnonymous(slabBytes)
		if err != nil {
			return nil, err
		}
		a.mu.slabs = append(a.mu.slabs, slab)
		a.mu.mapped += slabBytes
		for at := 0; at < slabBytes; at += size {
			a.mu.free[size] = append(a.mu.free[size], slab[at:at+size:at+size])
		}
	}
	list := a.mu.free[size]
	b := list[len(list)-1]
	list[len(list)-1] = nil
	a.mu.free[size] = list[:len(list)-1]
	a.mu.taken += int64(size)
	return b, nil
}

// Give returns a buffer from Take. No op may name it any more.
func (a *Arena) Give(b []byte) {
	if b == nil {
		return
	}
	b = b[:cap(b)]
	size := len(b)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.taken -= int64(size)
	if size > MaxPooled {
		a.mu.mapped -= int64(size)
		unmap(b)
		return
	}
	if a.mu.closed {
		return
	}
	a.mu.free[size] = append(a.mu.free[size], b)
}

// Usage returns the bytes handed out and the bytes mapped.
func (a *Arena) Usage() (taken, mapped int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.taken, a.mu.mapped
}

// Close unmaps everything. It panics when a buffer is still out, because an op
// may still be writing from it.
func (a *Arena) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.taken != 0 {
		panic("device: arena closed while buffers are in use")
	}
	a.mu.closed = true
	for _, slab := range a.mu.slabs {
		unmap(slab)
	}
	a.mu.slabs, a.mu.free, a.mu.mapped = nil, nil, 0
}

func mapAnonymous(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, NewError("mmap", "staging memory", -1, err)
	}
	return b, nil
}

func unmap(b []byte) {
	if err := unix.Munmap(b); err != nil {
		// The slice came from mapAnonymous and is unmapped once.
		panic("device: munmap of an arena buffer: " + err.Error())
	}
}
