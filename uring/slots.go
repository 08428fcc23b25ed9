package uring

import (
	"sync/atomic"
	"time"

	"felix.local/felix/device"
)

// slot is one operation in the kernel's hands. It keeps the operation, and with
// it file and buffer, until the completion is reaped.
type slot struct {
	op *device.Op
	// buf and file are the operation's own. A caller that was told "outcome
	// unknown" may use its Op again; the kernel may still use these.
	buf  []byte
	file device.File

	fd         int
	generation uint32
	done       int // bytes written by earlier pieces
	asked      int // bytes of the piece under way
	retries    int // times in a row it came back undone and was issued again
	// backSince is when it came back for the first time in this row.
	backSince time.Time
}

// slots are all places in flight.
type slots struct {
	all  []slot
	free []uint32
	// since holds, for Stats, when each slot's operation was submitted, in
	// nanoseconds after the ring was opened, plus one; 0 is a free slot.
	since []atomic.Int64
}

func newSlots(n int) *slots {
	s := &slots{all: make([]slot, n), free: make([]uint32, n), since: make([]atomic.Int64, n)}
	for i := range s.free {
		s.free[i] = uint32(n - 1 - i)
	}
	return s
}

func (s *slots) inFlight() int { return len(s.all) - len(s.free) }

// take gives op a slot; the caller knows that one is free.
func (s *slots) take(op *device.Op, fd int, since int64) uint32 {
	index := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	at := &s.all[index]
	*at = slot{op: op, buf: op.Buf, file: op.File, fd: fd, generation: at.generation}
	s.since[index].Store(since + 1)
	return index
}

func (s *slots) release(index uint32) {
	at := &s.all[index]
	*at = slot{generation: at.generation}
	s.since[index].Store(0)
	s.free = append(s.free, index)
}

// pollIndex is the index part of the eventfd poll's user data.
const pollIndex = ^uint32(0)

// label makes the user data of the next submission of a slot. The generation
// changes every time, so a completion that is not the awaited one is noticed.
func (s *slots) label(index uint32) uint64 {
	s.all[index].generation++
	return uint64(s.all[index].generation)<<32 | uint64(index)
}

// find returns the slot that a completion is for, or false when it is for none.
func (s *slots) find(userData uint64) (uint32, bool) {
	index := uint32(userData)
	if int(index) >= len(s.all) || s.all[index].op == nil || s.all[index].generation != uint32(userData>>32) {
		return 0, false
	}
	return index, true
}
