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
)

// flushed is what power cuts left of files that programs which have nothing of this
// engine wrote with RWF_DSYNC.
type flushed struct {
	// damaged files lack what was written before the cut.
	damaged, files int
	// repairs counts mounts that fsck had to come before.
	cuts, repairs int
}

// reason says why nothing is to be promised of such a filesystem, "" where nothing was
// lost of it: this kernel is mended, and what holds elsewhere holds there.
func (f flushed) reason() string {
	if f.damaged == 0 {
		return ""
	}
	return fmt.Sprintf("not run: a program that only writes with RWF_DSYNC finds %d of %d files damaged after %d cuts (fsck before %d mounts)",
		f.damaged, f.files, f.cuts, f.repairs)
}

func TestAFilesystemThatLosesNothingFlushedIsHeldToThePromise(t *testing.T) {
	if reason := (flushed{files: 80, cuts: 20, repairs: 1}).reason(); reason != "" {
		t.Errorf("with no file damaged: %s", reason)
	}
	const want = "15 of 80 files damaged after 20 cuts (fsck before 6 mounts)"
	if reason := (flushed{damaged: 15, files: 80, cuts: 20, repairs: 6}).reason(); !strings.HasPrefix(reason, "not run: ") || !strings.HasSuffix(reason, want) {
		t.Errorf("with files damaged: %s", reason)
	}
}

// flushedAlone cuts the power under such programs, on filesystems that are known to lose
// what they wrote.
func flushedAlone(t *testing.T, m *mounted, cuts int) flushed {
	t.Helper()
	found := flushed{cuts: cuts}
	for cut := range cuts {
		dir := filepath.Join(m.root, fmt.Sprint(cut))
		kept := writeFlushed(t, m, dir, time.Duration(1+cut)*time.Millisecond)
		m.again()
		for i, n := range kept {
			b, _ := os.ReadFile(flushedFile(dir, i)) // one that is gone holds nothing
			found.files++
			if !bytes.HasPrefix(b, flushedBytes(n)) {
				found.damaged++
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
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
// gives how many writes to each had succeeded before that.
func writeFlushed(t *testing.T, m *mounted, dir string, during time.Duration) (kept [flushedFiles]int64) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var written [flushedFiles]atomic.Int64
	var all sync.WaitGroup
	for i := range written {
		file, err := os.Create(flushedFile(dir, i))
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer file.Close()
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
	return kept
}
