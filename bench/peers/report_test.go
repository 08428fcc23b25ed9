package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestIntervalsAreOrderStatistics(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   interval
	}{
		{[]float64{3}, interval{3, 3, 3, 0}},
		{[]float64{5, 1, 4, 2, 3}, interval{3, 1, 5, 0.9375}},
		{[]float64{4, 1, 3, 2}, interval{2.5, 1, 4, 0.875}},
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, interval{5, 2, 8, 1 - 2*10.0/512}},
	} {
		if got := intervalOf(c.values); got != c.want {
			t.Errorf("%v: got %+v, want %+v", c.values, got, c.want)
		}
	}
}

// Rounds are paired: a slow minute that hits both targets changes no ratio.
func TestRatiosAreTakenRoundByRound(t *testing.T) {
	r, list := row{1, 1, 1, 128}, []target{{name: "felix"}, {name: "other"}}
	var samples []sample
	for round, speed := range []float64{1, 10, 100} {
		samples = append(samples,
			sample{Row: r.name(), Target: "felix", Round: round, row: r, RecordsPerSecond: 3 * speed},
			sample{Row: r.name(), Target: "other", Round: round, row: r, RecordsPerSecond: speed})
	}
	got := summarize([]row{r}, list, samples)
	if len(got) != 2 || got[0].FelixRatio != nil || math.Abs(got[1].FelixRatio.Low-3) > 1e-9 || math.Abs(got[1].FelixRatio.High-3) > 1e-9 {
		t.Errorf("got %+v", got)
	}
}

func TestSelectionTakesPatternsAndRefusesWhatMatchesNothing(t *testing.T) {
	names := func(patterns ...string) string {
		list, err := selectNamed("target", targets(), targetName, patterns)
		if err != nil {
			return err.Error()
		}
		var all []string
		for _, t := range list {
			all = append(all, t.name)
		}
		return strings.Join(all, " ")
	}
	for patterns, want := range map[string]string{
		"bbolt*":       "bbolt/update bbolt/batch bbolt/group bbolt/buckets",
		"pebble*":      "pebble pebble/prefix",
		"pebble":       "pebble",
		"*-wal/lock":   "etcd-wal/lock raft-wal/lock tidwall-wal/lock",
		"felix,nosuch": `target "nosuch" matches none; --list shows all`,
	} {
		if got := names(strings.Split(patterns, ",")...); got != want {
			t.Errorf("%s: got %q, want %q", patterns, got, want)
		}
	}
}

func TestARunLeavesAReportAndNothingElse(t *testing.T) {
	out, dir := filepath.Join(t.TempDir(), "report"), t.TempDir()
	c := command{
		Dir: dir, Out: out, Rounds: 2, Duration: 200 * time.Millisecond, Verify: true, JSON: true,
		Targets: []string{"tidwall-wal/*"}, Rows: []string{"1x8:1x128", "16x1:1x128"},
	}
	var printed bytes.Buffer
	if err := c.run(t.Context(), &printed, io.Discard); err != nil {
		t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal(printed.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	// felix, lock and group on the first row; felix and lock on the second.
	if len(got.Samples) != 10 || len(got.Summaries) != 5 {
		t.Errorf("%d samples and %d summaries, want 10 and 5", len(got.Samples), len(got.Summaries))
	}
	for _, s := range got.Samples {
		if !s.Verified || s.Records == 0 || s.RecordsPerSecond <= 0 || s.DeviceDsyncMicros <= 0 {
			t.Errorf("a sample says too little: %+v", s)
		}
	}
	for _, name := range []string{"peers.json", "peers.md", "throughput-1x128.svg", "throughput-1x128.png"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s is missing or empty: %v", name, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
