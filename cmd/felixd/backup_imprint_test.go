package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/segment"
)

// A log is cut back and written anew while it is copied, with the same lengths and
// contents: all that differs is the header of the last record, far in front of the end.
func TestARewriteOfEqualLengthThatEndsInTheSameBytesIsNoticed(t *testing.T) {
	r := newBackupRig(t, func(c *engine.Config) { c.SegmentBytes = 1 << 20 })
	l := r.open(0)
	large := engine.Record{Payload: bytes.Repeat([]byte("x"), 20_000)}
	add := func() {
		if _, err := l.Append(r.ctx, large); err != nil {
			t.Error(err)
		}
	}
	for range 3 {
		add()
	}
	path := filepath.Join(l.Dir(), segment.LogName(0))
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c := r.copier()
	c.out.w = &out
	rewritten := false
	c.copied = func(name string) {
		if filepath.Base(name) != segment.LogName(0) || rewritten {
			return
		}
		rewritten = true
		if err := l.Truncate(r.ctx, 2); err != nil {
			t.Error(err)
		}
		add()
	}
	if err := c.copyRoot(); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil || len(after) != len(before) || bytes.Equal(after, before) || !bytes.HasSuffix(after, before[len(before)-4096:]) {
		t.Fatal("the rewrite is another one than it was to be", err)
	}
	copied, err := os.ReadFile(filepath.Join(c.to, filepath.Base(l.Dir()), segment.LogName(0)))
	if err != nil || !bytes.Equal(copied, after) || !strings.Contains(out.String(), `"attempts":2`) {
		t.Errorf("the copy is of the log as it was: %v\n%s", err, out.String())
	}
}

// A segment that has settled is not read a second time; whatever changes in it is
// noticed all the same. Those at the end are, and may grow.
func TestASettledSegmentIsHeldToItsTimesAndTheOthersToTheirBytes(t *testing.T) {
	r := newBackupRig(t)
	l := r.open(0)
	r.append(l, 60)
	c := r.copier()
	c.now = func() time.Time { return time.Now().Add(time.Hour) }
	taken, err := c.imprints(l.Dir())
	if err != nil || len(taken) < 4 {
		t.Fatal(taken, err)
	}
	for i, p := range taken {
		if !p.settled || p.summed != (i >= len(taken)-growing) {
			t.Errorf("%s: settled %v, summed %v", p.name, p.settled, p.summed)
		}
	}
	r.append(l, 5)
	if err := c.unmoved(l.Dir(), taken); err != nil {
		t.Error(err)
	}
	rewrite := func(name string, at int) error {
		path := filepath.Join(l.Dir(), name)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[at] ^= 1
		if err := os.WriteFile(path, b, 0o640); err != nil {
			t.Fatal(err)
		}
		err = c.unmoved(l.Dir(), taken)
		b[at] ^= 1
		if err := os.WriteFile(path, b, 0o640); err != nil {
			t.Fatal(err)
		}
		return err
	}
	newest := taken[len(taken)-1]
	if err := rewrite(newest.name, int(newest.bytes)-1); !errors.Is(err, errMoved) {
		t.Error("the newest segment was changed:", err)
	}
	if err := c.unmoved(l.Dir(), taken); err != nil {
		t.Error("the newest segment has its bytes again:", err)
	}
	if err := rewrite(taken[1].name, segment.HeaderSize); !errors.Is(err, errMoved) {
		t.Error("a settled segment was changed:", err)
	}
}

// A segment that changed a moment ago may change again at the same time by its
// filesystem's clock.
func TestASegmentThatHasNotSettledIsSummed(t *testing.T) {
	r := newBackupRig(t)
	l := r.open(0)
	r.append(l, 60)
	c := r.copier()
	c.now = func() time.Time { return time.Time{} }
	taken, err := c.imprints(l.Dir())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range taken {
		if p.settled || !p.summed {
			t.Errorf("%s: settled %v, summed %v", p.name, p.settled, p.summed)
		}
	}
}
