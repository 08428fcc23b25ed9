package device_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"felix.local/felix/device"
)

// lockDirVariable makes the test binary lock a directory and wait, as another
// process.
const lockDirVariable = "DEVICE_TEST_LOCK_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(lockDirVariable); dir != "" {
		if _, err := device.OS().Lock(dir, false); err != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString("locked\n")
		io.Copy(io.Discard, os.Stdin) // until the parent is done, or gone
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestALockHeldByAnotherProcessNamesItAndEndsWithIt(t *testing.T) {
	dir := t.TempDir()
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), lockDirVariable+"="+dir)
	stdin, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "locked\n" {
		t.Fatal(line, err)
	}
	for _, shared := range []bool{false, true} {
		_, err := device.OS().Lock(dir, shared)
		var locked *device.LockedError
		if !errors.As(err, &locked) || locked.Self {
			t.Fatalf("%v", err)
		}
		if locked.PID == 0 {
			t.Log("this kernel does not tell who holds a lock")
		} else if locked.PID != other.Process.Pid {
			t.Fatalf("process %d, want %d", locked.PID, other.Process.Pid)
		}
		if got := device.LockHolder(dir); got != locked.PID {
			t.Fatalf("LockHolder says %d, the refusal %d", got, locked.PID)
		}
	}
	// Killed, not closed: no clean-up of the holder is needed.
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	stdin.Close()
	l, err := device.OS().Lock(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestALockHoldsForEveryNameOfTheDirectory(t *testing.T) {
	dir := t.TempDir()
	root, link := filepath.Join(dir, "root"), filepath.Join(dir, "link")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	l, err := device.OS().Lock(link, false)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var locked *device.LockedError
	if _, err := device.OS().Lock(root, false); !errors.As(err, &locked) {
		t.Fatal(err)
	}
}
