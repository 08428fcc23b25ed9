package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"felix.local/felix/internal/prove/corrupt"
	"felix.local/felix/segment"
)

// memoryDir is a directory in memory, where there is one: many are made here.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "felixd-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// command is what kong would run.
type command interface{ Run(*app) error }

// inProcess runs a command and gives its exit code and what it printed.
func inProcess(c command) (code int, stdout, stderr string) {
	var out, complaints bytes.Buffer
	err := c.Run(&app{
		ctx: context.Background(), stdout: &out, stderr: &complaints,
		logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		fmt.Fprintln(&complaints, oneLine(err))
	}
	return exitCode(err), out.String(), complaints.String()
}

// dumped is the output of a dump.
type dumped struct {
	records []recordEvent
	gaps    []gapEvent
}

func parseDump(stdout string) (d dumped, err error) {
	for line := range strings.Lines(stdout) {
		var kind struct{ Event string }
		if err := json.Unmarshal([]byte(line), &kind); err != nil {
			return d, err
		}
		var into any
		switch kind.Event {
		case recordEvent{}.kind():
			d.records = append(d.records, recordEvent{})
			into = &d.records[len(d.records)-1]
		case gapEvent{}.kind():
			d.gaps = append(d.gaps, gapEvent{})
			into = &d.gaps[len(d.gaps)-1]
		default:
			continue
		}
		if err := json.Unmarshal([]byte(line), into); err != nil {
			return d, err
		}
	}
	return d, nil
}

// exported holds that a dump has exactly these records.
func (d dumped) exported(want []segment.Record) error {
	for n, r := range want {
		if n == len(d.records) {
			return fmt.Errorf("%d records were exported, %d are intact; the first that is missing has offset %d", n, len(want), r.Offset)
		}
		got := d.records[n]
		if got.Offset != r.Offset || got.TimestampMicros != r.TimestampMicros || got.Kind != r.Mark.Kind.String() ||
			got.Producer != r.Mark.Producer || got.Sequence != r.Mark.Sequence || got.BatchLen != r.Mark.Len || !bytes.Equal(got.Payload, r.Payload) {
			return fmt.Errorf("the record %+v was exported as %+v", r, got)
		}
	}
	if extra := len(d.records) - len(want); extra > 0 {
		return fmt.Errorf("%d records were exported that are not in the log, or twice", extra)
	}
	return nil
}

// named says that a gap covers an offset.
func (d dumped) named(offset uint64) bool {
	for _, g := range d.gaps {
		if g.OffsetExpected <= offset && (g.OffsetNext == nil || offset < *g.OffsetNext) {
			return true
		}
	}
	return false
}

func TestWhatIsReadableInADamagedLogIsExportedAndTheRestIsNamed(t *testing.T) {
	stride := 211
	if os.Getenv("FELIX_LONG_TESTS") == "1" {
		stride = 7
	}
	root := memoryDir(t)
	var images, gaps atomic.Int64
	r, err := corrupt.Run(io.Discard, corrupt.Options{Stride: stride, Each: func(i *corrupt.Image) error {
		dir := filepath.Join(root, fmt.Sprint(images.Add(1)))
		defer os.RemoveAll(dir)
		n, err := checkTools(dir, i)
		gaps.Add(int64(n))
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, failure := range r.Failures {
		t.Error(failure)
	}
	t.Logf("%d images, %d gaps named, %d failures", images.Load(), gaps.Load(), r.Lost)
}

// checkTools looks at an image with the reading tools.
func checkTools(dir string, i *corrupt.Image) (gaps int, err error) {
	files, err := i.Files()
	if err != nil {
		return 0, err
	}
	if err := os.Mkdir(dir, 0o750); err != nil {
		return 0, err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o640); err != nil {
			return 0, err
		}
	}
	d, err := checkDump(dir, i)
	err = errors.Join(err, checkInspect(dir, i))
	for name, content := range files {
		if now, readErr := os.ReadFile(filepath.Join(dir, name)); readErr != nil || !bytes.Equal(now, content) {
			err = errors.Join(err, fmt.Errorf("%s was changed by reading: %w", name, readErr))
		}
	}
	return len(d.gaps), err
}

// unseen are images that nothing can tell from a log that was never longer.
func unseen(v corrupt.Verdict) bool {
	return v == corrupt.Whole || v == corrupt.EndsBelowMark || v == corrupt.EndsUnvouched
}

func checkDump(dir string, i *corrupt.Image) (dumped, error) {
	code, stdout, stderr := inProcess(&dumpCommand{Path: dir, To: ^uint64(0), SkipDamaged: true})
	d, err := parseDump(stdout)
	if err != nil {
		return d, err
	}
	all, intact := i.Records()
	var want []segment.Record
	for n, r := range all {
		if intact[n] {
			want = append(want, r)
		} else if !unseen(i.Verdict) && !d.named(r.Offset) {
			return d, fmt.Errorf("offset %d is in no gap: %s", r.Offset, stderr)
		}
	}
	wantCode := exitGaps
	if unseen(i.Verdict) {
		wantCode = exitOK
	}
	if code != wantCode {
		return d, fmt.Errorf("dump --skip-damaged exits with %d: %s", code, stderr)
	}
	if err := d.exported(want); err != nil {
		return d, err
	}
	code, _, stderr = inProcess(&dumpCommand{Path: dir, To: ^uint64(0)})
	if refused := i.Verdict == corrupt.RefusedAtOpen || i.Verdict == corrupt.RefusedAtRead; refused != (code == exitRefused) {
		return d, fmt.Errorf("dump exits with %d: %s", code, stderr)
	}
	return d, nil
}

// checkInspect holds that inspect says what opening did.
func checkInspect(dir string, i *corrupt.Image) error {
	code, stdout, stderr := inProcess(&inspectCommand{Dir: dir, Segments: true})
	allowed := []int{exitOK, exitRepairs} // an index may have to be rebuilt
	switch {
	case i.Verdict == corrupt.RefusedAtOpen:
		allowed = []int{exitRefused}
	case !unseen(i.Verdict) && i.Verdict != corrupt.RefusedAtRead:
		allowed = []int{exitRepairs}
	}
	for _, want := range allowed {
		if code == want {
			return nil
		}
	}
	return fmt.Errorf("inspect exits with %d, not %v: %s%s", code, allowed, stdout, stderr)
}
