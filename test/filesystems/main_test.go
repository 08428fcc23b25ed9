package filesystems

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	// jobVariable has the job of a child process, as JSON.
	jobVariable = "FELIX_FS_TEST_JOB"
	// namespaceVariable says that this process has its own mounts already.
	namespaceVariable = "FELIX_FS_TEST_NAMESPACE"
	// reportVariable names the file for the tables.
	reportVariable = "FELIX_FS_REPORT"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(jobVariable); text != "" {
		os.Exit(runJob(text))
	}
	if err := ownMounts(); err != nil {
		fmt.Fprintln(os.Stderr, "the mounts of these tests are seen by others:", err)
	}
	if err := startReport(os.Getenv(reportVariable)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// ownMounts starts this program anew, as the same process, in a mount namespace that
// nobody else is in: when its last process is gone, the kernel unmounts what is left.
func ownMounts() error {
	if os.Geteuid() != 0 || os.Getenv(namespaceVariable) != "" {
		return nil
	}
	runtime.LockOSThread() // the namespace is the thread's, and exec makes it the process's
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	return syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), namespaceVariable+"=1"))
}

// long says whether the tests that take minutes at full size run at full size.
func long() bool { return os.Getenv("FELIX_LONG_TESTS") != "" }
