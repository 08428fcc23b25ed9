package seccomptest

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What filters are made of.
const (
	load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	and    = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	atMost = unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K
	answer = unix.BPF_RET | unix.BPF_K

	// Where a filter finds what it asks about.
	numberPosition       = 0
	architecturePosition = 4
	argumentsPosition    = 16
)

// Deny makes a system call, by its number, fail with errno in every thread of this
// process, for good. An error means that this process may set no filter.
func Deny(call uint32, errno syscall.Errno) error {
	return install([]unix.SockFilter{
		{Code: load, K: numberPosition},
		{Code: equal, Jf: 1, K: call},
		{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: answer, K: unix.SECCOMP_RET_ALLOW},
	})
}

// install sets a filter for every thread.
func install(filter []unix.SockFilter) error {
	// The right to set a filter is the thread's until the filter is set, which
	// brings both to all threads.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	other, _, refused := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if refused != 0 {
		return fmt.Errorf("seccomp: %w", refused)
	}
	if other != 0 {
		return fmt.Errorf("seccomp: thread %d has a filter of its own", other)
	}
	return nil
}
