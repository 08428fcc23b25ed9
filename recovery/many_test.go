package recovery

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/segment"
)

// counting counts the files that are open at once.
type counting struct {
	device.FS
	open, most atomic.Int64
}

type countedFile struct {
	device.File
	fs *counting
}

func (c *counting) opened(f device.File, err error) (device.File, error) {
	if err != nil {
		return nil, err
	}
	n := c.open.Add(1)
	c.most.Store(max(n, c.most.Load()))
	return &countedFile{f, c}, nil
}

func (c *counting) OpenFile(path string, mode device.OpenMode, perm fs.FileMode) (device.File, error) {
	return c.opened(c.FS.OpenFile(path, mode, perm))
}

func (c *counting) OpenDir(path string) (device.File, error) { return c.opened(c.FS.OpenDir(path)) }

func (f *countedFile) Close() error {
	f.fs.open.Add(-1)
	return f.File.Close()
}

// The bounds hold with all indexes lost, when every segment is read whole twice.
func TestTenThousandSegmentsTakeFewDescriptorsAndLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 10,000 segments")
	}
	const segments, records = 10_000, 30
	s := newShard(t)
	s.must(os.MkdirAll(s.dir, 0o750))
	for id := range uint64(segments) {
		s.must(os.WriteFile(s.path(segment.LogName(id)), segmentBytes(id*records, records), 0o640))
	}
	disk := &counting{FS: device.OS()}
	before := allocated()
	recovered, err := Open(Disk{FS: disk, Queue: inline{}}, s.dir, "orders/0", testPolicy())
	if err != nil {
		t.Fatal(err)
	}
	if n := recovered.Report.IndexRebuilds; n != segments-1 || len(recovered.Sealed) != segments-1 {
		t.Errorf("C233: %d indexes rebuilt, %d segments sealed", n, len(recovered.Sealed))
	}
	if disk.most.Load() > 4 || disk.open.Load() != 0 {
		t.Errorf("C233: %d files open at once, %d left open", disk.most.Load(), disk.open.Load())
	}
	// What stays is the report and the list of segments.
	if kept := allocated() - before; kept > 2000*segments {
		t.Errorf("C233: %d bytes per segment are kept", kept/segments)
	}
	runtime.KeepAlive(recovered)
	start := time.Now()
	if _, err := Open(Disk{FS: disk, Queue: inline{}}, s.dir, "orders/0", testPolicy()); err != nil {
		t.Fatal(err)
	}
	t.Logf("a clean open of %d segments takes %v", segments, time.Since(start))
}

func allocated() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkOpenActive opens a log whose active segment has to be scanned whole.
func BenchmarkOpenActive(b *testing.B) {
	for _, payload := range []int{128, 4096, 65536} {
		b.Run(fmt.Sprintf("payload=%d", payload), func(b *testing.B) {
			const total = 256 << 20
			s := &shard{t: b, dir: filepath.Join(b.TempDir(), "shard")}
			content := make([]byte, 0, total+payload)
			content = append(content, headerBytes(0)...)
			for offset := uint64(0); len(content) < total; offset++ {
				content = appendRecord(content, offset, make([]byte, payload))
			}
			s.write(segment.LogName(0), content)
			s.mark(0, len(content)) // nothing is dropped from the cache
			b.SetBytes(int64(len(content)))
			if _, err := Open(osDisk(), s.dir, "orders/0", Policy{}); err != nil {
				b.Fatal(err) // flushes what was just written
			}
			for b.Loop() {
				if _, err := Open(osDisk(), s.dir, "orders/0", Policy{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
