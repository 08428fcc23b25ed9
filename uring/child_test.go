package uring

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

const childVariable = "FELIX_URING_CHILD"

// inChild runs the calling test once more in a process of its own and is true
// there. The parent takes over the verdict, and must return when it is false.
func inChild(t *testing.T) bool {
	t.Helper()
	if os.Getenv(childVariable) != "" {
		return true
	}
	var pattern []string
	for part := range strings.SplitSeq(t.Name(), "/") {
		pattern = append(pattern, "^"+part+"$")
	}
	c := exec.Command(os.Args[0], "-test.run="+strings.Join(pattern, "/"), "-test.v", "-test.timeout=60s")
	// The race detector would wait a second before the child ends.
	c.Env = append(os.Environ(), childVariable+"=1", "GORACE=atexit_sleep_ms=0")
	out, err := c.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("in a process of its own: %v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("in a process of its own:\n%s", out)
	case !strings.Contains(string(out), "--- PASS"):
		t.Errorf("nothing ran in the child:\n%s", out)
	case testing.Verbose():
		t.Logf("%s", out)
	}
	return false
}
