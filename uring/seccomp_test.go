package uring

import (
	"errors"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
)

// TestAForbiddenSetupIsATypedRefusal: container profiles deny the call in different
// ways.
func TestAForbiddenSetupIsATypedRefusal(t *testing.T) {
	for name, errno := range map[string]syscall.Errno{
		"EPERM": syscall.EPERM, "ENOSYS": syscall.ENOSYS, "EACCES": syscall.EACCES,
	} {
		t.Run(name, func(t *testing.T) {
			if !inChild(t) {
				return
			}
			deny(t, errno, unix.SYS_IO_URING_SETUP)
			_, err := Open(Options{})
			var refused *SetupError
			if !errors.As(err, &refused) || refused.Stage != stageSetup || refused.Errno != errno {
				t.Fatalf("got %v", err)
			}
		})
	}
}

// TestAForbiddenEnterLosesTheRing: setup alone proves nothing.
func TestAForbiddenEnterLosesTheRing(t *testing.T) {
	for name, errno := range map[string]syscall.Errno{"EPERM": syscall.EPERM, "ENOSYS": syscall.ENOSYS} {
		t.Run(name, func(t *testing.T) {
			if !inChild(t) {
				return
			}
			file := newFile(t)
			deny(t, errno, unix.SYS_IO_URING_ENTER)
			r := openRing(t, Options{})
			op := &device.Op{File: file, Buf: []byte("x")}
			r.Submit(op)
			wantLost(t, r, errno, op)
		})
	}
}

func TestAForbiddenRegisterDoesNotEndTheRing(t *testing.T) {
	for name, errno := range map[string]syscall.Errno{"EPERM": syscall.EPERM, "ENOSYS": syscall.ENOSYS} {
		t.Run(name, func(t *testing.T) {
			if !inChild(t) {
				return
			}
			file := newFile(t)
			deny(t, errno, unix.SYS_IO_URING_REGISTER)
			r := openRing(t, Options{})
			if i := r.Info(); i.ProbeRefused != errno || i.WorkersRefused != errno || len(i.Opcodes) != 0 {
				t.Errorf("got %+v", i)
			}
			for k := range device.KindCount {
				op := &device.Op{Kind: k, File: file, Buf: []byte("x"), Len: 4096}
				if err := device.Do(r, op); err != nil {
					t.Errorf("%v: %v", k, err)
				}
			}
			closeRing(t, r)
		})
	}
}

// deny makes a system call fail with errno for every thread of this process, for
// good.
func deny(t *testing.T, errno syscall.Errno, call uint32) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Skipf("no filter can be set: %v", err)
	}
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		give  = unix.BPF_RET | unix.BPF_K
	)
	filter := []unix.SockFilter{
		{Code: load, K: 0}, // the call's number
		{Code: equal, Jt: 0, Jf: 1, K: call},
		{Code: give, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: give, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	// Every thread at once: the loop may run on any of them.
	stranger, _, failed := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if failed != 0 || stranger != 0 {
		t.Skipf("no filter can be set: %v (thread %d)", failed, stranger)
	}
}
