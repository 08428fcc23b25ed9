package seccomptest_test

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"felix.local/felix/internal/seccomptest"
)

const inChild = "SECCOMPTEST_CHILD"

// again is the test in a process of its own.
func again(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inChild+"=1")
	return cmd
}

func runAgain(t *testing.T) {
	t.Helper()
	if out, err := again(t).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestADeniedCallFailsInEveryThreadAndOthersGoOn(t *testing.T) {
	if os.Getenv(inChild) == "" {
		runAgain(t)
		return
	}
	if err := seccomptest.Deny(unix.SYS_GETPPID, syscall.ENOTNAM); err != nil {
		t.Skip("no filter can be set here:", err)
	}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if _, _, errno := syscall.Syscall(unix.SYS_GETPPID, 0, 0, 0); !errors.Is(errno, syscall.ENOTNAM) {
				t.Errorf("the denied call answers %v", errno)
			}
			if _, _, errno := syscall.Syscall(unix.SYS_GETPID, 0, 0, 0); errno != 0 {
				t.Errorf("another call answers %v", errno)
			}
		})
	}
	all.Wait()
}
