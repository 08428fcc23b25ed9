package uring

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"

	"felix.local/felix/device"
)

// TestCompletionsMeanWhatTheKernelMeans plays the results of one operation, one
// after the other, and looks at what the caller gets.
func TestCompletionsMeanWhatTheKernelMeans(t *testing.T) {
	const (
		again, intr    = -int32(syscall.EAGAIN), -int32(syscall.EINTR)
		canceled       = -int32(syscall.ECANCELED)
		fault, noSpace = -int32(syscall.EFAULT), -int32(syscall.ENOSPC)
		eio, noData    = -int32(syscall.EIO), -int32(syscall.ENODATA)
		noSupport      = -int32(syscall.EOPNOTSUPP)
	)
	for _, row := range []struct {
		name    string
		kind    device.Kind
		results []int32 // the operation must be issued exactly this often
		n       int
		class   device.Class
		cause   error
		pos     int64
	}{
		{name: "full write", results: []int32{100}, n: 100},
		{name: "full durable write", kind: device.WriteDsync, results: []int32{100}, n: 100},
		{name: "short write goes on where it stopped", results: []int32{40, 60}, n: 100},
		{name: "byte by byte", results: []int32{1, 1, 98}, n: 100},
		{name: "short write, then the error behind it", results: []int32{40, noSpace}, n: 40, class: device.ClassFull, cause: syscall.ENOSPC, pos: 1040},
		{name: "nothing written", results: []int32{0}, class: device.ClassIO, cause: io.ErrShortWrite, pos: 1000},
		{name: "nothing written after a short write", results: []int32{40, 0}, n: 40, class: device.ClassIO, cause: io.ErrShortWrite, pos: 1040},
		{name: "EAGAIN is issued again", results: []int32{again, again, 100}, n: 100},
		{name: "EINTR is issued again", results: []int32{intr, 100}, n: 100},
		{name: "ECANCELED is issued again", results: []int32{canceled, 100}, n: 100},
		{name: "EFAULT is issued again", results: []int32{fault, 100}, n: 100},
		{name: "all of them", kind: device.WriteDsync, results: []int32{again, 10, canceled, fault, intr, 90}, n: 100},
		{name: "given back four times in a row", results: []int32{again, again, canceled, fault}, class: device.ClassIO, cause: syscall.EFAULT, pos: 1000},
		{name: "progress starts the count again", results: []int32{again, again, again, 50, again, again, again, 50}, n: 100},
		{name: "EIO", results: []int32{eio}, class: device.ClassIO, cause: syscall.EIO, pos: 1000},
		{name: "a device error that is not EIO", kind: device.WriteDsync, results: []int32{noData}, class: device.ClassIO, cause: syscall.ENODATA, pos: 1000},
		{name: "full disk", kind: device.WriteDsync, results: []int32{noSpace}, class: device.ClassFull, cause: syscall.ENOSPC, pos: 1000},
		{name: "flush", kind: device.Flush, results: []int32{0}},
		{name: "flush that never ran", kind: device.Flush, results: []int32{canceled, fault, again, 0}},
		{name: "flush that failed is final", kind: device.Flush, results: []int32{eio}, class: device.ClassIO, cause: syscall.EIO, pos: -1},
		{name: "flush that never ran, then failed", kind: device.FlushAll, results: []int32{canceled, noData}, class: device.ClassIO, cause: syscall.ENODATA, pos: -1},
		{name: "interrupted flush is final", kind: device.Flush, results: []int32{intr}, class: device.ClassIO, cause: syscall.EINTR, pos: -1},
		{name: "full flush", kind: device.FlushAll, results: []int32{0}},
		{name: "allocate", kind: device.Allocate, results: []int32{0}},
		{name: "allocate interrupted", kind: device.Allocate, results: []int32{intr, 0}},
		{name: "allocate without support", kind: device.Allocate, results: []int32{noSupport}, class: device.ClassUnsupported, cause: syscall.EOPNOTSUPP, pos: 1000},
		{name: "allocate on a full disk", kind: device.Allocate, results: []int32{noSpace}, class: device.ClassFull, cause: syscall.ENOSPC, pos: 1000},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := newFakeKernel(t)
			f.answer = func(_ sqe, attempt int) int32 { return row.results[attempt] }
			r := f.mustOpen(Options{Retries: 3, RetryTime: -1})
			op := &device.Op{Kind: row.kind, File: &fakeFile{}, Buf: make([]byte, 100), Pos: 1000, Len: 4096}
			err := device.Do(r, op)
			closeRing(t, r)

			if op.N != row.n || op.Pieces != len(row.results) {
				t.Errorf("N %d, Pieces %d, want %d and %d", op.N, op.Pieces, row.n, len(row.results))
			}
			if device.ClassOf(err) != row.class || !errors.Is(err, row.cause) {
				t.Fatalf("got %v (%v)", err, device.ClassOf(err))
			}
			if err != nil {
				var where *device.Error
				if !errors.As(err, &where) || where.Pos != row.pos || where.Op != row.kind.String() || where.Path != "a-file" {
					t.Errorf("got %+v", where)
				}
			}
			done := 0
			for i, e := range f.takenOps() {
				if isWrite(row.kind) && (e.off != uint64(1000+done) || e.len != uint32(100-done)) {
					t.Errorf("entry %d writes [%d, +%d), want [%d, +%d)", i, e.off, e.len, 1000+done, 100-done)
				}
				done += max(0, int(row.results[i]))
			}
		})
	}
}

func TestRepeatedTransfersAreCountedByCause(t *testing.T) {
	f := newFakeKernel(t)
	results := []int32{-int32(syscall.EAGAIN), 10, -int32(syscall.ECANCELED), -int32(syscall.EFAULT), 20, 70}
	f.answer = func(_ sqe, attempt int) int32 { return results[attempt] }
	r := f.mustOpen(Options{})
	defer closeRing(t, r)
	if err := device.Do(r, &device.Op{File: &fakeFile{}, Buf: make([]byte, 100)}); err != nil {
		t.Fatal(err)
	}
	s := r.Stats()
	if s.ResubmitAgain != 1 || s.ResubmitShort != 2 || s.ResubmitCanceled != 2 || s.Ops[device.Write] != 1 || s.Errors[device.Write] != 0 {
		t.Errorf("got %+v", s)
	}
}

func TestALongWriteGoesOutInPieces(t *testing.T) {
	r := openRing(t, Options{TransferBytes: 1000})
	defer closeRing(t, r)
	file := newFile(t)
	want := pattern(12_345, 9)
	op := &device.Op{Kind: device.WriteDsync, File: file, Buf: want, Pos: 77}
	if err := device.Do(r, op); err != nil {
		t.Fatal(err)
	}
	if op.N != len(want) || op.Pieces != 13 {
		t.Errorf("N %d, Pieces %d", op.N, op.Pieces)
	}
	got := make([]byte, len(want))
	if _, err := file.ReadAt(got, 77); err != nil || string(got) != string(want) {
		t.Errorf("the bytes differ (%v)", err)
	}
	if s := r.Stats(); s.ResubmitShort != 0 {
		t.Errorf("%d pieces counted as short", s.ResubmitShort)
	}
}

func TestAnOpTheRingCannotCarryFailsAlone(t *testing.T) {
	f := newFakeKernel(t)
	r := f.mustOpen(Options{})
	defer closeRing(t, r)
	noDescriptor := &device.Op{File: struct{ device.File }{named{}}, Buf: make([]byte, 1)}
	badPosition := &device.Op{File: &fakeFile{}, Buf: make([]byte, 1), Pos: -1}
	badKind := &device.Op{Kind: device.KindCount, File: &fakeFile{}}
	empty := &device.Op{File: &fakeFile{}}
	good := &device.Op{File: &fakeFile{}, Buf: make([]byte, 1)}
	r.Submit(noDescriptor, badPosition, badKind, empty, good)
	for _, row := range []struct {
		op    *device.Op
		class device.Class
	}{
		{noDescriptor, device.ClassUnsupported},
		{badPosition, device.ClassIO},
		{badKind, device.ClassUnsupported},
		{empty, device.ClassNone},
		{good, device.ClassNone},
	} {
		if err := row.op.Wait(); device.ClassOf(err) != row.class {
			t.Errorf("got %v, want class %v", err, row.class)
		}
	}
	if n := len(f.takenOps()); n != 1 {
		t.Errorf("%d operations reached the kernel", n)
	}
}

// named is a file that has a name and nothing else.
type named struct{ device.File }

func (named) Name() string { return "a name" }

// TestEveryOpCompletesOnceWhateverTheOrder lets the kernel complete in random
// order with random short, refused and failed results.
func TestEveryOpCompletesOnceWhateverTheOrder(t *testing.T) {
	seed := rand.Uint64()
	f := newFakeKernel(t)
	f.order = rand.New(rand.NewPCG(seed, 1))
	chance := rand.New(rand.NewPCG(seed, 2))
	f.answer = func(e sqe, _ int) int32 {
		switch chance.IntN(6) {
		case 0:
			return -int32(syscall.EAGAIN)
		case 1:
			return -int32(syscall.ECANCELED)
		case 2:
			if e.opcode == opWrite {
				return 1 + int32(chance.IntN(int(e.len)))
			}
		case 3:
			if chance.IntN(10) == 0 {
				return -int32(syscall.EIO)
			}
		}
		return fullResult(e)
	}
	f.onEnter = func(_ int, submit, _ uint32) (uint32, syscall.Errno) {
		switch chance.IntN(5) {
		case 0:
			return submit / 2, 0
		case 1:
			return 0, syscall.EINTR
		}
		return submit, 0
	}
	r := f.mustOpen(Options{Entries: 16, Retries: 1000})
	const n = 5000
	ops := make([]*device.Op, n)
	for i := range ops {
		ops[i] = &device.Op{Kind: device.Kind(i % int(device.KindCount)), File: &fakeFile{}, Buf: make([]byte, 100), Pos: int64(i), Len: 1}
	}
	for i := 0; i < n; {
		step := 1 + rand.IntN(40)
		r.Submit(ops[i:min(n, i+step)]...)
		i += step
	}
	for i, op := range ops {
		if err := op.Wait(); err != nil && !errors.Is(err, syscall.EIO) {
			t.Fatalf("seed %d: op %d: %v", seed, i, err)
		} else if err == nil && isWrite(op.Kind) && op.N != 100 {
			t.Fatalf("seed %d: op %d: %d bytes written", seed, i, op.N)
		}
	}
	s := r.Stats()
	closeRing(t, r)
	total := uint64(0)
	for _, count := range s.Ops {
		total += count
	}
	if total != n || s.InFlight != 0 || s.Queued != 0 || s.OldestAge != 0 {
		t.Errorf("seed %d: got %+v", seed, s)
	}
	if s.Lost != nil {
		t.Errorf("seed %d: %v", seed, s.Lost)
	}
}

func ExampleSetupError() {
	fmt.Println(&SetupError{Stage: stageSetup, Errno: syscall.EPERM})
	// Output: no io_uring: io_uring_setup: operation not permitted
}
