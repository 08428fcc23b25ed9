package uring

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernel is the seam under the native driver: every call that touches io_uring.
// Tests put a scripted kernel here.
type kernel interface {
	setup(entries uint32, p *params) (fd int, errno syscall.Errno)
	enter(fd int, submit, wait, flags uint32) (consumed uint32, errno syscall.Errno)
	register(fd int, opcode uint32, arg unsafe.Pointer, n uint32) syscall.Errno
	mmap(fd int, offset int64, size uintptr) (unsafe.Pointer, error)
	munmap(p unsafe.Pointer, size uintptr) error
	dontFork(p unsafe.Pointer, size uintptr) error
	close(fd int) error
}

// systemKernel is the running kernel.
type systemKernel struct{}

func (systemKernel) setup(entries uint32, p *params) (int, syscall.Errno) {
	// The kernel makes the descriptor close-on-exec by itself.
	fd, _, errno := syscall.Syscall(unix.SYS_IO_URING_SETUP, uintptr(entries), uintptr(unsafe.Pointer(p)), 0)
	return int(fd), errno
}

func (systemKernel) enter(fd int, submit, wait, flags uint32) (uint32, syscall.Errno) {
	// Syscall6, not RawSyscall6: the collector must not wait for this thread.
	n, _, errno := syscall.Syscall6(unix.SYS_IO_URING_ENTER,
		uintptr(fd), uintptr(submit), uintptr(wait), uintptr(flags), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return uint32(n), 0
}

func (systemKernel) register(fd int, opcode uint32, arg unsafe.Pointer, n uint32) syscall.Errno {
	_, _, errno := syscall.Syscall6(unix.SYS_IO_URING_REGISTER,
		uintptr(fd), uintptr(opcode), uintptr(arg), uintptr(n), 0, 0)
	return errno
}

func (systemKernel) mmap(fd int, offset int64, size uintptr) (unsafe.Pointer, error) {
	return unix.MmapPtr(fd, offset, nil, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
}

func (systemKernel) munmap(p unsafe.Pointer, size uintptr) error { return unix.MunmapPtr(p, size) }

func (systemKernel) dontFork(p unsafe.Pointer, size uintptr) error {
	return unix.Madvise(unsafe.Slice((*byte)(p), size), unix.MADV_DONTFORK)
}

func (systemKernel) close(fd int) error { return unix.Close(fd) }
