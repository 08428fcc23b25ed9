package uring

import (
	"syscall"
	"unsafe"
)

// driver is one open kernel ring as the loop sees it. Only the loop calls it
// after setup, and no call is concurrent with another.
type driver interface {
	// push puts an entry in the submission queue. The slots guarantee room.
	push(e *sqe)
	// pending counts entries the kernel has not taken yet, read from the ring.
	pending() uint32
	// enter offers submit entries and, with wait > 0, waits for that many
	// completions. A wait of 0 does not block.
	enter(submit, wait uint32) (consumed uint32, errno syscall.Errno)
	// ready counts completions that can be reaped.
	ready() uint32
	// reap hands over every completion that is there and returns how many.
	reap(handle func(userData uint64, res int32)) int
	// overflow is not zero when the completion queue had no room for a
	// completion.
	overflow() uint32
	// register calls io_uring_register.
	register(opcode uint32, arg unsafe.Pointer, n uint32) syscall.Errno
	// params is what setup answered.
	params() *params
	// close unmaps and closes the ring. Nothing is in flight.
	close() error
}

// openFailure says which step of opening a ring failed.
type openFailure struct {
	stage string
	errno syscall.Errno
}
