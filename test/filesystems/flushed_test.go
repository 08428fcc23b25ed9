package filesystems

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	flushedFiles = 4
	flushedBlock = 1500
	// flushedCutsMax bounds how long damage is looked for. The kernels that are known
	// for it show none in one of 20 runs of 20 cuts.
	flushedCutsMax = 400
)

// flushed is what power cuts left of files that programs which have nothing of this
// engine wrote with RWF_DSYNC.
type flushed struct {
	// damaged files lack what was written before the cut.
	damaged, files int
	// broken is what an operation on a directory failed with after a cut; nothing is
	// tried after it.
	broken error
	// repairs counts mounts that fsck had to come before.
	cuts, repairs int
}

// reason says why nothing is to be promised of such a filesystem, "" where nothing was
// lost of it: this kernel is mended, and what holds elsewhere holds there.
func (f flushed) reason() string {
	var what string
	switch {
	case f.broken != nil:
		what = fmt.Sprintf("cannot go on after %d cuts: %v", f.cuts, f.broken)
	case f.damaged > 0:
		what = fmt.Sprintf("finds %d of %d files damaged after %d cuts", f.damaged, f.files, f.cuts)
	default:
		return ""
	}
	return fmt.Sprintf("not run: a program that only writes with RWF_DSYNC %s (fsck before %d mounts)", what, f.repairs)
}

// enough says whether no further cut is needed: after at least so many where some did
// damage, as soon as nothing more can be tried, and after flushedCutsMax.
func (f flushed) enough(atLeast int) bool {
	return f.broken != nil || f.cuts >= max(atLeast, flushedCutsMax) || f.damaged > 0 && f.cuts >= atLeast
}

func TestAFilesystemThatLosesNothingFlushedIsHeldToThePromise(t *testing.T) {
	for _, tt := range []struct {
		found      flushed
		begin, end string
	}{
		{found: flushed{files: 1600, cuts: 400, repairs: 1}},
		{flushed{damaged: 15, files: 80, cuts: 20, repairs: 6}, "not run: ", "finds 15 of 80 files damaged after 20 cuts (fsck before 6 mounts)"},
		{flushed{files: 44, cuts: 11, broken: unix.EBADMSG}, "not run: ", "cannot go on after 11 cuts: bad message (fsck before 0 mounts)"},
	} {
		got := tt.found.reason()
		if (got == "") != (tt.end == "") || !strings.HasPrefix(got, tt.begin) || !strings.HasSuffix(got, tt.end) {
			t.Errorf("%+v: %q, want it to end with %q", tt.found, got, tt.end)
		}
	}
}

func TestDamageOfAFilesystemIsLookedForUntilThereIsSome(t *testing.T) {
	for _, tt := range []struct {
		found   flushed
		atLeast int
		want    bool
	}{
		{flushed{cuts: 19, damaged: 3}, 20, false},
		{flushed{cuts: 20, damaged: 3}, 20, true},
		{flushed{cuts: 20}, 20, false},
		{flushed{cuts: 3, broken: unix.EBADMSG}, 20, true},
		{flushed{cuts: flushedCutsMax}, 20, true},
		{flushed{cuts: flushedCutsMax}, 2 * flushedCutsMax, false},
		{flushed{cuts: 2 * flushedCutsMax}, 2 * flushedCutsMax, true},
	} {
		if got := tt.found.enough(tt.atLeast); got != tt.want {
			t.Errorf("%+v is enough, of at least %d: %v", tt.found, tt.atLeast, got)
		}
	}
}

// flushedAlone cuts the power under such programs, on filesystems that are known to lose
// what they wrote.
func flushedAlone(t *testing.T, m *mounted, atLeast int) flushed {
	t.Helper()
	var found flushed
	for !found.enough(atLeast) {
		dir := filepath.Join(m.root, fmt.Sprint(found.cuts))
		kept, err := writeFlushed(t, m, dir, time.Duration(1+found.cuts%20)*time.Millisecond)
		if err != nil {
			found.broken = err
			break
		}
		m.again()
		found.cuts++
		for i, n := range kept {
			b, _ := os.ReadFile(flushedFile(dir, i)) // one that is gone holds nothing
			found.files++
			if !bytes.HasPrefix(b, flushedBytes(n)) {
				found.damaged++
			}
		}
		found.broken = os.RemoveAll(dir)
	}
	found.repairs = m.repairs
	return found
}

func flushedFile(dir string, i int) string { return filepath.Join(dir, fmt.Sprint(i)) }

// flushedBytes is what a file holds after n writes.
func flushedBytes(n int64) []byte {
	var b []byte
	for i := range n {
		b = append(b, bytes.Repeat([]byte{byte(i + 1)}, flushedBlock)...)
	}
	return b
}

// writeFlushed writes files side by side for some time and stops the filesystem. It
// gives how many writes to each had succeeded before that, and what the filesystem
// refused where it does not even take the files.
func writeFlushed(t *testing.T, m *mounted, dir string, during time.Duration) (kept [flushedFiles]int64, err error) {
	t.Helper()
	// Directories that were flushed may be gone too, also the one that this is in.
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return kept, err
	}
	var files [flushedFiles]*os.File
	for i := range files {
		if files[i], err = os.Create(flushedFile(dir, i)); err != nil {
			return kept, err
		}
		defer files[i].Close()
	}
	var written [flushedFiles]atomic.Int64
	var all sync.WaitGroup
	for i, file := range files {
		all.Go(func() {
			for n := int64(0); ; n++ {
				block := bytes.Repeat([]byte{byte(n + 1)}, flushedBlock)
				if _, err := unix.Pwritev2(int(file.Fd()), [][]byte{block}, n*flushedBlock, unix.RWF_DSYNC); err != nil {
					return // EIO: it was stopped
				}
				written[i].Store(n + 1)
			}
		})
	}
	m.sync() // their names
	time.Sleep(during)
	for i := range written {
		kept[i] = written[i].Load()
	}
	if err := m.shutdown(shutdownNothing); err != nil {
		if errors.Is(err, unix.ENOTTY) {
			m.skip("this kernel cannot be told to: " + err.Error())
		}
		t.Fatal(err)
	}
	all.Wait()
	return kept, nil
}
