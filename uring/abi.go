package uring

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// What the kernel's io_uring interface fixes. Names follow the kernel's header,
// values are its ABI.
const (
	opFsync     = 3
	opPollAdd   = 6
	opFallocate = 17
	opWrite     = 23

	setupCQSize    = 1 << 3
	setupClamp     = 1 << 4
	setupSubmitAll = 1 << 7

	enterGetEvents = 1 << 0

	registerProbe          = 8
	registerIOWQMaxWorkers = 19

	featSingleMmap = 1 << 0

	sqCQOverflow = 1 << 1

	fsyncDatasync = 1 << 0

	offsetSQRing int64 = 0
	offsetCQRing int64 = 0x8000000
	offsetSQEs   int64 = 0x10000000

	// The kernel transfers at most this much in one call.
	kernelTransferMax = 0x7ffff000
)

// sqe is a submission entry.
type sqe struct {
	opcode      uint8
	flags       uint8
	ioprio      uint16
	fd          int32
	off         uint64
	addr        uint64
	len         uint32
	opFlags     uint32
	userData    uint64
	bufIndex    uint16
	personality uint16
	spliceFD    int32
	pad         [2]uint64
}

// cqe is a completion entry.
type cqe struct {
	userData uint64
	res      int32
	flags    uint32
}

type sqOffsets struct {
	head, tail, ringMask, ringEntries, flags, dropped, array, resv1 uint32
	userAddr                                                        uint64
}

type cqOffsets struct {
	head, tail, ringMask, ringEntries, overflow, cqes, flags, resv1 uint32
	userAddr                                                        uint64
}

// params is what io_uring_setup takes and answers.
type params struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFD uint32
	resv                                                                   [3]uint32
	sqOff                                                                  sqOffsets
	cqOff                                                                  cqOffsets
}

// probe is what IORING_REGISTER_PROBE answers.
type probe struct {
	lastOp uint8
	opsLen uint8
	resv   uint16
	resv2  [3]uint32
	ops    [256]probeOp
}

type probeOp struct {
	op    uint8
	resv  uint8
	flags uint16
	resv2 uint32
}

const probeSupported = 1 << 0

// The sizes are the ABI; a change of layout does not compile.
var (
	_ [64]byte  = [unsafe.Sizeof(sqe{})]byte{}
	_ [16]byte  = [unsafe.Sizeof(cqe{})]byte{}
	_ [120]byte = [unsafe.Sizeof(params{})]byte{}
	_ [16]byte  = [unsafe.Offsetof(probe{}.ops)]byte{}
)

// writeEntry writes n bytes at addr to position pos. With dsync the completion
// means that these bytes, and the length up to their end, are on the device.
func writeEntry(fd int, addr unsafe.Pointer, n uint32, pos int64, dsync bool) sqe {
	e := sqe{opcode: opWrite, fd: int32(fd), off: uint64(pos), addr: uint64(uintptr(addr)), len: n}
	if dsync {
		e.opFlags = unix.RWF_DSYNC
	}
	return e
}

// flushEntry flushes the whole file. Offset and length stay zero, which means
// all of it; a range would be 32 bits long and is not dependable.
func flushEntry(fd int, dataOnly bool) sqe {
	e := sqe{opcode: opFsync, fd: int32(fd)}
	if dataOnly {
		e.opFlags = fsyncDatasync
	}
	return e
}

// allocateEntry reserves [pos, pos+n) without changing the file length. This
// operation carries the length in addr and the mode in len.
func allocateEntry(fd int, pos, n int64) sqe {
	return sqe{opcode: opFallocate, fd: int32(fd), off: uint64(pos), addr: uint64(n), len: unix.FALLOC_FL_KEEP_SIZE}
}

// pollEntry completes once when fd can be read.
func pollEntry(fd int) sqe {
	return sqe{opcode: opPollAdd, fd: int32(fd), opFlags: unix.POLLIN}
}
