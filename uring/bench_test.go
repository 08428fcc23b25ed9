package uring

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
)

// BenchmarkDurableOverwrite overwrites 4 KiB blocks of files that were written
// before, each publisher in its own file, and waits until they are durable; through
// the ring, and with a blocking call by the publisher itself:
//
//	go test -run '^$' -bench DurableOverwrite -benchtime 2s -count 5 ./uring
func BenchmarkDurableOverwrite(b *testing.B) {
	for _, direct := range []bool{true, false} {
		for _, publishers := range []int{1, 8, 64} {
			for _, route := range []string{"ring", "caller"} {
				name := fmt.Sprintf("direct=%v/publishers=%d/%s", direct, publishers, route)
				b.Run(name, func(b *testing.B) { durableOverwrite(b, direct, publishers, route == "ring") })
			}
		}
	}
}

func durableOverwrite(b *testing.B, direct bool, publishers int, ring bool) {
	r := openRing(b, Options{})
	do := func(op *device.Op) error { return device.Do(r, op) }
	if !ring {
		do = func(op *device.Op) error {
			_, err := op.File.Perform(op)
			return err
		}
	}
	files := make([]*rawFile, publishers)
	arena := device.NewArena()
	block, err := arena.Take(4096)
	if err != nil {
		b.Fatal(err)
	}
	for i := range files {
		files[i] = prewritten(b, direct, 64*4096)
	}
	var next atomic.Int64
	cpu := processCPU()
	b.ResetTimer()
	var all sync.WaitGroup
	for _, f := range files {
		all.Go(func() {
			op := &device.Op{Kind: device.WriteDsync, File: f, Buf: block}
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				op.Pos = (n % 64) * 4096
				if err := do(op); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	b.ReportMetric(float64((processCPU()-cpu).Microseconds())/float64(b.N), "cpu-µs/op")
	if s := r.Stats(); s.Enters > 0 {
		b.ReportMetric(float64(s.EnterOps)/float64(s.Enters), "ops/enter")
	}
	closeRing(b, r)
	arena.Give(block)
	arena.Close()
}

func processCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// prewritten makes a file of n durable bytes.
func prewritten(t testing.TB, direct bool, n int) *rawFile {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, make([]byte, n), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := os.O_RDWR
	if direct {
		flags |= unix.O_DIRECT
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		t.Skipf("cannot open on this filesystem: %v", err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	return &rawFile{File: f}
}

// rawFile is an open file with flags that device does not offer. Its descriptor
// serves the ring, Perform the comparison.
type rawFile struct{ *os.File }

func (f *rawFile) FD() int { return int(f.File.Fd()) }
func (f *rawFile) Size() (int64, error) {
	i, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return i.Size(), nil
}
func (f *rawFile) DropCache(int64) error { return nil }
func (f *rawFile) Linked() (bool, error) { return true, nil }
func (f *rawFile) Named() (bool, error)  { return true, nil }
func (f *rawFile) TakesWrites() error    { return nil }
func (f *rawFile) Perform(op *device.Op) (int, error) {
	op.Pieces = 1
	switch op.Kind {
	case device.Flush:
		return 0, unix.Fdatasync(f.FD())
	case device.FlushAll:
		return 0, unix.Fsync(f.FD())
	case device.Allocate:
		return 0, unix.Fallocate(f.FD(), unix.FALLOC_FL_KEEP_SIZE, op.Pos, op.Len)
	case device.WriteDsync:
		return unix.Pwritev2(f.FD(), [][]byte{op.Buf}, op.Pos, unix.RWF_DSYNC)
	default:
		return unix.Pwrite(f.FD(), op.Buf, op.Pos)
	}
}
