package main

import (
	"math"
	"strings"
	"testing"

	"felix.local/felix/engine"
)

func TestFewThreadsAreWarnedAbout(t *testing.T) {
	const none = math.MaxUint64
	for name, test := range map[string]struct {
		limits engine.ThreadLimits
		want   string // part of the warning
	}{
		"no limit":                   {engine.ThreadLimits{User: none, Cgroup: none}, ""},
		"enough":                     {engine.ThreadLimits{User: 4096, Cgroup: 256}, ""},
		"a small limit of the user":  {engine.ThreadLimits{User: 12, Cgroup: none}, "at most 12 threads (ulimit -u 12, pids.max unlimited)"},
		"a small limit of the group": {engine.ThreadLimits{User: 30000, Cgroup: 100}, "at most 100 threads (ulimit -u 30000, pids.max 100)"},
	} {
		t.Run(name, func(t *testing.T) {
			var d doctor
			d.judgeThreads(test.limits)
			if got := strings.Join(d.warnings, "; "); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestLimitsAreShownInOneLine(t *testing.T) {
	var d doctor
	report := d.limits()
	for _, part := range []string{"open files " + report.OpenFiles, "threads " + report.Threads, "pids.max " + report.CgroupThreads} {
		if !strings.Contains(report.text(), part) || strings.HasSuffix(part, " ") {
			t.Errorf("%q lacks %q", report.text(), part)
		}
	}
}
