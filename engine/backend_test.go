package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"felix.local/felix/device"
	"felix.local/felix/fallback"
	"felix.local/felix/uring"
)

// typedFS says that it is another filesystem, and may refuse new files.
type typedFS struct {
	device.FS
	name   string
	create error
}

func (f typedFS) Space(path string) (device.Space, error) {
	s, err := f.FS.Space(path)
	s.Type = f.name
	return s, err
}

func (f typedFS) OpenFile(path string, mode device.OpenMode, perm fs.FileMode) (device.File, error) {
	if f.create != nil {
		return nil, device.NewError("open", path, -1, f.create)
	}
	return f.FS.OpenFile(path, mode, perm)
}

// fakeRing carries operations with a pool, except those that answer refuses.
type fakeRing struct {
	device.Queue
	answer func(*device.Op) error
}

func (fakeRing) Info() uring.Info { return uring.Info{Driver: "fake", ProbeRefused: syscall.EPERM} }

func (r fakeRing) Submit(ops ...*device.Op) {
	for _, op := range ops {
		if err := r.answer(op); err != nil {
			op.Prepare()
			op.Complete(0, err)
			continue
		}
		r.Queue.Submit(op)
	}
}

// on answers operations of some kinds with an errno.
func on(errno error, kinds ...device.Kind) func(*device.Op) error {
	return func(op *device.Op) error {
		for _, k := range kinds {
			if op.Kind == k {
				return device.NewError(k.String(), op.File.Name(), op.Pos, errno)
			}
		}
		return nil
	}
}

// pastFirstBlock answers writes behind the first block of a file.
func pastFirstBlock(errno syscall.Errno) func(*device.Op) error {
	writes := on(errno, device.Write, device.WriteDsync, device.Allocate)
	return func(op *device.Op) error {
		if op.Pos+int64(len(op.Buf))+op.Len <= proofBlock {
			return nil
		}
		return writes(op)
	}
}

func lost(errno syscall.Errno) func(*device.Op) error {
	return func(op *device.Op) error {
		return &device.Error{
			Op: op.Kind.String(), Path: op.File.Name(), Pos: -1,
			Class: device.ClassOutcomeUnknown, Err: &uring.LostError{Call: "io_uring_enter", Cause: errno},
		}
	}
}

// TestTheBackendIsChosenByDoing has one kernel, filesystem and setting per row.
func TestTheBackendIsChosenByDoing(t *testing.T) {
	const newKernel = "6.12.43+deb12-amd64"
	setupFails := func(errno syscall.Errno) error { return &uring.SetupError{Stage: "io_uring_setup", Errno: errno} }
	allKinds := []device.Kind{device.Write, device.WriteDsync, device.Flush, device.FlushAll, device.Allocate}
	for _, row := range []struct {
		name       string
		mode       IOURingMode
		kernel     kernelID
		filesystem string // default ext4
		sysctl     string // "" : no such file
		setup      error
		answer     func(*device.Op) error
		create     error
		threads    uint64 // default unlimited

		want     string // backend, or "refused"
		reason   string // each part of it
		remedy   string
		errno    error
		noDsync  bool
		noDirect string // DirectReason
	}{
		{name: "everything works", want: "ring", reason: "succeeded"},
		{name: "everything works and is required", mode: IOURingRequire, want: "ring"},
		{name: "turned off", mode: IOURingOff, want: "pool", reason: "turned off"},

		{name: "sysctl 2", setup: setupFails(syscall.EPERM), sysctl: "2", want: "pool", reason: "operation not permitted", remedy: "io_uring_disabled is 2: set it to 0", errno: syscall.EPERM},
		{name: "sysctl 1", setup: setupFails(syscall.EPERM), sysctl: "1", want: "pool", reason: "io_uring_setup", remedy: "kernel.io_uring_group", errno: syscall.EPERM},
		{name: "filter, sysctl 0", setup: setupFails(syscall.EPERM), sysctl: "0", want: "pool", remedy: "a seccomp filter or a security module forbids it", errno: syscall.EPERM},
		{name: "filter, no sysctl", setup: setupFails(syscall.EPERM), want: "pool", remedy: "seccomp", errno: syscall.EPERM},
		{name: "filter with EACCES", setup: setupFails(syscall.EACCES), want: "pool", remedy: "security module", errno: syscall.EACCES},
		{name: "no io_uring", setup: setupFails(syscall.ENOSYS), want: "pool", remedy: "CONFIG_IO_URING", errno: syscall.ENOSYS},
		{name: "too old for any setup", setup: setupFails(syscall.EINVAL), want: "pool", remedy: "5.6", errno: syscall.EINVAL},
		{name: "no lockable memory", setup: setupFails(syscall.ENOMEM), want: "pool", remedy: "LimitMEMLOCK", errno: syscall.ENOMEM},
		{name: "no descriptors", setup: setupFails(syscall.EMFILE), want: "pool", remedy: "LimitNOFILE", errno: syscall.EMFILE},
		{
			name: "operations are missing", setup: &uring.SetupError{Errno: syscall.ENOSYS, Missing: []string{"FALLOCATE"}},
			want: "pool", reason: "FALLOCATE", remedy: "5.6", errno: syscall.ENOSYS,
		},
		{name: "required and forbidden", mode: IOURingRequire, setup: setupFails(syscall.EPERM), sysctl: "2", want: "refused", reason: "operation not permitted", remedy: "io_uring_disabled is 2", errno: syscall.EPERM},

		{name: "enter is forbidden", answer: lost(syscall.EPERM), sysctl: "0", want: "pool", reason: "can be set up but not used: io_uring_enter: operation not permitted", remedy: "io_uring_enter", errno: syscall.EPERM},
		{name: "enter is unknown", answer: lost(syscall.ENOSYS), want: "pool", reason: "not used", remedy: "seccomp", errno: syscall.ENOSYS},
		{name: "enter is forbidden and required", mode: IOURingRequire, answer: lost(syscall.EPERM), want: "refused", reason: "not used", errno: syscall.EPERM},
		{name: "preallocation is unknown to the kernel", answer: on(syscall.EINVAL, device.Allocate), want: "pool", reason: "reserving space", errno: syscall.EINVAL},
		{name: "writes fail", answer: on(syscall.EIO, device.Write), want: "pool", reason: "input/output error", errno: syscall.EIO},
		{name: "flushes fail", answer: on(syscall.EIO, device.Flush), want: "pool", reason: "input/output error", errno: syscall.EIO},
		{name: "durable writes fail", answer: on(syscall.EIO, device.WriteDsync), want: "pool", errno: syscall.EIO},
		{name: "the disk is no kernel's", answer: on(device.ErrUnsupported, allKinds...), want: "pool", remedy: "filesystem of the operating system"},

		{name: "no preallocation on the filesystem", answer: on(syscall.EOPNOTSUPP, device.Allocate), want: "ring"},
		{name: "no RWF_DSYNC on the filesystem", answer: on(syscall.EOPNOTSUPP, device.WriteDsync), want: "ring", noDsync: true},
		{name: "RWF_DSYNC is invalid", answer: on(syscall.EINVAL, device.WriteDsync), want: "ring", noDsync: true},
		{name: "an unlisted filesystem", filesystem: "btrfs", want: "ring", noDirect: "not known to overwrite in place"},
		{
			name: "the disk is full", answer: on(syscall.ENOSPC, device.Write, device.WriteDsync, device.Allocate),
			want: "ring", reason: "the disk took no data to read back: write a temporary file at position 0: disk full", noDsync: true, noDirect: "not found out",
		},
		{name: "the disk is full behind a block", answer: pastFirstBlock(syscall.ENOSPC), want: "ring", reason: "succeeded"},
		{name: "no room for a file", create: syscall.ENOSPC, want: "ring", reason: "a flush succeeded; writing was not tried out: open a temporary file: disk full", noDsync: true, noDirect: "not found out"},
		{name: "a read-only disk", create: syscall.EROFS, want: "ring", reason: "a flush succeeded", noDsync: true, noDirect: "not found out"},
		{name: "no room for a file and no enter", create: syscall.ENOSPC, answer: lost(syscall.EPERM), want: "pool", reason: "not used", noDsync: true, noDirect: "not found out", errno: syscall.EPERM},

		{
			name: "the kernel cannot start its workers", answer: on(&uring.WorkerError{Errno: syscall.ECANCELED, Tries: 1000, For: 10 * time.Second}, allKinds...),
			want: "pool", reason: "could not start its worker threads", remedy: "other threads of the user", errno: syscall.ECANCELED,
		},
		{name: "no room for workers", threads: 5, want: "pool", reason: "limit of threads", remedy: "raise ulimit -u (now 5;"},
		{name: "no room for workers, required", mode: IOURingRequire, threads: 5, want: "ring"},
		{name: "turned off, no room for workers", mode: IOURingOff, threads: 5, want: "pool", reason: "turned off"},

		{name: "nfs", filesystem: "nfs", want: "pool", reason: "on nfs", remedy: "require", noDirect: "nfs"},
		{name: "cifs", filesystem: "cifs", want: "pool", reason: "on cifs", noDirect: "cifs"},
		{name: "fuse", filesystem: "fuse", want: "pool", reason: "on fuse", noDirect: "fuse"},
		{name: "zfs", filesystem: "zfs", want: "pool", reason: "on zfs", noDirect: "zfs"},
		{name: "9p", filesystem: "9p", want: "pool", reason: "on 9p", noDirect: "9p"},
		{name: "nfs, required", mode: IOURingRequire, filesystem: "nfs", want: "ring", noDirect: "nfs"},
		{name: "nfs, turned off", mode: IOURingOff, filesystem: "nfs", want: "pool", reason: "turned off", noDirect: "nfs"},

		{name: "5.4", kernel: kernelID{release: "5.4.0-150-generic"}, want: "pool", reason: "lacks"},
		{name: "5.5.19", kernel: kernelID{release: "5.5.19"}, want: "pool", reason: "lacks"},
		{name: "5.6", kernel: kernelID{release: "5.6.0"}, want: "ring"},
		{name: "5.10", kernel: kernelID{release: "5.10.0-30-cloud-amd64", build: "#1 SMP Debian 5.10.218-1 (2024-06-01)"}, want: "ring"},
		{name: "5.11", kernel: kernelID{release: "5.11.0"}, want: "pool", reason: "lose the wake-up"},
		{name: "5.14.21", kernel: kernelID{release: "5.14.21-rc1+"}, want: "pool", reason: "lose the wake-up", remedy: "require"},
		{name: "5.14, required", mode: IOURingRequire, kernel: kernelID{release: "5.14.0"}, want: "ring"},
		{name: "5.15.2", kernel: kernelID{release: "5.15.2"}, want: "pool", reason: "lose the wake-up"},
		{name: "5.15.3", kernel: kernelID{release: "5.15.3"}, want: "ring"},
		{
			name: "5.15.0 that follows the stable series", kernel: kernelID{release: "5.15.0-91-generic", signature: "Ubuntu 5.15.0-91.101-generic 5.15.131"},
			want: "ring",
		},
		{name: "5.15.0 as it was", kernel: kernelID{release: "5.15.0"}, want: "pool", reason: "lose the wake-up"},
		{name: "7.3", kernel: kernelID{release: "7.3-cloud-amd64"}, want: "ring"},
		{name: "a kernel without a number", kernel: kernelID{release: "unknown"}, want: "ring"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.kernel.release == "" {
				row.kernel.release = newKernel
			}
			if row.filesystem == "" {
				row.filesystem = "ext4"
			}
			limits := ThreadLimits{User: math.MaxUint64, Cgroup: math.MaxUint64}
			if row.threads != 0 {
				limits.User = row.threads
			}
			root := t.TempDir()
			disk := typedFS{FS: device.OS(), name: row.filesystem, create: row.create}
			q, b, err := selectBackend(disk, root, row.mode, backendOptions{system: backendSystem{
				kernel:  func() kernelID { return row.kernel },
				threads: func() ThreadLimits { return limits },
				openRing: func(uring.Options) (ringQueue, error) {
					if row.setup != nil {
						return nil, row.setup
					}
					if row.answer == nil {
						row.answer = on(nil)
					}
					return fakeRing{fallback.Open(fallback.Options{Workers: 1}), row.answer}, nil
				},
				readFile: func(path string) (string, error) {
					if path == sysctlDisabled && row.sysctl != "" {
						return row.sysctl, nil
					}
					return "", os.ErrNotExist
				},
			}})
			wantEmpty(t, root)
			if text := fmt.Sprint(err, b.Reason, b.DirectReason); strings.Contains(text, proofPrefix) {
				t.Errorf("a name that changes from start to start: %s", text)
			}
			if row.want == "refused" {
				var refused *BackendError
				if !errors.As(err, &refused) || !errors.Is(err, row.errno) {
					t.Fatalf("got %v", err)
				}
				if !strings.Contains(err.Error(), row.reason) || !strings.Contains(err.Error(), row.remedy) {
					t.Errorf("%v does not name %q and %q", err, row.reason, row.remedy)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := q.Close(); err != nil {
				t.Error(err)
			}
			if strings.Contains(b.String(), "restart") {
				t.Errorf("%v asks for a restart, and the store runs", b)
			}
			if b.Name != row.want || !strings.Contains(b.Reason, row.reason) || !strings.Contains(b.Remedy, row.remedy) {
				t.Errorf("got %v, remedy %q", b, b.Remedy)
			}
			if !errors.Is(b.Errno, row.errno) {
				t.Errorf("errno %v, want %v", b.Errno, row.errno)
			}
			if (b.Ring != nil) != (b.Name == "ring") || b.Requested != row.mode || b.Filesystem != row.filesystem {
				t.Errorf("got %+v", b)
			}
			if b.DsyncWrite == row.noDsync {
				t.Errorf("DsyncWrite is %v", b.DsyncWrite)
			}
			if !strings.Contains(b.DirectReason, row.noDirect) || row.noDirect != "" && b.DirectOverwrite {
				t.Errorf("DirectOverwrite is %v: %s", b.DirectOverwrite, b.DirectReason)
			}
		})
	}
}

func wantEmpty(t *testing.T, root string) {
	t.Helper()
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// TestThisSystemGivesABackendThatWorks runs selection as it is.
func TestThisSystemGivesABackendThatWorks(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for _, mode := range []IOURingMode{IOURingAuto, IOURingOff} {
		root := t.TempDir()
		leftover := filepath.Join(root, proofPrefix+"1-2")
		if err := os.WriteFile(leftover, []byte("from a process that was killed"), 0o600); err != nil {
			t.Fatal(err)
		}
		q, b, err := selectBackend(device.OS(), root, mode, backendOptions{})
		if err != nil {
			t.Fatal(err)
		}
		wantEmpty(t, root)
		if err := q.Close(); err != nil {
			t.Error(err)
		}
		var line bytes.Buffer
		slog.New(slog.NewTextHandler(&line, nil)).Info("storage backend chosen", "backend", b)
		for _, part := range []string{"backend.name=" + b.Name, "backend.kernel=", "backend.filesystem=" + b.Filesystem} {
			if !strings.Contains(line.String(), part) {
				t.Errorf("%s lacks %s", line.String(), part)
			}
		}
		t.Logf("%s", line.String())
	}
}

func TestBytesThatComeBackChangedAreNoProof(t *testing.T) {
	swallow := func(op *device.Op) error {
		if op.Kind == device.Write && op.Pos == 0 {
			op.Buf = bytes.Repeat([]byte{9}, len(op.Buf)) // other bytes reach the disk
		}
		return nil
	}
	root := t.TempDir()
	q, b, err := selectBackend(device.OS(), root, IOURingAuto, backendOptions{system: backendSystem{
		kernel: func() kernelID { return kernelID{release: "6.12.0"} },
		openRing: func(uring.Options) (ringQueue, error) {
			return fakeRing{fallback.Open(fallback.Options{Workers: 1}), swallow}, nil
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if b.Name != "pool" || !strings.Contains(b.Reason, "other bytes came back") {
		t.Errorf("got %v", b)
	}
}

func TestTheKernelsNameShowsTheUpstreamVersion(t *testing.T) {
	for want, k := range map[string]kernelID{
		"6.12.43+deb12-amd64":          {release: "6.12.43+deb12-amd64", build: "#1 SMP Debian 6.12.43-1~bpo12+1"},
		"5.10.0-30-amd64 (5.10.218)":   {release: "5.10.0-30-amd64", build: "#1 SMP Debian 5.10.218-1 (2024-06-01)"},
		"5.15.0-91-generic (5.15.131)": {release: "5.15.0-91-generic", signature: "Ubuntu 5.15.0-91.101-generic 5.15.131"},
		"strange":                      {release: "strange"},
	} {
		if k.String() != want {
			t.Errorf("got %q, want %q", k, want)
		}
	}
}
