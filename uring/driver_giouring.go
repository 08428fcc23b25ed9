//go:build giouring

package uring

import (
	"errors"
	"syscall"
	"unsafe"

	"github.com/pawelgaczynski/giouring"
)

// DriverName is the driver this build opens rings with.
const DriverName = "giouring"

// giouringRing drives a ring with the giouring library. It is an independent
// implementation of what mapped does, and is held to the same tests.
type giouringRing struct {
	ring  *giouring.Ring
	setup params
}

func openDriver(entries uint32, flags uint32) (driver, *openFailure) {
	g := &giouringRing{ring: giouring.NewRing(), setup: params{flags: flags}}
	if flags&setupCQSize != 0 {
		g.setup.cqEntries = entries
	}
	// The library's Params has no exported field; its layout is the kernel's, and so
	// is that of params.
	err := g.ring.QueueInitParams(entries, (*giouring.Params)(unsafe.Pointer(&g.setup)))
	if err != nil {
		var errno syscall.Errno
		if !errors.As(err, &errno) {
			errno = syscall.EINVAL
		}
		return nil, &openFailure{stage: stageSetup, errno: errno}
	}
	// The library reports Errno(0) as an error after the first of its calls, so
	// the result says nothing; a Go program forks only to execute another.
	_ = g.ring.RingDontFork()
	return g, nil
}

func (g *giouringRing) params() *params { return &g.setup }

func (g *giouringRing) push(e *sqe) {
	entry := g.ring.GetSQE()
	if entry == nil {
		panic("uring: the submission queue is full although every entry has a slot")
	}
	prepareGiouring(entry, e)
}

// prepareGiouring fills an entry with the library's own functions. They leave the
// operation's flags as the slot last had them, so the entry is zeroed first.
func prepareGiouring(entry *giouring.SubmissionQueueEntry, e *sqe) {
	*entry = giouring.SubmissionQueueEntry{}
	fd := int(e.fd)
	switch e.opcode {
	case opWrite:
		entry.PrepareWrite(fd, uintptr(e.addr), e.len, e.off)
		entry.OpcodeFlags = e.opFlags
	case opFsync:
		entry.PrepareFsync(fd, e.opFlags)
	case opFallocate:
		entry.PrepareFallocate(fd, int(e.len), e.off, e.addr)
	case opPollAdd:
		entry.PreparePollAdd(fd, e.opFlags)
	default:
		panic("uring: an operation that no entry is prepared for")
	}
	entry.UserData = e.userData
}

func (g *giouringRing) pending() uint32 { return g.ring.SQReady() }

func (g *giouringRing) enter(submit, wait uint32) (uint32, syscall.Errno) {
	var n uint
	var err error
	if submit == 0 {
		n, err = g.ring.Enter(0, wait, giouring.EnterGetEvents, nil)
	} else {
		n, err = g.ring.SubmitAndWait(wait)
	}
	var errno syscall.Errno
	if err != nil && !errors.As(err, &errno) {
		errno = syscall.EINVAL
	}
	return uint32(n), errno
}

func (g *giouringRing) ready() uint32 { return g.ring.CQReady() }

func (g *giouringRing) reap(handle func(userData uint64, res int32)) int {
	n := uint32(0)
	g.ring.ForEachCQE(func(e *giouring.CompletionQueueEvent) {
		handle(e.UserData, e.Res)
		n++
	})
	if n > 0 {
		g.ring.CQAdvance(n)
	}
	return int(n)
}

func (g *giouringRing) overflow() uint32 {
	if g.ring.CQHasOverflow() {
		return 1
	}
	return 0
}

func (g *giouringRing) register(opcode uint32, arg unsafe.Pointer, n uint32) syscall.Errno {
	_, errno := g.ring.Register(g.ring.RingFd(), opcode, arg, n)
	return errno
}

func (g *giouringRing) close() error {
	g.ring.QueueExit()
	return nil
}
