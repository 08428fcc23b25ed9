package engine_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// childVariable names the job that this binary does instead of running tests.
// Tests start it when they need a process of its own: to kill it, to limit it or
// to watch its system calls.
const childVariable = "ENGINE_TEST_CHILD"

// children are the jobs a child process can do. Arguments come in variables of
// the environment; results go to standard output.
func children() map[string]func() error {
	return map[string]func() error{
		"open and append":    openAndAppend,
		"busy logs":          busyLogs,
		"many shards":        manyShards,
		"open one":           openOne,
		"write until killed": writeUntilKilled,
		"under filter":       underFilter,
		"open large":         openLarge,
	}
}

func TestMain(m *testing.M) {
	name := os.Getenv(childVariable)
	if name == "" {
		goleak.VerifyTestMain(m)
		return
	}
	job := children()[name]
	if job == nil {
		fmt.Fprintln(os.Stderr, "no such job:", name)
		os.Exit(2)
	}
	if err := job(); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// child prepares this binary to do a job; settings are "NAME=value".
func child(t testing.TB, job string, settings ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childVariable+"="+job)
	// The race detector waits a second at the end of every process otherwise.
	cmd.Env = append(cmd.Env, "GORACE="+strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
	cmd.Env = append(cmd.Env, settings...)
	return cmd
}

// runChild runs a job to its end and returns what it printed.
func runChild(t testing.TB, job string, settings ...string) string {
	t.Helper()
	cmd := child(t, job, settings...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("child %s: %v\n%s%s", job, err, out, &stderr)
	}
	return string(out)
}

// long says whether the tests that take minutes at full size are to run at full
// size.
func long() bool { return os.Getenv("FELIX_LONG_TESTS") != "" }
