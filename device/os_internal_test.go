package device

import (
	"errors"
	"math"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTheHolderOfALockIsFoundInTheKernelsList(t *testing.T) {
	const list = `1: POSIX  ADVISORY  WRITE 10 fe:00:42 0 EOF
2: FLOCK  ADVISORY  READ  20 fe:00:42 0 EOF
2: -> FLOCK  ADVISORY  WRITE 30 fe:00:42 0 EOF
3: FLOCK  ADVISORY  READ  40 fe:00:42 0 EOF
4: FLOCK  ADVISORY  WRITE 50 fe:00:420 0 EOF
5: FLOCK  ADVISORY  WRITE -1 fe:00:43 0 EOF
6: OFDLCK ADVISORY  WRITE -1 fe:00:44 0 EOF
7: short
`
	for _, c := range []struct {
		file       string
		self, want int
	}{
		{"fe:00:42", 1, 20},
		{"fe:00:42", 40, 40},
		{"fe:00:42", 30, 20},
		{"fe:00:420", 1, 50},
		{"fe:00:43", 1, 0},
		{"fe:00:44", 1, 0},
		{"fe:00:45", 1, 0},
	} {
		if got := findHolder(strings.NewReader(list), c.file, c.self); got != c.want {
			t.Errorf("%s, asked by %d: %d, want %d", c.file, c.self, got, c.want)
		}
	}
}

func TestAFlushIsIssuedOnceWhateverItReturns(t *testing.T) {
	for _, errno := range []error{unix.EIO, unix.EINTR, unix.EAGAIN, unix.ENOSPC, nil} {
		calls := 0
		op := &Op{Kind: Flush}
		err := flushOnce(op, func() error { calls++; return errno })
		if calls != 1 || op.Pieces != 1 || !errors.Is(err, errno) {
			t.Errorf("%v: %d calls, %v", errno, calls, err)
		}
	}
}

func TestFilesystemsAreNamed(t *testing.T) {
	for magic, want := range map[uint32]string{
		0xef53: "ext4", 0x58465342: "xfs", 0x9123683e: "btrfs", 0x01021994: "tmpfs", 0x794c7630: "overlay",
		0x6969: "nfs", 0xff534d42: "cifs", 0xfe534d42: "cifs", 0x517b: "cifs", 0x65735546: "fuse",
		0x2fc12fc1: "zfs", 0x01021997: "9p", 0xf2f52010: "f2fs", 0xdeadbeef: "0xdeadbeef",
	} {
		if got := filesystemName(magic); got != want {
			t.Errorf("%#x is called %q, want %q", magic, got, want)
		}
	}
}

func TestSizesThatDoNotFitAreClamped(t *testing.T) {
	if got := clampedProduct(math.MaxUint64, 4096); got != math.MaxInt64 {
		t.Error(got)
	}
	if got := clampedProduct(math.MaxUint64, 1); got != math.MaxInt64 {
		t.Error(got)
	}
	if got := clampedProduct(3, 4096); got != 12288 {
		t.Error(got)
	}
}

func TestACallInterruptedForEverEndsWithTheError(t *testing.T) {
	calls := 0
	err := ignoreInterrupts(func() error { calls++; return unix.EINTR })
	if !errors.Is(err, unix.EINTR) || calls != repeatsMax {
		t.Fatal(calls, err)
	}
}
