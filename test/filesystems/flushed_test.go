package filesystems

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// flushedAlone cuts the power under programs that have nothing of this engine: they
// write files with RWF_DSYNC. It says how many files lack what was written before the
// cut, for filesystems that are known to lose that.
func flushedAlone(t *testing.T, m *mounted, cuts int) string {
	t.Helper()
	damaged, files := 0, 0
	for cut := range cuts {
		dir := filepath.Join(m.root, fmt.Sprint(cut))
		kept := writeFlushed(t, m, dir, time.Duration(1+cut)*time.Millisecond)
		m.again()
		for i, n := range kept {
			b, _ := os.ReadFile(flushedFile(dir, i)) // one that is gone holds nothing
			files++
			if !bytes.HasPrefix(b, flushedBytes(n)) {
				damaged++
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("not run: a program that only writes with RWF_DSYNC finds %d of %d files damaged after %d cuts (fsck before %d mounts)",
		damaged, files, cuts, m.repairs)
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
