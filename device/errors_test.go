package device_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"testing"

	"felix.local/felix/device"
)

func TestEveryErrnoHasItsClass(t *testing.T) {
	for errno, want := range map[syscall.Errno]error{
		syscall.ENOSPC:     device.ErrFull,
		syscall.EDQUOT:     device.ErrFull,
		syscall.EROFS:      device.ErrReadOnly,
		syscall.EACCES:     device.ErrReadOnly,
		syscall.EPERM:      device.ErrReadOnly,
		syscall.EMFILE:     device.ErrTooManyFiles,
		syscall.ENFILE:     device.ErrTooManyFiles,
		syscall.EOPNOTSUPP: device.ErrUnsupported,
		syscall.ENOSYS:     device.ErrUnsupported,
		syscall.EIO:        device.ErrIO,
		syscall.ENODATA:    device.ErrIO,
		syscall.EREMOTEIO:  device.ErrIO,
		syscall.EBADF:      device.ErrIO,
		syscall.EINVAL:     device.ErrIO,
	} {
		err := device.NewError("write", "/data/f", 7, errno)
		for _, class := range []error{
			device.ErrFull, device.ErrReadOnly, device.ErrTooManyFiles, device.ErrUnsupported, device.ErrIO, device.ErrOutcomeUnknown,
		} {
			if errors.Is(err, class) != (class == want) {
				t.Errorf("%v: is %v: %v", errno, class, errors.Is(err, class))
			}
		}
		if !errors.Is(err, errno) {
			t.Errorf("%v is hidden", errno)
		}
		if outer := fmt.Errorf("shard 1: %w", err); device.ClassOf(outer) != device.ClassOf(err) {
			t.Errorf("%v: a wrapped error has another class", errno)
		}
	}
}

func TestErrorsKeepTheirClassAndPlace(t *testing.T) {
	if device.NewError("write", "f", 0, nil) != nil || device.ClassOf(nil) != device.ClassNone {
		t.Error("no error became one")
	}
	inner := device.NewError("write", "f", 3, syscall.ENOSPC)
	if again := device.NewError("flush", "g", 9, inner); again != inner {
		t.Errorf("an error was wrapped again: %v", again)
	}
	if device.ClassOf(io.ErrShortWrite) != device.ClassIO {
		t.Error("an error without an errno is no i/o error")
	}
	unknown := device.NewError("write", "f", 3, device.ErrOutcomeUnknown)
	if device.ClassOf(unknown) != device.ClassOutcomeUnknown {
		t.Error("an unknown outcome lost its class")
	}
	missing := device.NewError("open", "f", -1, syscall.ENOENT)
	if !device.IsNotExist(missing) || !errors.Is(missing, fs.ErrNotExist) {
		t.Error("a missing file is not missing")
	}
	for err, want := range map[error]string{
		inner:   "write f at position 3: disk full (no space left on device)",
		missing: "open f: no such file or directory",
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}
