package uring

import (
	"errors"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
	"felix.local/felix/internal/seccomptest"
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
	if err := seccomptest.Deny(call, errno); err != nil {
		t.Skip("no filter can be set:", err)
	}
}
