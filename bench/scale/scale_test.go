package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix.local/felix/bench"
	"felix.local/felix/bench/internal/rig"
	"felix.local/felix/engine"
)

// tiny has every curve with two points.
func tiny() sizes {
	return sizes{
		shards: []int{1, 3}, publishers: []int{1, 2}, payloads: []int{16, 64 << 10}, segments: []int{1, 5},
		subscribers: []int{1, 3}, logs: []int64{64 << 10, 256 << 10},
	}
}

func TestEveryCurveIsDrawn(t *testing.T) {
	if testing.Short() {
		t.Skip("measures every curve once")
	}
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "curves.json")
	var stdout, stderr bytes.Buffer
	args := []string{"-dir", dir, "-slice", "5ms", "-rounds", "1", "-json", file}
	if code := run(t.Context(), args, tiny(), &stdout, &stderr); code != rig.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	var written record
	if text, err := os.ReadFile(file); err != nil || json.Unmarshal(text, &written) != nil {
		t.Fatalf("what was written cannot be read: %v", err)
	}
	list := measurer{sizes: tiny()}.curves()
	if len(written.Curves) != len(list) {
		t.Fatalf("%d curves were written, of %d", len(written.Curves), len(list))
	}
	for i, c := range written.Curves {
		if c.Name != list[i].name || c.Error != "" || len(c.Lines) < 2 {
			t.Errorf("%s: %d lines, %s", c.Name, len(c.Lines), c.Error)
		}
		for _, l := range c.Lines {
			for _, column := range list[i].columns {
				if got := l.Values[column.key]; len(got.Samples) != 1 || got.Median != got.Samples[0] {
					t.Errorf("%s at %d, %s, %s: %+v", c.Name, l.At, l.Side, column.key, got)
				}
			}
		}
		if !strings.Contains(stdout.String(), c.Name+": "+c.About) {
			t.Errorf("the table of %s was not printed", c.Name)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v were left, %v", entries, err)
	}
}

func TestOneCurveCanBeChosen(t *testing.T) {
	var stdout, stderr bytes.Buffer
	args := []string{"-dir", t.TempDir(), "-slice", "1ms", "-rounds", "1", "-only", "log size", "-markdown"}
	if code := run(t.Context(), args, tiny(), &stdout, &stderr); code != rig.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	if got := stdout.String(); strings.Count(got, "### ") != 1 || !strings.Contains(got, "| 64 KiB | clean stop | ") {
		t.Errorf("got\n%s", got)
	}
}

func TestWhatCannotBeMeasuredFails(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no such curve":     {[]string{"-dir", t.TempDir(), "-only", "no such curve"}, rig.ExitFailed, `no curve's name contains "no such curve"`},
		"no such directory": {[]string{"-dir", filepath.Join(t.TempDir(), "missing")}, rig.ExitFailed, "no such file or directory"},
		"no such flag":      {[]string{"-nonsense"}, rig.ExitUsage, "nonsense"},
		"an argument":       {[]string{"more"}, rig.ExitUsage, "no arguments"},
		"no slice":          {[]string{"-slice", "0s"}, rig.ExitUsage, "a millisecond"},
		"no round":          {[]string{"-rounds", "0"}, rig.ExitUsage, "at least one round"},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			if code := run(t.Context(), test.args, tiny(), io.Discard, &stderr); code != test.code || !strings.Contains(stderr.String(), test.says) {
				t.Errorf("exit code %d, want %d: %s", code, test.code, stderr.String())
			}
		})
	}
}

// threePoints is a drawing without a measurement.
func threePoints() drawing {
	d := drawing{curve: curve{
		name: "sizes", about: "Some sizes.", axis: "size", show: binary,
		columns: []column{{"rate", "rate", 0}, {"ms", "ms", 1}},
	}}
	for _, rate := range []float64{30, 10, 20} {
		d.lines.add(16, "a", sample{"rate": rate, "ms": 1.5})
	}
	d.lines.add(64<<10, "a", sample{"rate": 5})
	d.err = errors.New("a record was lost")
	return d
}

func TestATableHasMediansAndWhatTheyLieBetween(t *testing.T) {
	var plain, markdown bytes.Buffer
	if err := errors.Join(text(&plain, threePoints()), document(&markdown, threePoints())); err != nil {
		t.Fatal(err)
	}
	want := `sizes: Some sizes.
size       rate        ms
16 B    a  20 (10–30)  1.5
64 KiB  a  5           –

FAILED: a record was lost

`
	if diff := cmp.Diff(want, plain.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want = `### sizes

Some sizes.

| size |  | rate | ms |
|--:|---|--:|--:|
| 16 B | a | 20 (10–30) | 1.5 |
| 64 KiB | a | 5 | – |

FAILED: a record was lost

`
	if diff := cmp.Diff(want, markdown.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestShardsThatPublishersShareAreReadBackAsOneLogEach(t *testing.T) {
	const shards, records = 7, 1000
	store, logs, _, err := openShards(t.Context(), root(t.TempDir()), noneMode, shards)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if err := touch(t.Context(), logs); err != nil {
		t.Fatal(err)
	}
	var s shared
	var ledger *bench.Ledger
	for _, publishers := range []int{shards, 3, 1} {
		s = newShared(logs, publishers)
		load := bench.Load{Records: records, PayloadBytes: payloadBytes, Batch: 1, Concurrency: publishers, Remember: true}
		result, err := load.Run(t.Context(), s.target, bench.Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		ledger = result.Ledger
		if n, err := ledger.Verify(t.Context(), publishers, s.read); err != nil || n != records {
			t.Fatalf("%d publishers: %d of %d records were read back: %v", publishers, n, records, err)
		}
	}
	// The last publisher wrote to all. A record that is missing is noticed in
	// whichever log it is, and so is one that nobody acknowledged.
	var lost *bench.LostError
	for log := range logs {
		short := s.of(logs)
		short.bases = slices.Clone(s.bases)
		short.bases[log]++
		if _, err := ledger.Verify(t.Context(), 1, short.read); !errors.As(err, &lost) {
			t.Errorf("log %d without its first record: %v", log, err)
		}
	}
	if _, err := logs[2].Append(t.Context(), engine.Record{Payload: make([]byte, payloadBytes)}); err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.Verify(t.Context(), 1, s.read); !errors.As(err, &lost) {
		t.Errorf("a record too many: %v", err)
	}
}

func TestWorkInParallelEndsWithItsFirstError(t *testing.T) {
	done := make([]bool, 100)
	if err := inParallel(len(done), 7, func(i int) error { done[i] = true; return nil }); err != nil || slices.Contains(done, false) {
		t.Errorf("%v, %v", done, err)
	}
	broken := errors.New("broken")
	err := inParallel(1000, 1, func(i int) error {
		if i > 3 {
			t.Errorf("number %d was begun after an error", i)
		}
		if i == 3 {
			return fmt.Errorf("number 3: %w", broken)
		}
		return nil
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
