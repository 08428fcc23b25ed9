package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
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
	if slices.Contains(allowed, code) {
		return nil
	}
	return fmt.Errorf("inspect exits with %d, not %v: %s%s", code, allowed, stdout, stderr)
}
