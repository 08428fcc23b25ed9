package device

import (
	"errors"
	"math/bits"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Arena hands out page-aligned buffers that live outside the Go heap, so that
// the kernel may write from them while the collector runs. Buffers come in
// power-of-two sizes from one page up, carved from slabs of 1 MiB. A slab that is
// wholly free again serves any size, and what is more than the arena keeps is
// unmapped. A buffer above MaxPooled is mapped alone and unmapped when it is
// returned.
//
// The arena does not bound what is taken: callers reserve bytes first. A buffer is
// at most twice what was asked for, plus a page; mapped is, per size, at most the
// most that was taken of it since its slabs were last wholly free, plus a slab.
type Arena struct {
	mu struct {
		sync.Mutex
		classes map[int]*class
		// owner finds the slab of a buffer by its address.
		owner  map[*byte]*slab
		spare  [][]byte // whole slabs, of no size
		taken  int64    // bytes handed out
		mapped int64    // bytes mapped
		closed bool
	}
}

// class is all slabs of one buffer size that have a free buffer.
type class struct{ ready []*slab }

// slab is carved into buffers of one size.
type slab struct {
	memory []byte
	size   int
	free   [][]byte
	place  int // in class.ready; -1 when no buffer is free
}

const (
	slabBytes = 1 << 20
	// MaxPooled is the largest buffer that is kept for reuse.
	MaxPooled = slabBytes
	// spareSlabs is how many wholly free slabs are kept for any size.
	spareSlabs = 8
)

var pageBytes = os.Getpagesize()

// NewArena makes an empty arena.
func NewArena() *Arena {
	a := &Arena{}
	a.mu.classes = make(map[int]*class)
	a.mu.owner = make(map[*byte]*slab)
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
		b, err := a.mapLocked(size)
		if err == nil {
			a.mu.taken += int64(size)
		}
		return b, err
	}
	c := a.mu.classes[size]
	if c == nil {
		c = &class{}
		a.mu.classes[size] = c
	}
	if len(c.ready) == 0 {
		if err := a.carveLocked(c, size); err != nil {
			return nil, err
		}
	}
	s := c.ready[len(c.ready)-1]
	b := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	if len(s.free) == 0 {
		c.remove(s)
	}
	a.mu.taken += int64(size)
	return b, nil
}

// carveLocked gives a class a slab of free buffers.
func (a *Arena) carveLocked(c *class, size int) error {
	var memory []byte
	if n := len(a.mu.spare); n > 0 {
		memory, a.mu.spare = a.mu.spare[n-1], a.mu.spare[:n-1]
	} else {
		var err error
		if memory, err = a.mapLocked(slabBytes); err != nil {
			return err
		}
	}
	s := &slab{memory: memory, size: size, free: make([][]byte, 0, slabBytes/size)}
	for at := 0; at < slabBytes; at += size {
		b := memory[at : at+size : at+size]
		s.free = append(s.free, b)
		a.mu.owner[unsafe.SliceData(b)] = s
	}
	c.add(s)
	return nil
}

func (c *class) add(s *slab) {
	s.place = len(c.ready)
	c.ready = append(c.ready, s)
}

func (c *class) remove(s *slab) {
	last := c.ready[len(c.ready)-1]
	c.ready[s.place], last.place = last, s.place
	c.ready = c.ready[:len(c.ready)-1]
	s.place = -1
}

// Give returns a buffer from Take. No op may name it any more.
func (a *Arena) Give(b []byte) {
	if b == nil {
		return
	}
	b = b[:cap(b)]
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.taken -= int64(len(b))
	if len(b) > MaxPooled {
		a.unmapLocked(b)
		return
	}
	s := a.mu.owner[unsafe.SliceData(b)]
	if s == nil || s.size != len(b) {
		panic("device: a buffer that is not the arena's was given to it")
	}
	c := a.mu.classes[s.size]
	s.free = append(s.free, b)
	if s.place < 0 {
		c.add(s)
	}
	// The last slab of its size stays carved: one buffer that comes and goes
	// must not carve a slab each time.
	if len(s.free) == slabBytes/s.size && len(c.ready) > 1 {
		c.remove(s)
		a.retireLocked(s)
	}
}

// retireLocked makes a wholly free slab one of no size, or unmaps it.
func (a *Arena) retireLocked(s *slab) {
	for _, b := range s.free {
		delete(a.mu.owner, unsafe.SliceData(b))
	}
	if len(a.mu.spare) < spareSlabs {
		a.mu.spare = append(a.mu.spare, s.memory)
		return
	}
	a.unmapLocked(s.memory)
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
	for _, c := range a.mu.classes {
		for _, s := range c.ready { // nothing is taken, so every slab is ready
			a.unmapLocked(s.memory)
		}
	}
	for _, memory := range a.mu.spare {
		a.unmapLocked(memory)
	}
	a.mu.classes, a.mu.owner, a.mu.spare = nil, nil, nil
}

func (a *Arena) mapLocked(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, NewError("mmap", "staging memory", -1, err)
	}
	a.mu.mapped += int64(n)
	return b, nil
}

func (a *Arena) unmapLocked(b []byte) {
	if err := unix.Munmap(b); err != nil {
		// The slice came from mapLocked and is unmapped once.
		panic("device: munmap of an arena buffer: " + err.Error())
	}
	a.mu.mapped -= int64(len(b))
}
