package engine

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
	"felix.local/felix/uring"
)

const (
	sysctlDisabled = "/proc/sys/kernel/io_uring_disabled"
	sysctlGroup    = "/proc/sys/kernel/io_uring_group"
	sysctlFiles    = "/proc/sys/fs/file-max"
	processStatus  = "/proc/self/status"

	useNewerKernel = "use Linux 5.6 or later"

	// allowInFilter follows on who it is that forbids.
	allowInFilter = "allow io_uring_setup, io_uring_enter and io_uring_register, as the profile deploy/seccomp-felixd.json does " +
		"(Docker: --security-opt seccomp=seccomp-felixd.json; Kubernetes: a seccompProfile of type Localhost; " +
		"systemd: SystemCallFilter=io_uring_setup io_uring_enter io_uring_register)"
	allowInPolicy = "allow io_uring in the policy of the security module (SELinux, AppArmor or BPF)"
)

// remedy says what to change so that the ring can be had.
func remedy(err error, o backendOptions) string {
	var starved *uring.WorkerError
	if errors.As(err, &starved) {
		return raiseThreads(o.system.threads(), o.RingWorkersMax)
	}
	var lost *uring.LostError
	if errors.As(err, &lost) {
		return remedyUse(lost)
	}
	var refused *uring.SetupError
	if errors.As(err, &refused) {
		return remedySetup(refused, o.system)
	}
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno) && errno == syscall.EINVAL:
		return useNewerKernel
	case errno == 0 && device.ClassOf(err) == device.ClassUnsupported:
		return "keep the data on a filesystem of the operating system"
	default:
		return ""
	}
}

// remedyUse is for a ring that could be set up, so neither the kernel nor its
// settings are in the way.
func remedyUse(lost *uring.LostError) string {
	switch {
	case errors.Is(lost.Cause, syscall.EPERM), errors.Is(lost.Cause, syscall.ENOSYS), errors.Is(lost.Cause, syscall.EACCES):
		return "a seccomp filter forbids " + lost.Call + ": " + allowInFilter
	default:
		return ""
	}
}

func remedySetup(refused *uring.SetupError, system backendSystem) string {
	if len(refused.Missing) > 0 {
		return useNewerKernel
	}
	switch refused.Errno {
	case syscall.EPERM:
		return remedyForbidden(system)
	case syscall.EACCES:
		if system.filtered() == filterNone {
			return allowInPolicy
		}
		return "a seccomp filter or a security module forbids it: " + allowInFilter + "; or " + allowInPolicy
	case syscall.ENOSYS:
		return remedyUnknown(system)
	case syscall.EINVAL:
		return useNewerKernel
	case syscall.ENOMEM:
		return raiseLockedMemory(system)
	case syscall.EMFILE:
		return fmt.Sprintf("raise the limit of open files (now %s; ulimit -n 1048576; systemd: LimitNOFILE=1048576; "+
			"Docker: --ulimit nofile=1048576)", system.limitText(unix.RLIMIT_NOFILE))
	case syscall.ENFILE:
		return fmt.Sprintf("raise fs.file-max (now %s) on the host: sysctl -w fs.file-max=NUMBER", system.setting(sysctlFiles))
	default:
		return ""
	}
}

// remedyForbidden tells apart who answers EPERM: the sysctl, a filter, or a security
// module.
func remedyForbidden(system backendSystem) string {
	const lift = "set it to 0 on the host (sysctl -w kernel.io_uring_disabled=0)"
	filtered := system.filtered()
	var first string
	switch value := system.setting(sysctlDisabled); value {
	case "0", unknownSetting:
		switch filtered {
		case filterNone:
			return "no seccomp filter is in place, so a security module forbids it: " + allowInPolicy
		case filterSet:
			return "a seccomp filter forbids it: " + allowInFilter
		default:
			return "a seccomp filter or a security module forbids it: " + allowInFilter
		}
	case "1":
		first = fmt.Sprintf("kernel.io_uring_disabled is 1: %s, or set kernel.io_uring_group (now %s) to the id of a group of this process",
			lift, system.setting(sysctlGroup))
	default:
		first = fmt.Sprintf("kernel.io_uring_disabled is %s: %s", value, lift)
	}
	if filtered == filterSet {
		first += "; if the seccomp filter that is in place forbids it too, " + allowInFilter
	}
	return first
}

// remedyUnknown tells apart who answers ENOSYS: a filter, or a kernel without
// io_uring. One that has the sysctl has io_uring.
func remedyUnknown(system backendSystem) string {
	const build = "use Linux 5.6 or later, built with CONFIG_IO_URING"
	switch {
	case system.setting(sysctlDisabled) != unknownSetting:
		return "a seccomp filter forbids it: " + allowInFilter
	case system.filtered() == filterNone:
		return build
	default:
		return build + "; if the kernel has io_uring, a seccomp filter forbids it: " + allowInFilter
	}
}

func raiseLockedMemory(system backendSystem) string {
	now := system.limitText(unix.RLIMIT_MEMLOCK)
	if now == unlimited {
		return "free memory: the kernel has too little for a ring, and locked memory is not limited"
	}
	return fmt.Sprintf("raise the limit of locked memory (now %s bytes) to 64 MiB (ulimit -l 65536; systemd: LimitMEMLOCK=64M; "+
		"Docker: --ulimit memlock=67108864), or grant CAP_IPC_LOCK", now)
}

// raiseThreads names the limits that leave no room for one worker on each thread.
// Where both leave it, others use it up, and both are named.
func raiseThreads(now ThreadLimits, most int) string {
	user := fmt.Sprintf("ulimit -u (now %s; systemd: LimitNPROC=; Docker: --ulimit nproc=)", threadCount(now.User))
	group := fmt.Sprintf("pids.max (now %s; systemd: TasksMax=; Docker: --pids-limit; Kubernetes: podPidsLimit of the kubelet)", threadCount(now.Cgroup))
	one := threadsFor(1)
	enough := fmt.Sprintf("to at least %d, or %d for all %d workers", one, threadsFor(most), most)
	switch {
	case now.Least() >= one:
		return "raise " + user + " or " + group + ", against which other threads of the user or the group count too"
	case now.Cgroup >= one:
		return "raise " + user + " " + enough
	case now.User >= one:
		return "raise " + group + " " + enough
	default:
		return "raise " + user + " and " + group + " " + enough
	}
}

// unbounded says that nobody may bound the workers of a ring, or nothing. A kernel
// before 5.15 cannot bound them at all, and nobody has to change anything.
func unbounded(info uring.Info) (why refusal) {
	if info.WorkersRefused == 0 || info.WorkersRefused == syscall.EINVAL {
		return why
	}
	why.reason = fmt.Sprintf("the kernel's worker threads cannot be bounded (io_uring_register: %v)", info.WorkersRefused)
	why.remedy = "a seccomp filter or a security module forbids io_uring_register: " + allowInFilter
	why.err = info.WorkersRefused
	return why
}

const (
	unknownSetting = "unknown"
	unlimited      = "unlimited"

	filterNone = "0"
	filterSet  = "2"
)

// setting reads a file of one value.
func (s backendSystem) setting(path string) string {
	value, err := s.readFile(path)
	if err != nil || value == "" {
		return unknownSetting
	}
	return value
}

// filtered is filterNone, filterSet, or something else where it is not known.
func (s backendSystem) filtered() string {
	status, err := s.readFile(processStatus)
	if err != nil {
		return unknownSetting
	}
	for line := range strings.Lines(status) {
		if mode, found := strings.CutPrefix(line, "Seccomp:"); found {
			return strings.TrimSpace(mode)
		}
	}
	return unknownSetting
}

// limitText is the soft limit on a resource, in the kernel's unit.
func (s backendSystem) limitText(resource int) string {
	switch limit, err := s.limit(resource); {
	case err != nil:
		return unknownSetting
	case limit == unix.RLIM_INFINITY:
		return unlimited
	default:
		return fmt.Sprint(limit)
	}
}

// softLimit asks the system.
func softLimit(resource int) (uint64, error) {
	var limit unix.Rlimit
	err := unix.Getrlimit(resource, &limit)
	return limit.Cur, err
}
