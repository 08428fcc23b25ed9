package uring

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fakeKernel is a kernel in memory. It keeps the rings' shared memory as a real
// one does and answers as its script says. Polls of an eventfd are real.
type fakeKernel struct {
	t testing.TB

	// The script. A nil function means success.
	onSetup   func(entries, flags uint32) syscall.Errno
	onMap     func(offset int64) error
	onProbe   syscall.Errno
	missing   []uint8
	onWorkers syscall.Errno
	// onEnter may refuse call number n (from 0) or take fewer entries.
	onEnter func(n int, submit, wait uint32) (take uint32, errno syscall.Errno)
	// answer gives an operation's result; attempt counts, from 0, the times the
	// same operation was taken. Without it operations succeed in full.
	answer func(e sqe, attempt int) int32
	// hold keeps operations in the kernel until complete is called.
	hold bool
	// broken makes every call fail with EBADF.
	broken atomic.Bool
	// order shuffles the completions of one call.
	order *rand.Rand

	mu struct {
		sync.Mutex
		enters   int
		attempts map[uint32]int // by slot and position
		taken    []sqe          // every operation, in the order taken
		held     []sqe
		poll     *sqe
		closed   int
		unmapped int
	}
	notify int // eventfd: something changed while a call waits
	took   chan struct{}

	sq, entries []uint64
	setupParams params
	sqHead      uint32
}

const (
	fakeCQHead, fakeCQTail, fakeCQMask, fakeCQOverflow = 64, 68, 72, 80
	fakeCQEs                                           = 128
)

func newFakeKernel(t testing.TB) *fakeKernel {
	t.Helper()
	f := &fakeKernel{t: t, took: make(chan struct{}, 1)}
	f.mu.attempts = make(map[uint32]int)
	var err error
	if f.notify, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(f.notify) })
	return f
}

// open opens a ring on the fake with the native driver.
func (f *fakeKernel) open(o Options) (*Ring, error) {
	o.open = func(entries, flags uint32) (driver, *openFailure) { return openMapped(f, entries, flags) }
	return Open(o)
}

func (f *fakeKernel) mustOpen(o Options) *Ring {
	f.t.Helper()
	r, err := f.open(o)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f *fakeKernel) word(offset uint32) *uint32 {
	return (*uint32)(unsafe.Add(unsafe.Pointer(&f.sq[0]), offset))
}

func (f *fakeKernel) setup(entries uint32, p *params) (int, syscall.Errno) {
	if f.onSetup != nil {
		if errno := f.onSetup(entries, p.flags); errno != 0 {
			return -1, errno
		}
	}
	cq := 2 * entries
	if p.flags&setupCQSize != 0 {
		cq = p.cqEntries
	}
	p.sqEntries, p.cqEntries = entries, cq
	p.features = featSingleMmap
	array := fakeCQEs + cq*uint32(unsafe.Sizeof(cqe{}))
	p.sqOff = sqOffsets{head: 0, tail: 4, ringMask: 8, ringEntries: 12, flags: 16, dropped: 20, array: array}
	p.cqOff = cqOffsets{head: fakeCQHead, tail: fakeCQTail, ringMask: fakeCQMask, ringEntries: 76, overflow: fakeCQOverflow, cqes: fakeCQEs}
	f.sq = make([]uint64, (array+4*entries)/8+1)
	f.entries = make([]uint64, entries*8)
	// Indexes start just below the wrap-around of 32 bits.
	f.sqHead = ^uint32(0) - 2
	*f.word(0), *f.word(4) = f.sqHead, f.sqHead
	*f.word(fakeCQHead), *f.word(fakeCQTail) = f.sqHead, f.sqHead
	*f.word(8), *f.word(fakeCQMask) = entries-1, cq-1
	f.setupParams = *p
	return 1 << 20, 0
}

func (f *fakeKernel) mmap(_ int, offset int64, _ uintptr) (unsafe.Pointer, error) {
	if f.onMap != nil {
		if err := f.onMap(offset); err != nil {
			return nil, err
		}
	}
	if offset == offsetSQEs {
		return unsafe.Pointer(&f.entries[0]), nil
	}
	return unsafe.Pointer(&f.sq[0]), nil
}

func (f *fakeKernel) munmap(unsafe.Pointer, uintptr) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.unmapped++
	return nil
}

func (f *fakeKernel) dontFork(unsafe.Pointer, uintptr) error { return nil }

func (f *fakeKernel) close(int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.closed++
	return nil
}

func (f *fakeKernel) register(_ int, opcode uint32, arg unsafe.Pointer, _ uint32) syscall.Errno {
	switch opcode {
	case registerProbe:
		if f.onProbe != 0 {
			return f.onProbe
		}
		p := (*probe)(arg)
		p.lastOp, p.opsLen = 40, 41
		for i := range 41 {
			p.ops[i] = probeOp{op: uint8(i), flags: probeSupported}
		}
		for _, op := range f.missing {
			p.ops[op].flags = 0
		}
		return 0
	case registerIOWQMaxWorkers:
		if f.onWorkers == 0 {
			counts := (*[2]uint32)(arg)
			*counts = [2]uint32{8, 100}
		}
		return f.onWorkers
	}
	return syscall.EINVAL
}

func (f *fakeKernel) enter(_ int, submit, wait, _ uint32) (uint32, syscall.Errno) {
	f.mu.Lock()
	n := f.mu.enters
	f.mu.enters++
	f.mu.Unlock()
	take := submit
	if f.broken.Load() {
		return 0, syscall.EBADF
	}
	if f.onEnter != nil {
		var errno syscall.Errno
		if take, errno = f.onEnter(n, submit, wait); errno != 0 {
			return 0, errno
		}
	}
	f.mu.Lock()
	ready := f.takeLocked(min(take, submit))
	if f.order != nil {
		f.order.Shuffle(len(ready), func(i, j int) { ready[i], ready[j] = ready[j], ready[i] })
	}
	for _, e := range ready {
		f.postLocked(e.userData, f.resultLocked(e))
	}
	f.mu.Unlock()
	if take == submit {
		f.wait(wait)
	}
	return min(take, submit), 0
}

// takeLocked consumes n entries and returns those that complete at once.
func (f *fakeKernel) takeLocked(n uint32) (ready []sqe) {
	all := unsafe.Slice((*sqe)(unsafe.Pointer(&f.entries[0])), f.setupParams.sqEntries)
	if tail := atomic.LoadUint32(f.word(4)); tail-f.sqHead < n {
		panic("more entries submitted than were queued")
	}
	for range n {
		e := all[f.sqHead&(f.setupParams.sqEntries-1)]
		f.sqHead++
		switch {
		case e.opcode == opPollAdd:
			if f.mu.poll != nil {
				panic("the eventfd is polled twice")
			}
			f.mu.poll = &e
		case f.hold:
			f.mu.taken = append(f.mu.taken, e)
			f.mu.held = append(f.mu.held, e)
		default:
			f.mu.taken = append(f.mu.taken, e)
			ready = append(ready, e)
		}
	}
	atomic.StoreUint32(f.word(0), f.sqHead)
	select {
	case f.took <- struct{}{}:
	default:
	}
	return ready
}

func (f *fakeKernel) resultLocked(e sqe) int32 {
	slot := uint32(e.userData)
	attempt := f.mu.attempts[slot]
	f.mu.attempts[slot]++
	if f.answer != nil {
		return f.answer(e, attempt)
	}
	return fullResult(e)
}

// fullResult is the result of an operation that went well.
func fullResult(e sqe) int32 {
	if e.opcode == opWrite {
		return int32(e.len)
	}
	return 0
}

func (f *fakeKernel) postLocked(userData uint64, res int32) {
	tail := *f.word(fakeCQTail)
	if tail-atomic.LoadUint32(f.word(fakeCQHead)) == f.setupParams.cqEntries {
		atomic.AddUint32(f.word(fakeCQOverflow), 1)
		return
	}
	cqes := unsafe.Slice((*cqe)(unsafe.Pointer(f.word(fakeCQEs))), f.setupParams.cqEntries)
	cqes[tail&(f.setupParams.cqEntries-1)] = cqe{userData: userData, res: res}
	atomic.StoreUint32(f.word(fakeCQTail), tail+1)
}

// wait returns when n completions are there.
func (f *fakeKernel) wait(n uint32) {
	for {
		f.mu.Lock()
		if atomic.LoadUint32(f.word(fakeCQTail))-atomic.LoadUint32(f.word(fakeCQHead)) >= n {
			f.mu.Unlock()
			return
		}
		watch := []unix.PollFd{{Fd: int32(f.notify), Events: unix.POLLIN}}
		if f.mu.poll != nil {
			watch = append(watch, unix.PollFd{Fd: f.mu.poll.fd, Events: unix.POLLIN})
		}
		f.mu.Unlock()
		if _, err := unix.Poll(watch, -1); err != nil {
			continue // a signal
		}
		f.mu.Lock()
		if len(watch) == 2 && watch[1].Revents != 0 {
			f.postLocked(f.mu.poll.userData, unix.POLLIN)
			f.mu.poll = nil
		}
		if watch[0].Revents != 0 {
			var count [8]byte
			_, _ = unix.Read(f.notify, count[:])
		}
		f.mu.Unlock()
	}
}

// complete posts a completion from outside a call.
func (f *fakeKernel) complete(userData uint64, res int32) {
	f.mu.Lock()
	f.postLocked(userData, res)
	f.mu.Unlock()
	if _, err := unix.Write(f.notify, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		f.t.Error(err)
	}
}

// takenOps returns every operation taken so far.
func (f *fakeKernel) takenOps() []sqe {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]sqe(nil), f.mu.taken...)
}

// waitTaken waits until the kernel took n operations and returns them.
func (f *fakeKernel) waitTaken(n int) []sqe {
	for {
		if taken := f.takenOps(); len(taken) >= n {
			return taken
		}
		<-f.took
	}
}

// fakeFile is a file with a descriptor number that nothing is behind.
type fakeFile struct{ rawFile }

func (*fakeFile) Name() string { return "a-file" }
func (*fakeFile) FD() int      { return 777 }
