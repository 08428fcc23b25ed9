package bubble_test

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"felix.local/felix/internal/prove/bubble"
)

func TestATestAndAProgramHaveBubbles(t *testing.T) {
	hour := func() string {
		start := time.Now()
		time.Sleep(time.Hour)
		return time.Since(start).String()
	}
	if os.Getenv("BUBBLE_PROGRAM") != "" {
		bubble.Main(func(run bubble.Runner) int {
			var both sync.WaitGroup
			for range 2 {
				both.Go(func() { run(func() { os.Stdout.WriteString(hour() + "\n") }) })
			}
			both.Wait()
			return 3
		})
	}
	bubble.In(t)(func() {
		if got := hour(); got != "1h0m0s" {
			t.Error(got)
		}
	})
	c := exec.Command(os.Args[0], "-test.run=TestATestAndAProgramHaveBubbles", "an argument of its own")
	c.Env = append(os.Environ(), "BUBBLE_PROGRAM=1")
	out, err := c.Output()
	if c.ProcessState.ExitCode() != 3 || strings.TrimSpace(string(out)) != "1h0m0s\n1h0m0s" {
		t.Errorf("%q, %v", out, err)
	}
}
