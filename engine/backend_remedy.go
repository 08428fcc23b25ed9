package engine

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
	"felix.local/felix/uring"
)

const (
	sysctlDisabled = "/proc/sys/kernel/io_uring_disabled"

	allowInFilter = "allow io_uring_setup, io_uring_enter and io_uring_register in the container's seccomp profile " +
		"(Docker: --security-opt seccomp=PROFILE.json; Kubernetes: a Localhost seccompProfile)"
)

// remedy says what to change so that the ring can be had.
func remedy(err error, system backendSystem) string {
	var refused *uring.SetupError
	if errors.As(err, &refused) && len(refused.Missing) > 0 {
		return "use Linux 5.6 or later"
	}
	var starved *uring.WorkerError
	if errors.As(err, &starved) {
		return raiseThreads(system.threads())
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		if device.ClassOf(err) == device.ClassUnsupported {
			return "keep the data on a filesystem of the operating system"
		}
		return ""
	}
	switch errno {
	case syscall.EPERM:
		return remedyForbidden(system)
	case syscall.EACCES:
		return allowInFilter + ", or in the security module's policy"
	case syscall.ENOSYS:
		return "use a kernel with CONFIG_IO_URING; in a container, " + allowInFilter
	case syscall.EINVAL:
		return "use Linux 5.6 or later"
	case syscall.ENOMEM:
		return fmt.Sprintf("raise the limit of locked memory (now %s): ulimit -l, or LimitMEMLOCK= of the service", lockedMemory())
	case syscall.EMFILE, syscall.ENFILE:
		return "raise the limit of open files: ulimit -n, or LimitNOFILE= of the service"
	default:
		return ""
	}
}

func raiseThreads(now ThreadLimits) string {
	return fmt.Sprintf("raise the limit of threads (now %v): ulimit -u, or LimitNPROC= of the service; "+
		"and pids.max, which is TasksMax= of the service or the container's limit of PIDs", now)
}

// remedyForbidden tells the sysctl and a filter apart: both give EPERM.
func remedyForbidden(system backendSystem) string {
	switch value, err := system.readFile(sysctlDisabled); {
	case err == nil && value == "1":
		return "kernel.io_uring_disabled is 1: set it to 0 (sysctl -w kernel.io_uring_disabled=0), " +
			"or put the process into the group that kernel.io_uring_group names"
	case err == nil && value != "0":
		return fmt.Sprintf("kernel.io_uring_disabled is %s: set it to 0 (sysctl -w kernel.io_uring_disabled=0)", value)
	case err == nil:
		return "kernel.io_uring_disabled is 0, so a filter forbids it: " + allowInFilter
	default:
		return allowInFilter
	}
}

func lockedMemory() string {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return "unknown"
	}
	if limit.Cur == unix.RLIM_INFINITY {
		return "unlimited"
	}
	return fmt.Sprintf("%d KiB", limit.Cur>>10)
}
