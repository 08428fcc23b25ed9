package ending_test

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"felix.local/felix/test/matrix/ending"
)

// asChild has this program be the one that is asked to end.
const asChild = "ENDING_TEST_AS_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(asChild) != "" {
		child()
	}
	os.Exit(m.Run())
}

// child sends itself a hang-up, and says whether it was asked to end.
func child() {
	ctx, stop := ending.Context()
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		panic(err)
	}
	select {
	case <-ctx.Done():
		os.Stdout.WriteString("ends in order")
	case <-time.After(time.Second):
		os.Stdout.WriteString("goes on")
	}
	os.Exit(0)
}

// startedBy runs the child behind a line of shell.
func startedBy(t *testing.T, shell string) string {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", shell+`exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), asChild+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func TestATerminalThatIsClosedAsksToEnd(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("the tests were started to outlive a terminal, which a child cannot undo")
	}
	if got := startedBy(t, ""); got != "ends in order" {
		t.Error(got)
	}
}

func TestWhatIsStartedToOutliveATerminalDoes(t *testing.T) {
	if got := startedBy(t, `trap "" HUP; `); got != "goes on" {
		t.Error(got)
	}
}
