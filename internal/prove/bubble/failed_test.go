package bubble

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestABubbleThatFailsEndsTheProgram(t *testing.T) {
	if os.Getenv("BUBBLE_FAILS") != "" {
		within(t, func(t *testing.T) { t.Fail() })
		os.Exit(0)
	}
	c := exec.Command(os.Args[0], "-test.run=^TestABubbleThatFailsEndsTheProgram$")
	c.Env = append(os.Environ(), "BUBBLE_FAILS=1")
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "failed as a test") {
		t.Errorf("%v\n%s", err, out)
	}
}
