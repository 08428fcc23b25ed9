package filesystems

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// One workload with a clock that stands still leaves the same files with the same
// bytes wherever it runs, with ring and pool, journal and none. What the engine finds
// out about each filesystem on the way is the other table.
func TestEveryFilesystemHoldsTheSameBytes(t *testing.T) {
	all := append(places(), here())
	found := newTable("What the engine finds", []string{
		"filesystem", "named", "backend", "a durable write is one call", "overwrites in place past the page cache", "commit journal by itself",
	}, names(all))
	same := newTable("The same bytes", setupColumns("filesystem"), names(all))
	var digests sync.Map
	t.Run("on", func(t *testing.T) {
		for _, p := range all {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				describe(t, p, found)
				for column, s := range setups() {
					t.Run(s.String(), func(t *testing.T) {
						m := p.mount(t, same.skipper(t, p.name, column))
						s.needRing(t, m)
						digest := runScript(t, m, s)
						same.cell(p.name, column, "`"+digest[:12]+"`")
						digests.Store(digest, p.name+", "+s.String())
					})
				}
			})
		}
	})
	var different []string
	digests.Range(func(digest, where any) bool {
		different = append(different, fmt.Sprintf("%v on %v", digest, where))
		return true
	})
	if len(different) != 1 {
		t.Errorf("the bytes differ: %q", different)
	}
	found.print(t)
	same.print(t)
}

// describe tells what a store under the defaults says of a filesystem.
func describe(t *testing.T, p place, found *table) {
	t.Helper()
	t.Run("described", func(t *testing.T) {
		m := p.mount(t, found.skipper(t, p.name, 0))
		j := setup{}.job(m)
		j.IOURing, j.Journal, j.Shards = "1", "auto", 0
		w, e := start(t, newLedger(0), j, 0)
		if e.Kind == refused {
			t.Fatal(e.Problem.Text)
		}
		if p := w.close(); p != nil {
			t.Error(p.Text)
		}
		direct, journal := "yes", "after some commits"
		if !e.Backend.Direct {
			direct = "no: " + e.Backend.DirectReason
		}
		if e.Journal.State != "waiting" {
			journal = e.Journal.State + ": " + e.Journal.Reason
		}
		found.row(p.name, e.Backend.Filesystem, e.Backend.Name+": "+e.Backend.Reason, yes(e.Backend.Dsync), direct, journal)
	})
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// runScript runs the script's parts, each in a process, reads everything back and gives
// the digest of the directory.
func runScript(t *testing.T, m *mounted, s setup) string {
	t.Helper()
	l := newLedger(2)
	j := s.job(m)
	j.Fixed, j.SegmentBytes = true, 16<<10
	for part := range 3 {
		j.Session = uint32(part + 1)
		w := mustStart(t, l, j, 0)
		l.check(t, w, exactly)
		w.mustDo("script %d", part)
		l.check(t, w, exactly)
		if p := w.close(); p != nil {
			t.Fatal(p.Text)
		}
	}
	w := mustStart(t, l, j, 0)
	l.check(t, w, exactly)
	if p := w.close(); p != nil {
		t.Fatal(p.Text)
	}
	return digestOf(t, m.root)
}

// digestOf is a checksum over names and bytes of a store's files, but for the journal,
// which not all have, and run-state.
func digestOf(t *testing.T, root string) string {
	t.Helper()
	sum := sha256.New()
	files := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, root)
		switch {
		case name == "/.journal":
			return fs.SkipDir
		case !entry.Type().IsRegular() || name == "/run-state":
			return nil
		}
		b, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%d %s %d ", len(name), name, len(b))
		sum.Write(b)
		files++
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Fatalf("only %d files to compare", files)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
