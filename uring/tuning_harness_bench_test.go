package uring

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
)

// shape says what the writes of a tuning benchmark meet in their files.
type shape string

const (
	// overwritten files are open with O_DIRECT, and every block was written before.
	overwritten shape = "overwritten"
	// growing files go through the page cache, and every write lies at their end.
	growing shape = "growing"
)

const (
	tuningBlock = 4096
	// prewrittenBlocks is where writes to an overwritten file begin again.
	prewrittenBlocks = 64
	// grownBytesMax bounds what the growing files of one row take on disk.
	grownBytesMax = 1 << 30
)

// lane is one file and its next write. Lanes go side by side; a lane has one
// operation under way at a time.
type lane struct {
	file *rawFile
	buf  []byte
	pos  int64
	// end is the position where writes begin again at 0; 0 means never.
	end int64
	op  device.Op
	err error
}

// openLanes makes n synced files, each with a page-aligned buffer of so many
// bytes. They lie in the directory that FELIX_BENCH_DIR names, or in one for tests,
// and are removed when the row ends.
func openLanes(b *testing.B, s shape, n, bytes int) []*lane {
	b.Helper()
	if s == growing && b.N*bytes > grownBytesMax {
		b.Skipf("%d writes of %d bytes take more than %d bytes of disk; give -benchtime as a count", b.N, bytes, grownBytesMax)
	}
	dir := tuningDir(b)
	arena := device.NewArena()
	block, err := arena.Take(n * tuningBlock)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		arena.Give(block)
		arena.Close()
	})
	lanes := make([]*lane, n)
	for i := range lanes {
		lanes[i] = &lane{buf: block[i*tuningBlock:][:bytes:bytes]}
		lanes[i].open(b, s, filepath.Join(dir, fmt.Sprintf("%03d", i)))
	}
	return lanes
}

func tuningDir(b *testing.B) string {
	b.Helper()
	parent := os.Getenv("FELIX_BENCH_DIR")
	if parent == "" {
		return b.TempDir()
	}
	dir, err := os.MkdirTemp(parent, "tuning-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			b.Error(err)
		}
	})
	return dir
}

func (l *lane) open(b *testing.B, s shape, path string) {
	b.Helper()
	flags := os.O_RDWR | os.O_CREATE | os.O_EXCL
	if s == overwritten {
		flags |= unix.O_DIRECT
		l.end = prewrittenBlocks * tuningBlock
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, unix.EINVAL) {
		b.Skipf("this filesystem has no O_DIRECT: %v", err)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	l.file = &rawFile{File: f}
	for at := int64(0); at < l.end; at += int64(len(l.buf)) {
		if _, err := f.WriteAt(l.buf, at); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
}

// place is the position of the lane's next write.
func (l *lane) place() int64 {
	at := l.pos
	if l.pos += int64(len(l.buf)); l.pos == l.end {
		l.pos = 0
	}
	return at
}

// write is the lane's next write as an operation of a queue.
func (l *lane) write(kind device.Kind) *device.Op {
	l.op.Kind, l.op.File, l.op.Buf, l.op.Pos = kind, l.file, l.buf, l.place()
	return &l.op
}

// through hands a lane's writes to a queue and waits for them.
func through(q device.Queue, kind device.Kind) func(*lane) error {
	return func(l *lane) error { return device.Do(q, l.write(kind)) }
}

// byCaller makes the system call on the lane's own goroutine.
func byCaller(kind device.Kind) func(*lane) error {
	return func(l *lane) error {
		_, err := l.file.Perform(l.write(kind))
		return err
	}
}

// publish carries out and measures b.N operations: every lane does one after the
// other on a goroutine of its own.
func publish(b *testing.B, lanes []*lane, do func(*lane) error) *meter {
	b.Helper()
	m := newMeter(b)
	var begun atomic.Int64
	var all sync.WaitGroup
	m.start()
	for _, l := range lanes {
		all.Go(func() {
			for l.err == nil && begun.Add(1) <= int64(b.N) {
				l.err = do(l)
			}
		})
	}
	all.Wait()
	m.stop()
	for _, l := range lanes {
		mustWork(b, l.err)
	}
	return m
}

// mustWork ends a row whose operation failed; where the kernel does not know the
// operation, the row is skipped.
func mustWork(b *testing.B, err error) {
	b.Helper()
	switch {
	case err == nil:
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
		b.Skipf("this kernel or filesystem does not do it: %v", err)
	default:
		b.Fatal(err)
	}
}

// meter measures the parts of a row between start and stop.
type meter struct {
	b          *testing.B
	cpu, began time.Duration
}

func newMeter(b *testing.B) *meter {
	b.StopTimer()
	b.ResetTimer()
	return &meter{b: b}
}

func (m *meter) start() {
	m.began = processCPU()
	m.b.StartTimer()
}

func (m *meter) stop() {
	m.b.StopTimer()
	m.cpu += processCPU() - m.began
}

// report prints the processor time of one operation, user and system, the kernel's
// workers included, and with enters > 0 how many operations one io_uring_enter
// carried.
func (m *meter) report(enters uint64) {
	m.b.ReportMetric(float64(m.cpu.Nanoseconds())/float64(m.b.N), "cpu-ns/op")
	if enters > 0 {
		m.b.ReportMetric(float64(m.b.N)/float64(enters), "ops/enter")
	}
}
