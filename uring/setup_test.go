package uring

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSetupTakesTheRichestRingTheKernelGives has one fake kernel per row.
func TestSetupTakesTheRichestRingTheKernelGives(t *testing.T) {
	const all = setupCQSize | setupClamp | setupSubmitAll
	knows := func(known uint32) func(entries, flags uint32) syscall.Errno {
		return func(_, flags uint32) syscall.Errno {
			if flags&^known != 0 {
				return syscall.EINVAL
			}
			return 0
		}
	}
	atMost := func(limit uint32, errno syscall.Errno) func(entries, flags uint32) syscall.Errno {
		return func(entries, _ uint32) syscall.Errno {
			if entries > limit {
				return errno
			}
			return 0
		}
	}
	always := func(errno syscall.Errno) func(entries, flags uint32) syscall.Errno {
		return func(uint32, uint32) syscall.Errno { return errno }
	}
	for _, row := range []struct {
		name    string
		options Options
		kernel  func(*fakeKernel)

		stage   string
		errno   syscall.Errno
		missing []string

		entries, inFlight int
		flags             uint32
		probeRefused      syscall.Errno
		workersRefused    syscall.Errno
	}{
		{name: "a new kernel takes every flag", entries: 256, inFlight: 255, flags: all},
		{
			name: "a kernel without SUBMIT_ALL", kernel: func(f *fakeKernel) { f.onSetup = knows(setupCQSize | setupClamp) },
			entries: 256, inFlight: 255, flags: setupCQSize | setupClamp,
		},
		{
			name: "a kernel without any flag", kernel: func(f *fakeKernel) { f.onSetup = knows(0) },
			entries: 256, inFlight: 255,
		},
		{
			name: "little lockable memory halves the ring", kernel: func(f *fakeKernel) { f.onSetup = atMost(64, syscall.ENOMEM) },
			entries: 64, inFlight: 63, flags: all,
		},
		{
			name: "little memory on an old kernel", kernel: func(f *fakeKernel) {
				f.onSetup = func(entries, flags uint32) syscall.Errno {
					if flags != 0 {
						return syscall.EINVAL
					}
					return atMost(32, syscall.ENOMEM)(entries, flags)
				}
			}, entries: 32, inFlight: 31,
		},
		{
			name: "the ring's mapping has no memory", kernel: func(f *fakeKernel) {
				f.onMap = func(int64) error {
					if f.setupParams.sqEntries > 128 {
						return syscall.ENOMEM
					}
					return nil
				}
			}, entries: 128, inFlight: 127, flags: all,
		},
		{
			name: "no memory for the smallest ring", kernel: func(f *fakeKernel) { f.onSetup = atMost(31, syscall.ENOMEM) },
			stage: stageSetup, errno: syscall.ENOMEM,
		},
		{
			name: "a small ring is not made smaller", options: Options{Entries: 8}, kernel: func(f *fakeKernel) { f.onSetup = always(syscall.ENOMEM) },
			stage: stageSetup, errno: syscall.ENOMEM,
		},
		{
			name: "a mapping is refused", kernel: func(f *fakeKernel) {
				f.onMap = func(offset int64) error {
					if offset == offsetSQEs {
						return syscall.EACCES
					}
					return nil
				}
			}, stage: stageMap, errno: syscall.EACCES,
		},
		{name: "setup is forbidden", kernel: func(f *fakeKernel) { f.onSetup = always(syscall.EPERM) }, stage: stageSetup, errno: syscall.EPERM},
		{name: "setup is denied", kernel: func(f *fakeKernel) { f.onSetup = always(syscall.EACCES) }, stage: stageSetup, errno: syscall.EACCES},
		{name: "no io_uring at all", kernel: func(f *fakeKernel) { f.onSetup = always(syscall.ENOSYS) }, stage: stageSetup, errno: syscall.ENOSYS},
		{name: "no setup is valid", kernel: func(f *fakeKernel) { f.onSetup = always(syscall.EINVAL) }, stage: stageSetup, errno: syscall.EINVAL},
		{name: "no descriptors left", kernel: func(f *fakeKernel) { f.onSetup = always(syscall.EMFILE) }, stage: stageSetup, errno: syscall.EMFILE},
		{
			name: "an operation is missing", kernel: func(f *fakeKernel) { f.missing = []uint8{opFallocate} },
			stage: stageProbe, errno: syscall.ENOSYS, missing: []string{"FALLOCATE"},
		},
		{
			name: "several operations are missing", kernel: func(f *fakeKernel) { f.missing = []uint8{opWrite, opPollAdd} },
			stage: stageProbe, errno: syscall.ENOSYS, missing: []string{"POLL_ADD", "WRITE"},
		},
		{
			name: "a refused probe does not end the ring", kernel: func(f *fakeKernel) { f.onProbe, f.onWorkers = syscall.EPERM, syscall.EPERM },
			entries: 256, inFlight: 255, flags: all, probeRefused: syscall.EPERM, workersRefused: syscall.EPERM,
		},
		{
			name: "a probe the kernel does not know", kernel: func(f *fakeKernel) { f.onProbe = syscall.EINVAL },
			entries: 256, inFlight: 255, flags: all, probeRefused: syscall.EINVAL,
		},
		{
			name: "a refused worker maximum does not end the ring", kernel: func(f *fakeKernel) { f.onWorkers = syscall.EINVAL },
			entries: 256, inFlight: 255, flags: all, workersRefused: syscall.EINVAL,
		},
		{name: "odd sizes are rounded up", options: Options{Entries: 33}, entries: 64, inFlight: 63, flags: all},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := newFakeKernel(t)
			if row.kernel != nil {
				row.kernel(f)
			}
			r, err := f.open(row.options)
			if row.stage != "" {
				var refused *SetupError
				if !errors.As(err, &refused) {
					t.Fatalf("got %v, want a *SetupError", err)
				}
				if refused.Stage != row.stage || refused.Errno != row.errno || !slices.Equal(refused.Missing, row.missing) {
					t.Fatalf("got %+v", refused)
				}
				if !errors.Is(err, row.errno) {
					t.Fatal("the errno is not found in the error")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			i := r.Info()
			if i.Entries != row.entries || i.InFlightMax != row.inFlight || i.SetupFlags != row.flags ||
				i.ProbeRefused != row.probeRefused || i.WorkersRefused != row.workersRefused {
				t.Errorf("got %+v", i)
			}
			if i.CQEntries <= i.InFlightMax {
				t.Errorf("%d completion entries for %d in flight", i.CQEntries, i.InFlightMax)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if f.mu.closed == 0 || f.mu.unmapped < 2 {
				t.Errorf("closed %d times, %d regions unmapped", f.mu.closed, f.mu.unmapped)
			}
		})
	}
}

func TestARefusedSetupClosesWhatItMade(t *testing.T) {
	f := newFakeKernel(t)
	f.missing = []uint8{opWrite}
	if _, err := f.open(Options{}); err == nil {
		t.Fatal("no error")
	}
	if f.mu.closed != 1 || f.mu.unmapped != 2 {
		t.Fatalf("closed %d times, %d regions unmapped", f.mu.closed, f.mu.unmapped)
	}
}

func TestOptionsListEveryProblem(t *testing.T) {
	_, err := Open(Options{Entries: 1, EnterRetries: -1, TransferBytes: 2 << 30})
	for _, word := range []string{"Entries", "EnterRetries", "TransferBytes"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not name %s", err, word)
		}
	}
}

func TestTheRingIsCloseOnExec(t *testing.T) {
	r := openRing(t, Options{})
	defer r.Close()
	seen := 0
	for fd := range 1024 {
		target := readLink(fd)
		if target == "anon_inode:[io_uring]" || target == "anon_inode:[eventfd]" && fd == r.bell.eventfd {
			seen++
			flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
			if err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("descriptor %d (%s): flags %#x, %v", fd, target, flags, err)
			}
		}
	}
	if seen < 2 {
		t.Fatalf("found %d of the ring's descriptors", seen)
	}
}
