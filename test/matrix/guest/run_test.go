package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"felix.local/felix/test/matrix/plan"
)

// A child of a test is this program again: as the guest program with its arguments, or as
// something a step runs.
const (
	asGuest = "GUEST_TEST_AS_GUEST"
	asProbe = "GUEST_TEST_AS_PROBE"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(asProbe) != "":
		probe(os.Getenv(asProbe))
	case os.Getenv(asGuest) != "":
		// What is run behind it is a probe.
		if err := errors.Join(os.Setenv(asProbe, os.Getenv(asGuest)), dispatch(os.Args[1:])); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	default:
		os.Exit(m.Run())
	}
}

// probe shows what a process is given.
func probe(what string) {
	switch what {
	case "calls":
		for _, call := range []uintptr{unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER} {
			_, _, errno := syscall.Syscall6(call, 0, 0, 0, 0, 0, 0)
			fmt.Print(unix.ErrnoName(errno), " ")
		}
	case "memlock":
		var limit unix.Rlimit
		err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit)
		fmt.Print(limit.Cur, " ", limit.Max, " ", err)
	}
}

// throughGuest runs the guest program with arguments, and a probe behind it.
func throughGuest(t *testing.T, what string, args ...string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], append(args, "--", os.Args[0])...)
	cmd.Env = append(os.Environ(), asGuest+"="+what)
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "seccomp:") || strings.Contains(string(out), "no_new_privs") {
		t.Skipf("no filter can be set here: %s", out)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestADeniedCallAnswersAsAsked(t *testing.T) {
	got := throughGuest(t, "calls", "deny", "io_uring_setup=EPERM,io_uring_enter=ENOSYS,io_uring_register=EACCES")
	if got != "EPERM ENOSYS EACCES" {
		t.Errorf("got %s", got)
	}
}

func TestALimitOfLockedMemoryIsSet(t *testing.T) {
	if got := throughGuest(t, "memlock", "limit", "memlock=4096"); got != "4096 4096 <nil>" {
		t.Errorf("got %s", got)
	}
}

func TestWhatCannotBeDeniedIsAnError(t *testing.T) {
	for _, args := range [][]string{
		{"deny", "open=EPERM", "--", "true"},
		{"deny", "setup=EPERM", "--", "true"},
		{"deny", "io_uring_setup=EPIPE", "--", "true"},
		{"deny", "io_uring_setup=EPERM"},
		{"deny", "io_uring_setup=EPERM", "--"},
		{"limit", "memlock=much", "--", "true"},
		{"nothing"},
		{},
	} {
		if err := dispatch(args); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}

// runSteps runs steps as this host's user and returns their results by name.
func runSteps(t *testing.T, ctx context.Context, sysctls string, steps ...plan.Step) map[string]plan.Result {
	t.Helper()
	var out bytes.Buffer
	r := runner{results: &out, program: os.Args[0], root: true, sysctls: sysctls}
	if err := r.run(ctx, steps); err != nil {
		t.Fatal(err)
	}
	results := make(map[string]plan.Result)
	for line := range strings.Lines(out.String()) {
		if r, ok := plan.ParseResult(line); ok {
			results[r.Name] = r
		}
	}
	return results
}

func shell(name, script string) plan.Step {
	return plan.Step{Name: name, Argv: []string{"/bin/sh", "-c", script}}
}

func TestAStepThatFailsDoesNotEndThePlan(t *testing.T) {
	in := filepath.Join(t.TempDir(), "in")
	there := shell("there", "pwd; echo $TMPDIR $MORE; echo bad >&2")
	there.Dir, there.Env = in, []string{"MORE=more"}
	got := runSteps(t, t.Context(), "", shell("code", "exit 7"), shell("signal", "kill -KILL $$"), there)
	if got["code"].Exit != 7 || got["signal"].Exit != 128+9 {
		t.Errorf("got %+v", got)
	}
	if r := got["there"]; r.Stdout != in+"\n"+in+" more\n" || r.Stderr != "bad\n" || !r.OK() {
		t.Errorf("got %+v", r)
	}
}

func TestAStepThatTakesTooLongIsKilledWithItsChildren(t *testing.T) {
	slow := shell("slow", "sleep 300 & echo $!; wait")
	slow.Seconds = 1
	r := runSteps(t, t.Context(), "", slow)["slow"]
	if r.Failed != "killed after 1s" {
		t.Errorf("got %+v", r)
	}
	child, err := strconv.Atoi(strings.TrimSpace(r.Stdout))
	if err != nil {
		t.Fatal(err)
	}
	// It was sent its end, and comes to it when it gets a processor. That a descriptor of
	// a process can be read means that the process has ended, waited for or not.
	fd, err := unix.PidfdOpen(child, 0)
	if errors.Is(err, unix.ESRCH) {
		return // and was waited for
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	ended, err := 0, error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		ended, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Minute.Milliseconds()))
	}
	if err != nil || ended != 1 {
		t.Errorf("the child is alive: %v", err)
	}
}

func TestOnlyTheBeginningOfALongOutputIsKept(t *testing.T) {
	r := runSteps(t, t.Context(), "", shell("long", "head -c 100000 /dev/zero | tr '\\0' x"))["long"]
	if !r.OK() || len(r.Stdout) != plan.OutputMax {
		t.Errorf("%d bytes, %+v", len(r.Stdout), r.Problem())
	}
}

// sysctlsOf makes a directory with one sysctl in it.
func sysctlsOf(t *testing.T, value string) (dir, file string) {
	t.Helper()
	dir = t.TempDir()
	file = filepath.Join(dir, "kernel", "felix")
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir, file
}

func TestASysctlIsPutBackWhateverBecomesOfTheStep(t *testing.T) {
	dir, file := sysctlsOf(t, "0")
	interrupted, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	for name, script := range map[string]string{
		"passes": "cat " + file, "fails": "cat " + file + "; exit 1", "is interrupted": "cat " + file + "; sleep 300",
	} {
		step := shell(name, script)
		step.Sysctls = map[string]string{"kernel.felix": "2"}
		ctx := t.Context()
		if name == "is interrupted" {
			ctx = interrupted
			stop := filepath.Join(t.TempDir(), "fifo")
			if err := unix.Mkfifo(stop, 0o600); err != nil {
				t.Fatal(err)
			}
			step.Argv[2] = "cat " + file + "; echo > " + stop + "; sleep 300"
			go func() {
				_, _ = os.ReadFile(stop) // returns when the step has got that far
				interrupt()
			}()
		}
		r := runSteps(t, ctx, dir, step)[name]
		if r.Stdout != "2" {
			t.Errorf("%s: the step sees %q: %+v", name, r.Stdout, r)
		}
		if b, err := os.ReadFile(file); err != nil || string(b) != "0" {
			t.Errorf("%s: %q is left behind, %v", name, b, err)
		}
	}
}

func TestASysctlThatDoesNotExistSkipsTheStep(t *testing.T) {
	dir, file := sysctlsOf(t, "0")
	step := shell("a", "exit 1")
	step.Sysctls = map[string]string{"kernel.felix": "2", "kernel.none": "1"}
	r := runSteps(t, t.Context(), dir, step)["a"]
	if r.Skipped != "no such sysctl: kernel.none" || r.Problem() != "" {
		t.Errorf("got %+v", r)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "0" {
		t.Errorf("%q is left behind, %v", b, err)
	}
}

func TestWithoutRootWhatNeedsItIsSkippedWithTheReason(t *testing.T) {
	var out bytes.Buffer
	r := runner{results: &out, program: os.Args[0]}
	step := shell("a", "exit 1")
	step.UID = 65534
	if err := r.run(t.Context(), []plan.Step{step}); err != nil {
		t.Fatal(err)
	}
	if got, ok := plan.ParseResult(strings.TrimSpace(out.String())); !ok || !strings.Contains(got.Skipped, "needs root") {
		t.Errorf("got %s", out.String())
	}
}
