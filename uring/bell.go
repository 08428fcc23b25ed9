package uring

import (
	"encoding/binary"
	"errors"
	"runtime"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Where the loop is, as producers see it.
const (
	awake uint32 = iota
	parked
	inKernel
)

// bell wakes the loop. doc.go says why no ring is lost.
type bell struct {
	state atomic.Uint32
	// token wakes a parked loop. Only the producer that moved parked → awake
	// sends, so the one place is always free.
	token chan struct{}
	// eventfd wakes a loop inside the kernel.
	eventfd int
	// ringing counts producers that may be about to write the eventfd; its
	// number must not be closed, and given to another file, under them.
	ringing atomic.Int32
	// rung counts writes of the eventfd.
	rung atomic.Uint64
}

func (b *bell) open() syscall.Errno {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		var errno syscall.Errno
		if !errors.As(err, &errno) {
			errno = syscall.EINVAL
		}
		return errno
	}
	b.eventfd = fd
	b.token = make(chan struct{}, 1)
	return 0
}

// ring makes the loop look at the arrivals. The caller pushed them first.
func (b *bell) ring() {
	switch b.state.Load() {
	case parked:
		if b.state.CompareAndSwap(parked, awake) {
			b.token <- struct{}{}
		}
	case inKernel:
		b.ringing.Add(1)
		if b.state.CompareAndSwap(inKernel, awake) {
			b.strike()
		}
		b.ringing.Add(-1)
	}
}

func (b *bell) strike() {
	one := binary.NativeEndian.AppendUint64(make([]byte, 0, 8), 1)
	b.rung.Add(1)
	for {
		_, err := unix.Write(b.eventfd, one)
		switch {
		case err == nil, errors.Is(err, unix.EAGAIN): // a full counter is readable too
			return
		case !errors.Is(err, unix.EINTR):
			panic("uring: write of the wake-up eventfd: " + err.Error())
		}
	}
}

// park waits until a producer rings, unless idle is false after producers could
// see the loop parked.
func (b *bell) park(idle func() bool) {
	b.state.Store(parked)
	if !idle() && b.state.CompareAndSwap(parked, awake) {
		return
	}
	// Either nobody has rung yet or somebody has and the token is on its way.
	<-b.token
}

// enterKernel announces that the loop is about to wait in the kernel. It is
// false, and nothing is announced, when there is something to do.
func (b *bell) enterKernel(idle func() bool) bool {
	b.state.Store(inKernel)
	if idle() {
		return true
	}
	b.state.Store(awake)
	return false
}

// leaveKernel takes the announcement back. A producer may have rung in between;
// its write of the eventfd is read whenever it arrives.
func (b *bell) leaveKernel() { b.state.Store(awake) }

// silence takes what was written to the eventfd, so that a new poll waits.
func (b *bell) silence() {
	var count [8]byte
	for {
		_, err := unix.Read(b.eventfd, count[:])
		if !errors.Is(err, unix.EINTR) {
			return // taken, or EAGAIN: there was nothing
		}
	}
}

// close ends the bell. The state is awake for good, so a producer that is not
// counted in ringing by now will not write.
func (b *bell) close() error {
	for b.ringing.Load() != 0 {
		runtime.Gosched()
	}
	return unix.Close(b.eventfd)
}
