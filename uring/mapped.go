package uring

import (
	"errors"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// mapped is the native driver: the ring's shared memory and how head and tail
// move in it. The kernel moves the submission head and the completion tail; this
// side moves the other two. An index runs over the full 32 bits and is masked on
// use.
type mapped struct {
	kernel kernel
	fd     int
	setup  params

	regions []region

	sqHead, sqTail, sqFlags *uint32
	sqMask                  uint32
	sqes                    []sqe
	tail                    uint32 // pushed up to here; published by enter

	cqHead, cqTail, cqOverflow *uint32
	cqMask                     uint32
	cqes                       []cqe
}

type region struct {
	at   unsafe.Pointer
	size uintptr
}

// openMapped makes a ring and maps it. With setupCQSize among the flags the
// completion queue has as many entries as the submission queue.
func openMapped(k kernel, entries, flags uint32) (driver, *openFailure) {
	m := &mapped{kernel: k, setup: params{flags: flags}}
	if flags&setupCQSize != 0 {
		m.setup.cqEntries = entries
	}
	fd, errno := k.setup(entries, &m.setup)
	if errno != 0 {
		return nil, &openFailure{stage: stageSetup, errno: errno}
	}
	m.fd = fd
	if err := m.mapAll(); err != nil {
		_ = m.close() // the mapping's failure is the one to report
		var errno syscall.Errno
		if !errors.As(err, &errno) {
			errno = syscall.EINVAL
		}
		return nil, &openFailure{stage: stageMap, errno: errno}
	}
	return m, nil
}

func (m *mapped) mapAll() error {
	p := &m.setup
	sqBytes := uintptr(p.sqOff.array) + uintptr(p.sqEntries)*4
	cqBytes := uintptr(p.cqOff.cqes) + uintptr(p.cqEntries)*unsafe.Sizeof(cqe{})
	single := p.features&featSingleMmap != 0
	if single {
		sqBytes = max(sqBytes, cqBytes)
	}
	sq, err := m.mapRegion(offsetSQRing, sqBytes)
	if err != nil {
		return err
	}
	cq := sq
	if !single {
		if cq, err = m.mapRegion(offsetCQRing, cqBytes); err != nil {
			return err
		}
	}
	entries, err := m.mapRegion(offsetSQEs, uintptr(p.sqEntries)*unsafe.Sizeof(sqe{}))
	if err != nil {
		return err
	}

	m.sqHead, m.sqTail = word(sq, p.sqOff.head), word(sq, p.sqOff.tail)
	m.sqFlags = word(sq, p.sqOff.flags)
	m.sqMask = *word(sq, p.sqOff.ringMask)
	m.sqes = unsafe.Slice((*sqe)(entries), p.sqEntries)
	m.tail = atomic.LoadUint32(m.sqTail)
	// The index array lets entries be submitted out of order. Here entry i is
	// always at index i.
	for i, array := uint32(0), unsafe.Slice(word(sq, p.sqOff.array), p.sqEntries); i < p.sqEntries; i++ {
		array[i] = i
	}

	m.cqHead, m.cqTail = word(cq, p.cqOff.head), word(cq, p.cqOff.tail)
	m.cqOverflow = word(cq, p.cqOff.overflow)
	m.cqMask = *word(cq, p.cqOff.ringMask)
	m.cqes = unsafe.Slice((*cqe)(unsafe.Add(cq, p.cqOff.cqes)), p.cqEntries)
	return nil
}

// mapRegion maps a part of the ring and keeps it out of forked children, which
// would otherwise share it.
func (m *mapped) mapRegion(offset int64, size uintptr) (unsafe.Pointer, error) {
	at, err := m.kernel.mmap(m.fd, offset, size)
	if err != nil {
		return nil, err
	}
	m.regions = append(m.regions, region{at, size})
	return at, m.kernel.dontFork(at, size)
}

func word(base unsafe.Pointer, offset uint32) *uint32 {
	return (*uint32)(unsafe.Add(base, offset))
}

func (m *mapped) params() *params { return &m.setup }

func (m *mapped) push(e *sqe) {
	if m.pending() >= uint32(len(m.sqes)) {
		panic("uring: the submission queue is full although every entry has a slot")
	}
	m.sqes[m.tail&m.sqMask] = *e // all 64 bytes: nothing of the former entry stays
	m.tail++
}

func (m *mapped) pending() uint32 { return m.tail - atomic.LoadUint32(m.sqHead) }

func (m *mapped) enter(submit, wait uint32) (uint32, syscall.Errno) {
	atomic.StoreUint32(m.sqTail, m.tail)
	var flags uint32
	if wait > 0 || atomic.LoadUint32(m.sqFlags)&sqCQOverflow != 0 {
		flags = enterGetEvents
	}
	return m.kernel.enter(m.fd, submit, wait, flags)
}

func (m *mapped) ready() uint32 { return atomic.LoadUint32(m.cqTail) - *m.cqHead }

func (m *mapped) reap(handle func(userData uint64, res int32)) int {
	head, tail := *m.cqHead, atomic.LoadUint32(m.cqTail)
	for at := head; at != tail; at++ {
		e := m.cqes[at&m.cqMask]
		handle(e.userData, e.res)
	}
	if head != tail {
		atomic.StoreUint32(m.cqHead, tail)
	}
	return int(tail - head)
}

func (m *mapped) overflow() uint32 { return atomic.LoadUint32(m.cqOverflow) }

func (m *mapped) register(opcode uint32, arg unsafe.Pointer, n uint32) syscall.Errno {
	return m.kernel.register(m.fd, opcode, arg, n)
}

func (m *mapped) close() error {
	var problems []error
	for _, r := range m.regions {
		problems = append(problems, m.kernel.munmap(r.at, r.size))
	}
	m.regions = nil
	problems = append(problems, m.kernel.close(m.fd))
	return errors.Join(problems...)
}
