package main

import (
	"strings"
	"testing"

	"felix.local/felix/engine"
)

func TestTheJournalIsJudgedByTheSettingAndByTrying(t *testing.T) {
	for name, c := range map[string]struct {
		setting           engine.JournalMode
		report            journalReport
		overwrite         int64
		problems, warns   int
		text, doesNotSays string
	}{
		"it can be had":          {engine.JournalRequire, journalReport{Auto: true, Possible: true, Mode: "on_commit"}, 90, 0, 0, "auto and require can have one", "not used"},
		"not by itself":          {engine.JournalAuto, journalReport{Possible: true, Reason: "the filesystem is btrfs"}, 90, 0, 1, "auto has none here: the filesystem is btrfs", "none can"},
		"asked for":              {engine.JournalRequire, journalReport{Possible: true, Reason: "the filesystem is btrfs"}, 90, 0, 0, "require may have one", "none can"},
		"not past the cache":     {engine.JournalRequire, journalReport{Auto: true, Possible: true}, 0, 1, 0, "none can be had here: the filesystem takes no writes past", "µs"},
		"not at all":             {engine.JournalRequire, journalReport{Reason: "preallocation is switched off"}, 90, 1, 0, "none can be had here: preallocation", "auto has"},
		"nobody asks for one":    {engine.JournalOff, journalReport{Reason: "the filesystem is tmpfs"}, 0, 0, 0, "none can be had here", "auto has"},
		"in another fsync mode":  {engine.JournalOff, journalReport{Auto: true, Possible: true, Mode: "periodic"}, 90, 0, 0, "not used under periodic", "none can"},
		"the costs are compared": {engine.JournalOff, journalReport{Auto: true, Possible: true, Mode: "on_commit"}, 90, 0, 0, "a frame costs 90 µs, a flush of one segment 400 µs", "not used"},
	} {
		t.Run(name, func(t *testing.T) {
			d := doctor{config: engine.Config{Journal: c.setting}}
			d.judgeJournal(&c.report, &costReport{DirectOverwriteMicros: c.overwrite, InlineMicros: 400})
			if len(d.problems) != c.problems || len(d.warnings) != c.warns {
				t.Errorf("problems %q, warnings %q", d.problems, d.warnings)
			}
			if text := c.report.text(); !strings.Contains(text, c.text) || strings.Contains(text, c.doesNotSays) {
				t.Error(text)
			}
		})
	}
}

func TestDoctorSaysWhetherThereCanBeAJournal(t *testing.T) {
	out, problems, code := tool("doctor", "--dir", t.TempDir(), "--samples", "2", "--min-free-bytes", "0")
	e := eventOf(t, out, "doctor")
	report, ok := e["commit_journal"].(map[string]any)
	if code != exitOK || !ok || report["setting"] != "auto" || report["bytes"] != float64(engine.DefaultJournalBytes) {
		t.Fatalf("exit code %d: %s%s", code, out, problems)
	}
	if cost := e["cost"].(map[string]any); report["overwrite_us"] != cost["direct_overwrite_us"] || report["grow_us"] != cost["inline_us"] {
		t.Error(report, cost)
	}
}
