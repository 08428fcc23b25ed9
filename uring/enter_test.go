package uring

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"felix.local/felix/device"
)

// TestAStormOfRefusalsIsSurvived answers most calls with errors that mean "later",
// in every mixture, and takes entries a few at a time.
func TestAStormOfRefusalsIsSurvived(t *testing.T) {
	for _, storm := range []struct {
		name   string
		errnos []syscall.Errno
	}{
		{"EINTR", []syscall.Errno{syscall.EINTR}},
		{"EAGAIN", []syscall.Errno{syscall.EAGAIN}},
		{"EBUSY", []syscall.Errno{syscall.EBUSY}},
		{"all of them", []syscall.Errno{syscall.EINTR, syscall.EAGAIN, syscall.EBUSY}},
	} {
		t.Run(storm.name, func(t *testing.T) {
			seed := rand.Uint64()
			chance := rand.New(rand.NewPCG(seed, 0))
			f := newFakeKernel(t)
			f.onEnter = func(_ int, submit, _ uint32) (uint32, syscall.Errno) {
				if chance.IntN(4) != 0 {
					return 0, storm.errnos[chance.IntN(len(storm.errnos))]
				}
				return min(submit, 1+chance.Uint32N(3)), 0
			}
			r := f.mustOpen(Options{})
			var ops []*device.Op
			for i := range 150 {
				ops = append(ops, &device.Op{File: &fakeFile{}, Buf: make([]byte, 8), Pos: int64(8 * i)})
			}
			r.Submit(ops...)
			for _, op := range ops {
				if err := op.Wait(); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			closeRing(t, r)
			seen := make(map[uint64]bool)
			for _, e := range f.takenOps() {
				if seen[e.off] {
					t.Fatalf("seed %d: the write at %d was submitted twice", seed, e.off)
				}
				seen[e.off] = true
			}
			if len(seen) != len(ops) {
				t.Fatalf("seed %d: %d writes were submitted, want %d", seed, len(seen), len(ops))
			}
		})
	}
}

// TestARefusalWithWorkInTheKernelWaitsForThatWork: the kernel has no room until
// something completes.
func TestARefusalWithWorkInTheKernelWaitsForThatWork(t *testing.T) {
	f := newFakeKernel(t)
	f.hold = true
	var refuse atomic.Bool
	refused := make(chan struct{}, 1)
	f.onEnter = func(_ int, submit, _ uint32) (uint32, syscall.Errno) {
		if submit > 0 && refuse.Load() {
			select {
			case refused <- struct{}{}:
			default:
			}
			return 0, syscall.EBUSY
		}
		return submit, 0
	}
	r := f.mustOpen(Options{EnterRetries: 1})
	first := &device.Op{File: &fakeFile{}, Buf: make([]byte, 8)}
	r.Submit(first)
	held := f.waitTaken(1)
	refuse.Store(true)
	second := &device.Op{File: &fakeFile{}, Buf: make([]byte, 8), Pos: 8}
	r.Submit(second)
	<-refused
	refuse.Store(false)
	f.complete(held[0].userData, 8)
	if err := first.Wait(); err != nil {
		t.Fatal(err)
	}
	f.complete(f.waitTaken(2)[1].userData, 8)
	if err := second.Wait(); err != nil {
		t.Fatal(err)
	}
	closeRing(t, r)
}

// TestALostRingLeavesNobodyWaiting breaks the ring with operations in flight, in
// the submission queue and in line.
func TestALostRingLeavesNobodyWaiting(t *testing.T) {
	for _, errno := range []syscall.Errno{
		syscall.EBADR, syscall.EBADF, syscall.EINVAL, syscall.EFAULT, syscall.ENXIO, syscall.EPERM, syscall.ENOSYS, syscall.EIO, syscall.ENOMEM,
	} {
		t.Run(fmt.Sprint(uint(errno)), func(t *testing.T) {
			f := newFakeKernel(t)
			f.hold = true
			var broken atomic.Bool
			f.onEnter = func(_ int, submit, _ uint32) (uint32, syscall.Errno) {
				if broken.Load() {
					return 0, errno
				}
				return submit, 0
			}
			r := f.mustOpen(Options{Entries: 4})
			ops := make([]*device.Op, 10)
			for i := range ops {
				ops[i] = &device.Op{Kind: device.WriteDsync, File: &fakeFile{}, Buf: make([]byte, 8), Pos: int64(i)}
			}
			r.Submit(ops[:2]...)
			f.waitTaken(2)
			broken.Store(true)
			r.Submit(ops[2:]...)
			wantLost(t, r, errno, ops...)

			later := &device.Op{Kind: device.Flush, File: &fakeFile{}}
			r.Submit(later)
			wantLost(t, r, errno, later)

			var lost *LostError
			if err := r.Close(); !errors.As(err, &lost) {
				t.Errorf("Close returned %v", err)
			}
			if f.mu.closed != 0 || f.mu.unmapped != 0 {
				t.Error("memory that the kernel may still use was released")
			}
			after := &device.Op{Kind: device.Flush, File: &fakeFile{}}
			r.Submit(after)
			wantLost(t, r, errno, after)
		})
	}
}

func wantLost(t *testing.T, r *Ring, errno error, ops ...*device.Op) {
	t.Helper()
	for i, op := range ops {
		err := op.Wait()
		if !errors.Is(err, device.ErrOutcomeUnknown) || device.ClassOf(err) != device.ClassOutcomeUnknown {
			t.Fatalf("op %d: got %v, want outcome unknown", i, err)
		}
		if errno != nil && !errors.Is(err, errno) {
			t.Fatalf("op %d: %v does not name %v", i, err, errno)
		}
	}
	if s := r.Stats(); s.Lost == nil || s.InFlight != 0 || s.Queued != 0 {
		t.Fatalf("got %+v", s)
	}
}

func TestAnEndlessRefusalLosesTheRing(t *testing.T) {
	f := newFakeKernel(t)
	f.onEnter = func(int, uint32, uint32) (uint32, syscall.Errno) { return 0, syscall.EAGAIN }
	r := f.mustOpen(Options{EnterRetries: 5})
	op := &device.Op{File: &fakeFile{}, Buf: make([]byte, 8)}
	r.Submit(op)
	wantLost(t, r, syscall.EAGAIN, op)
	if f.mu.enters != 6 {
		t.Errorf("%d calls, want 6", f.mu.enters)
	}
}

// TestWhatIsUnderWayIsCountedRightForEver: entry numbers run round. A poll that was
// taken long ago must not count as one that is still to be taken, or a refused
// submission would wait for a completion with nothing in the kernel.
func TestWhatIsUnderWayIsCountedRightForEver(t *testing.T) {
	f := newFakeKernel(t)
	f.hold = true
	d, failure := openMapped(f, 4, 0)
	if failure != nil {
		t.Fatal(failure)
	}
	r := &Ring{slots: newSlots(3)}
	l := newLoop(r, d, Options{}.withDefaults())
	want := func(when string, n int) {
		t.Helper()
		if got := l.underWay(); got != n {
			t.Errorf("%s: %d operations are under way, want %d", when, got, n)
		}
	}
	l.poll()
	want("with the poll queued", 0)
	l.begin(&device.Op{File: &fakeFile{}, Buf: make([]byte, 8)})
	want("with the poll and an operation queued", 0)
	l.enter(2, 0)
	want("with both taken", 1)
	for _, ahead := range []uint32{1 << 30, 1 << 30, 1 << 30, 1 << 30} {
		l.pushed += ahead
		l.enter(0, 0)
		want(fmt.Sprintf("%d entries later", l.pushed), 1)
	}
}

func TestACompletionForNothingLosesTheRing(t *testing.T) {
	for name, damage := range map[string]func(uint64) uint64{
		"stale generation": func(u uint64) uint64 { return u - 1<<32 },
		"free slot":        func(u uint64) uint64 { return u + 1 },
		"no such slot":     func(u uint64) uint64 { return u + 1000 },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeKernel(t)
			f.hold = true
			r := f.mustOpen(Options{})
			op := &device.Op{File: &fakeFile{}, Buf: make([]byte, 8)}
			r.Submit(op)
			f.complete(damage(f.waitTaken(1)[0].userData), 8)
			wantLost(t, r, nil, op)
		})
	}
}

// TestASecondCompletionLosesTheRing: the slot has been given to another operation
// since, whose buffer must not be taken for written.
func TestASecondCompletionLosesTheRing(t *testing.T) {
	f := newFakeKernel(t)
	f.hold = true
	r := f.mustOpen(Options{Entries: 2})
	first := &device.Op{File: &fakeFile{}, Buf: make([]byte, 8)}
	r.Submit(first)
	e := f.waitTaken(1)[0]
	f.complete(e.userData, 8)
	if err := first.Wait(); err != nil {
		t.Fatal(err)
	}
	second := &device.Op{File: &fakeFile{}, Buf: make([]byte, 8), Pos: 8}
	r.Submit(second)
	f.waitTaken(2)
	f.complete(e.userData, 8)
	wantLost(t, r, nil, second)
}

func TestMoreBytesThanWereAskedLoseTheRing(t *testing.T) {
	f := newFakeKernel(t)
	f.answer = func(e sqe, _ int) int32 { return int32(e.len) + 1 }
	r := f.mustOpen(Options{})
	op := &device.Op{File: &fakeFile{}, Buf: make([]byte, 8)}
	r.Submit(op)
	wantLost(t, r, nil, op)
}

// TestALostRingLeavesNothingButItsKeeper checks the one goroutine that may stay.
func TestALostRingLeavesNothingButItsKeeper(t *testing.T) {
	f := newFakeKernel(t)
	f.onEnter = func(int, uint32, uint32) (uint32, syscall.Errno) { return 0, syscall.EBADF }
	r := f.mustOpen(Options{})
	op := &device.Op{File: &fakeFile{}, Buf: make([]byte, 8)}
	r.Submit(op)
	wantLost(t, r, syscall.EBADF, op)
	if err := goleak.Find(keepers()); err != nil {
		t.Error(err)
	}
}

func keepers() goleak.Option {
	return goleak.IgnoreTopFunction("felix.local/felix/uring.keepUntilExit")
}

// TestADroppedCompletionLosesTheRing: whose it was cannot be known, and its
// operation would wait for ever. What did arrive is true all the same.
func TestADroppedCompletionLosesTheRing(t *testing.T) {
	f := newFakeKernel(t)
	f.hold = true
	r := f.mustOpen(Options{})
	arrives := &device.Op{File: &fakeFile{}, Buf: make([]byte, 8)}
	dropped := &device.Op{File: &fakeFile{}, Buf: make([]byte, 8), Pos: 8}
	r.Submit(arrives, dropped)
	taken := f.waitTaken(2)
	atomic.AddUint32(f.word(fakeCQOverflow), 1)
	f.complete(taken[0].userData, 8)
	wantLost(t, r, nil, dropped)
	if err := arrives.Wait(); err != nil {
		t.Error(err)
	}
}

// TestTheCompletionQueueCannotOverflow queues far more than the ring holds; an
// overflow would lose the ring.
func TestTheCompletionQueueCannotOverflow(t *testing.T) {
	const n = 10_000
	t.Run("kernel in memory", func(t *testing.T) {
		f := newFakeKernel(t)
		r := f.mustOpen(Options{Entries: 8})
		submitMany(t, r, &fakeFile{}, n)
		closeRing(t, r)
	})
	t.Run("this kernel", func(t *testing.T) {
		r := openRing(t, Options{Entries: 8})
		submitMany(t, r, newFile(t), n)
		s := r.Stats()
		closeRing(t, r)
		if s.InFlightMax != 7 || s.Ops[device.Write] != n {
			t.Errorf("got %+v", s)
		}
	})
}

func submitMany(t *testing.T, r *Ring, file device.File, n int) {
	t.Helper()
	ops := make([]*device.Op, n)
	for i := range ops {
		ops[i] = &device.Op{File: file, Buf: []byte("12345678"), Pos: int64(8 * i)}
	}
	r.Submit(ops...)
	for _, op := range ops {
		if err := op.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}
