package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
	"felix.local/felix/fallback"
	"felix.local/felix/uring"
)

// forbiddenRegister is a ring whose workers nobody may bound.
type forbiddenRegister struct {
	fakeRing
	errno syscall.Errno
}

func (r forbiddenRegister) Info() uring.Info {
	return uring.Info{Driver: "fake", Entries: 256, ProbeRefused: r.errno, WorkersRefused: r.errno}
}

// denialRow is one way in which a system keeps the ring from a store, and all that a
// start says about it.
type denialRow struct {
	name       string
	kernel     string // default 6.12.43
	filesystem string // default ext4
	files      map[string]string
	limits     map[int]uint64
	threads    ThreadLimits // 0 is no limit
	setup      error
	answer     func(*device.Op) error
	register   syscall.Errno

	// level and backend default to WARN and pool.
	level, backend string
	reason, remedy string
}

const profileText = "allow io_uring_setup, io_uring_enter and io_uring_register, as the profile deploy/seccomp-felixd.json does " +
	"(Docker: --security-opt seccomp=seccomp-felixd.json; Kubernetes: a seccompProfile of type Localhost; " +
	"systemd: SystemCallFilter=io_uring_setup io_uring_enter io_uring_register)"

func denialRows() []denialRow {
	const none = math.MaxUint64
	setup := func(errno syscall.Errno) error { return &uring.SetupError{Stage: "io_uring_setup", Errno: errno} }
	files := func(disabled, seccomp string) map[string]string {
		m := map[string]string{processStatus: "Name:\tfelixd\nSeccomp:\t" + seccomp + "\nSeccomp_filters:\t1"}
		if disabled != "" {
			m[sysctlDisabled], m[sysctlGroup] = disabled, "-1"
		}
		return m
	}
	fewProcessors := files("0", "2")
	fewProcessors["/sys/devices/system/cpu/online"] = "0-1"
	threads := runtime.GOMAXPROCS(0) + 14 // those of the program, without workers
	enough := fmt.Sprintf("to at least %d, or %d for all 64 workers", 2*threads, 65*threads)
	const forbidden = "no io_uring: io_uring_setup: operation not permitted"
	return []denialRow{
		{
			name: "kernel.io_uring_disabled is 2", files: files("2", "0"), setup: setup(syscall.EPERM), reason: forbidden,
			remedy: "kernel.io_uring_disabled is 2: set it to 0 on the host (sysctl -w kernel.io_uring_disabled=0)",
		},
		{
			name: "kernel.io_uring_disabled is 2 and a filter is in place", files: files("2", "2"), setup: setup(syscall.EPERM), reason: forbidden,
			remedy: "kernel.io_uring_disabled is 2: set it to 0 on the host (sysctl -w kernel.io_uring_disabled=0); " +
				"if the seccomp filter that is in place forbids it too, " + profileText,
		},
		{
			name: "kernel.io_uring_disabled is 1", files: files("1", "0"), setup: setup(syscall.EPERM), reason: forbidden,
			remedy: "kernel.io_uring_disabled is 1: set it to 0 on the host (sysctl -w kernel.io_uring_disabled=0), " +
				"or set kernel.io_uring_group (now -1) to the id of a group of this process",
		},
		{
			name: "kernel.io_uring_disabled is 1 and a filter is in place", files: files("1", "2"), setup: setup(syscall.EPERM), reason: forbidden,
			remedy: "kernel.io_uring_disabled is 1: set it to 0 on the host (sysctl -w kernel.io_uring_disabled=0), " +
				"or set kernel.io_uring_group (now -1) to the id of a group of this process; " +
				"if the seccomp filter that is in place forbids it too, " + profileText,
		},
		{
			name: "seccomp EPERM on setup", files: files("0", "2"), setup: setup(syscall.EPERM), reason: forbidden,
			remedy: "a seccomp filter forbids it: " + profileText,
		},
		{
			name: "seccomp EPERM on setup, on a kernel without the sysctl", files: files("", "2"), setup: setup(syscall.EPERM), reason: forbidden,
			remedy: "a seccomp filter forbids it: " + profileText,
		},
		{
			name: "EPERM on setup where nothing is known", setup: setup(syscall.EPERM), reason: forbidden,
			remedy: "a seccomp filter or a security module forbids it: " + profileText,
		},
		{
			name: "EPERM on setup without a filter", files: files("0", "0"), setup: setup(syscall.EPERM), reason: forbidden,
			remedy: "no seccomp filter is in place, so a security module forbids it: " +
				"allow io_uring in the policy of the security module (SELinux, AppArmor or BPF)",
		},
		{
			name: "seccomp EACCES on setup", files: files("0", "2"), setup: setup(syscall.EACCES),
			reason: "no io_uring: io_uring_setup: permission denied",
			remedy: "a seccomp filter or a security module forbids it: " + profileText +
				"; or allow io_uring in the policy of the security module (SELinux, AppArmor or BPF)",
		},
		{
			name: "EACCES on setup without a filter", files: files("0", "0"), setup: setup(syscall.EACCES),
			reason: "no io_uring: io_uring_setup: permission denied",
			remedy: "allow io_uring in the policy of the security module (SELinux, AppArmor or BPF)",
		},
		{
			name: "seccomp ENOSYS on setup", files: files("0", "2"), setup: setup(syscall.ENOSYS),
			reason: "no io_uring: io_uring_setup: " + syscall.ENOSYS.Error(),
			remedy: "a seccomp filter forbids it: " + profileText,
		},
		{
			name: "seccomp ENOSYS on setup, on a kernel without the sysctl", files: files("", "2"), setup: setup(syscall.ENOSYS),
			reason: "no io_uring: io_uring_setup: " + syscall.ENOSYS.Error(),
			remedy: "use Linux 5.6 or later, built with CONFIG_IO_URING; if the kernel has io_uring, a seccomp filter forbids it: " + profileText,
		},
		{
			name: "a kernel built without io_uring", files: files("", "0"), setup: setup(syscall.ENOSYS),
			reason: "no io_uring: io_uring_setup: " + syscall.ENOSYS.Error(),
			remedy: "use Linux 5.6 or later, built with CONFIG_IO_URING",
		},
		{
			name: "seccomp EPERM on enter", files: files("0", "2"), answer: lost(syscall.EPERM),
			reason: "io_uring can be set up but not used: io_uring_enter: operation not permitted",
			remedy: "a seccomp filter forbids io_uring_enter: " + profileText,
		},
		{
			name: "seccomp ENOSYS on enter", files: files("", "2"), answer: lost(syscall.ENOSYS),
			reason: "io_uring can be set up but not used: io_uring_enter: " + syscall.ENOSYS.Error(),
			remedy: "a seccomp filter forbids io_uring_enter: " + profileText,
		},
		{
			name: "seccomp EPERM on register", files: files("0", "2"), register: syscall.EPERM, backend: "ring",
			reason: "real operations in the data directory succeeded; " +
				"but the kernel's worker threads cannot be bounded (io_uring_register: operation not permitted)",
			remedy: "a seccomp filter or a security module forbids io_uring_register: " + profileText,
		},
		{
			name: "a kernel that cannot bound workers", kernel: "5.10.218", register: syscall.EINVAL, level: "INFO", backend: "ring",
			reason: "real operations in the data directory succeeded",
		},
		{
			name: "seccomp EPERM on register, and few threads", files: files("0", "2"), register: syscall.EPERM, threads: ThreadLimits{Cgroup: 500},
			reason: "the kernel's worker threads cannot be bounded (io_uring_register: operation not permitted), and the limit of threads leaves no room for them",
			remedy: "a seccomp filter or a security module forbids io_uring_register: " + profileText,
		},
		{
			name: "seccomp EPERM on register, few threads and few processors", register: syscall.EPERM, threads: ThreadLimits{Cgroup: 500},
			files: fewProcessors, backend: "ring",
			reason: "real operations in the data directory succeeded; " +
				"but the kernel's worker threads cannot be bounded (io_uring_register: operation not permitted)",
			remedy: "a seccomp filter or a security module forbids io_uring_register: " + profileText,
		},
		{
			name: "RLIMIT_MEMLOCK", setup: setup(syscall.ENOMEM), limits: map[int]uint64{unix.RLIMIT_MEMLOCK: 65536},
			reason: "no io_uring: io_uring_setup: cannot allocate memory",
			remedy: "raise the limit of locked memory (now 65536 bytes) to 64 MiB (ulimit -l 65536; systemd: LimitMEMLOCK=64M; " +
				"Docker: --ulimit memlock=67108864), or grant CAP_IPC_LOCK",
		},
		{
			name: "no memory", setup: setup(syscall.ENOMEM), limits: map[int]uint64{unix.RLIMIT_MEMLOCK: none},
			reason: "no io_uring: io_uring_setup: cannot allocate memory",
			remedy: "free memory: the kernel has too little for a ring, and locked memory is not limited",
		},
		{
			name: "no descriptors", setup: setup(syscall.EMFILE), limits: map[int]uint64{unix.RLIMIT_NOFILE: 64},
			reason: "no io_uring: io_uring_setup: too many open files",
			remedy: "raise the limit of open files (now 64; ulimit -n 1048576; systemd: LimitNOFILE=1048576; Docker: --ulimit nofile=1048576)",
		},
		{
			name: "no descriptors in the system", setup: setup(syscall.ENFILE), files: map[string]string{sysctlFiles: "9000"},
			reason: "no io_uring: io_uring_setup: too many open files in system",
			remedy: "raise fs.file-max (now 9000) on the host: sysctl -w fs.file-max=NUMBER",
		},
		{
			name: "too old, by its number", kernel: "5.4.0-150-generic",
			reason: "kernel 5.4.0-150-generic is on the list of unsafe ones: its io_uring lacks plain writes and preallocation",
			remedy: "use Linux 5.15.3 or later",
		},
		{
			name: "a kernel that loses wake-ups", kernel: "5.14.21",
			reason: "kernel 5.14.21 is on the list of unsafe ones: its io_uring can lose the wake-up of a buffered write, which then waits for ever",
			remedy: "use Linux 5.15.3 or later; to use io_uring all the same, set FELIX_STORAGE_IO_URING=require",
		},
		{
			name: "too old for any setup", setup: setup(syscall.EINVAL),
			reason: "no io_uring: io_uring_setup: invalid argument", remedy: "use Linux 5.6 or later",
		},
		{
			name: "operations are missing", setup: &uring.SetupError{Errno: syscall.ENOSYS, Missing: []string{"FALLOCATE", "WRITE"}},
			reason: "no io_uring: this kernel lacks the operations [FALLOCATE WRITE]", remedy: "use Linux 5.6 or later",
		},
		{
			name: "ulimit -u leaves no room for workers", threads: ThreadLimits{User: 5},
			reason: "the limit of threads leaves no room for the kernel's workers",
			remedy: "raise ulimit -u (now 5; systemd: LimitNPROC=; Docker: --ulimit nproc=) " + enough,
		},
		{
			name: "pids.max leaves no room for workers", threads: ThreadLimits{Cgroup: 6},
			reason: "the limit of threads leaves no room for the kernel's workers",
			remedy: "raise pids.max (now 6; systemd: TasksMax=; Docker: --pids-limit; Kubernetes: podPidsLimit of the kubelet) " + enough,
		},
		{
			name: "neither leaves room for workers", threads: ThreadLimits{User: 5, Cgroup: 6},
			reason: "the limit of threads leaves no room for the kernel's workers",
			remedy: "raise ulimit -u (now 5; systemd: LimitNPROC=; Docker: --ulimit nproc=) and " +
				"pids.max (now 6; systemd: TasksMax=; Docker: --pids-limit; Kubernetes: podPidsLimit of the kubelet) " + enough,
		},
		{
			name: "others use the threads up", threads: ThreadLimits{User: 4000},
			answer: on(&uring.WorkerError{Errno: syscall.ECANCELED, Tries: 1000, For: 10 * time.Second}, device.Allocate, device.Flush, device.FlushAll),
			reason: "io_uring can be set up but not used: reserving space: allocate a temporary file at position 0: " +
				"the kernel could not start its worker threads (operation canceled, 1000 tries in 10s); raise ulimit -u or pids.max",
			remedy: "raise ulimit -u (now 4000; systemd: LimitNPROC=; Docker: --ulimit nproc=) or " +
				"pids.max (now unlimited; systemd: TasksMax=; Docker: --pids-limit; Kubernetes: podPidsLimit of the kubelet), " +
				"against which other threads of the user or the group count too",
		},
		{
			name: "a network filesystem", filesystem: "nfs",
			reason: "the data directory is on nfs (network filesystem, whose waits the ring cannot bound)",
			remedy: "keep the data on a local filesystem, ext4 or XFS; to use io_uring all the same, set FELIX_STORAGE_IO_URING=require",
		},
		{
			name: "a filesystem of a process", filesystem: "fuse",
			reason: "the data directory is on fuse (a process answers for the disk, and a ring waits on it without a bound)",
			remedy: "keep the data on a local filesystem, ext4 or XFS; to use io_uring all the same, set FELIX_STORAGE_IO_URING=require",
		},
		{
			name: "a disk that is no kernel's", answer: on(device.ErrUnsupported, device.Allocate, device.Write, device.WriteDsync),
			reason: "io_uring can be set up but not used: write a temporary file at position 0: " +
				"not supported by this filesystem or kernel (not supported by this filesystem or kernel)",
			remedy: "keep the data on a filesystem of the operating system",
		},
		{
			// Nothing but the disk is in the way.
			name: "the disk fails", answer: on(syscall.EIO, device.Write),
			reason: "io_uring can be set up but not used: write a temporary file at position 0: input/output error",
		},
	}
}

// system is what the row says the system is like.
func (row denialRow) system() backendSystem {
	release := row.kernel
	if release == "" {
		release = "6.12.43"
	}
	limits := row.threads
	if limits.User == 0 {
		limits.User = math.MaxUint64
	}
	if limits.Cgroup == 0 {
		limits.Cgroup = math.MaxUint64
	}
	return backendSystem{
		kernel:  func() kernelID { return kernelID{release: release} },
		threads: func() ThreadLimits { return limits },
		limit: func(resource int) (uint64, error) {
			if n, known := row.limits[resource]; known {
				return n, nil
			}
			return 0, errors.ErrUnsupported
		},
		readFile: func(path string) (string, error) {
			if text, there := row.files[path]; there {
				return text, nil
			}
			return "", os.ErrNotExist
		},
		openRing: func(uring.Options) (ringQueue, error) {
			if row.setup != nil {
				return nil, row.setup
			}
			answer := row.answer
			if answer == nil {
				answer = on(nil)
			}
			ring := fakeRing{fallback.Open(fallback.Options{Workers: 1}), answer}
			if row.register != 0 {
				return forbiddenRegister{ring, row.register}, nil
			}
			return ring, nil
		},
	}
}

// TestEachDenialIsLoggedWithWhatToChange pins the whole line, since it is all that
// somebody who runs a container sees.
func TestEachDenialIsLoggedWithWhatToChange(t *testing.T) {
	for _, row := range denialRows() {
		t.Run(row.name, func(t *testing.T) {
			if row.filesystem == "" {
				row.filesystem = "ext4"
			}
			disk := typedFS{FS: device.OS(), name: row.filesystem}
			q, b, err := selectBackend(disk, t.TempDir(), IOURingAuto, backendOptions{system: row.system()})
			if err != nil {
				t.Fatal(err)
			}
			if err := q.Close(); err != nil {
				t.Error(err)
			}
			if got, want := loggedLine(b), row.line(b); got != want {
				t.Errorf("logged\n%swanted\n%s", got, want)
			}
		})
	}
}

// A store that must have the ring says the same in its refusal.
func TestARequiredRingThatIsDeniedIsRefusedWithWhatToChange(t *testing.T) {
	for _, row := range denialRows() {
		if row.setup == nil {
			continue
		}
		t.Run(row.name, func(t *testing.T) {
			root := t.TempDir()
			_, _, err := selectBackend(typedFS{FS: device.OS(), name: "ext4"}, root, IOURingRequire, backendOptions{system: row.system()})
			if want := root + ": io_uring is required, but " + row.reason + "; " + row.remedy; err == nil || err.Error() != want {
				t.Errorf("got\n%v\nwanted\n%s", err, want)
			}
		})
	}
}

// loggedLine is the line without the time.
func loggedLine(b Backend) string {
	var line bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&line, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	b.log(context.Background(), logger, "/data")
	return line.String()
}

// line is the line that the row wants; what the disk can do is not its business.
func (row denialRow) line(found Backend) string {
	level, backend, kernel := row.level, row.backend, row.kernel
	if level == "" {
		level = "WARN"
	}
	if backend == "" {
		backend = "pool"
	}
	if kernel == "" {
		kernel = "6.12.43"
	}
	s := fmt.Sprintf("level=%s msg=\"storage backend chosen\" root=/data backend.name=%s backend.requested=auto backend.reason=%s "+
		"backend.kernel=%s backend.filesystem=%s backend.dsync_write=%v backend.direct_overwrite=%v",
		level, backend, quoted(row.reason), kernel, row.filesystem, found.DsyncWrite, found.DirectOverwrite)
	if row.remedy != "" {
		s += " backend.remedy=" + quoted(row.remedy)
	}
	if found.Ring != nil {
		s += " backend.ring=" + quoted(found.Ring.String())
	}
	return s + "\n"
}

func quoted(text string) string { return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"` }
