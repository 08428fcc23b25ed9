package uring

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
)

// gate holds the loop before it looks for new operations. It opens again when the
// test lets go.
type gate struct {
	mu     sync.Mutex
	closed chan struct{} // nil: open
	at     chan struct{} // the loop stands at the gate
}

func newGate() *gate { return &gate{at: make(chan struct{})} }

func (g *gate) hook() {
	g.mu.Lock()
	wait := g.closed
	g.mu.Unlock()
	if wait != nil {
		g.at <- struct{}{}
		<-wait
	}
}

// hold makes the loop stop at the gate. A waiting loop is brought there by an empty
// write; one that was already past the gate may carry that out on its way to waiting,
// and is sent another.
func (g *gate) hold(r *Ring) (release func()) {
	wait := make(chan struct{})
	g.mu.Lock()
	g.closed = wait
	g.mu.Unlock()
	release = func() {
		g.mu.Lock()
		g.closed = nil
		g.mu.Unlock()
		close(wait)
	}
	for {
		nudge := &device.Op{File: &fakeFile{}}
		r.Submit(nudge)
		select {
		case <-g.at:
			return release
		case <-nudge.Done():
		}
	}
}

// TestEverythingQueuedGoesOutTogether lines 64 operations up while the loop is
// held and counts the calls that submitted them.
func TestEverythingQueuedGoesOutTogether(t *testing.T) {
	g := newGate()
	r := openRing(t, Options{Hooks: Hooks{Gather: g.hook}})
	defer closeRing(t, r)
	file := newFile(t)
	for _, kind := range []device.Kind{device.Write, device.Allocate, device.Flush} {
		t.Run(kind.String(), func(t *testing.T) {
			release := g.hold(r)
			before := r.counters.submitEnters.Load()
			ops := make([]*device.Op, 64)
			for i := range ops {
				ops[i] = &device.Op{Kind: kind, File: file, Buf: pattern(4096, byte(i)), Pos: int64(4096 * i), Len: 4096}
				r.Submit(ops[i])
			}
			if s := r.Stats(); s.Queued < 64 {
				t.Fatalf("%d operations in line while the loop is held", s.Queued)
			}
			release()
			for _, op := range ops {
				if err := op.Wait(); err != nil {
					t.Fatal(err)
				}
			}
			if n := r.counters.submitEnters.Load() - before; n > 2 {
				t.Errorf("64 operations went out in %d calls, want at most 2", n)
			}
		})
	}
}

func TestSubmitNeverWaitsForRoom(t *testing.T) {
	g := newGate()
	r := openRing(t, Options{Entries: 2, Hooks: Hooks{Gather: g.hook}})
	defer closeRing(t, r)
	file := newFile(t)
	release := g.hold(r)
	ops := make([]*device.Op, 1000)
	for i := range ops {
		ops[i] = &device.Op{File: file, Buf: []byte{1}, Pos: int64(i)}
		r.Submit(ops[i]) // would hang here
	}
	release()
	for _, op := range ops {
		if err := op.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOpsAreIssuedInTheOrderTheyCame: they may complete in any order, but a line that
// is not first come, first served could starve one.
func TestOpsAreIssuedInTheOrderTheyCame(t *testing.T) {
	f := newFakeKernel(t)
	g := newGate()
	r := f.mustOpen(Options{Entries: 4, Hooks: Hooks{Gather: g.hook}})
	defer closeRing(t, r)
	release := g.hold(r)
	var ops []*device.Op
	for i := range 100 {
		ops = append(ops, &device.Op{File: &fakeFile{}, Buf: []byte{1}, Pos: int64(i)})
	}
	r.Submit(ops[:1]...)
	r.Submit(ops[1:50]...)
	r.Submit(ops[50:99]...)
	r.Submit(ops[99])
	release()
	for _, op := range ops {
		if err := op.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	for i, e := range f.takenOps() {
		if e.off != uint64(i) {
			t.Fatalf("operation %d was issued in place %d", e.off, i)
		}
	}
}

// TestACallerThatGaveUpFreesNothing: the slot, the file and the buffer stay with an
// operation nobody waits for.
func TestACallerThatGaveUpFreesNothing(t *testing.T) {
	f := newFakeKernel(t)
	f.hold = true
	r := f.mustOpen(Options{})
	buf := []byte("abcdefgh")
	op := &device.Op{File: &fakeFile{}, Buf: buf}
	r.Submit(op)
	e := f.waitTaken(1)[0]
	// The caller is gone; others use the ring.
	other := &device.Op{File: &fakeFile{}, Buf: make([]byte, 8), Pos: 8}
	r.Submit(other)
	second := f.waitTaken(2)[1]
	if uint32(second.userData) == uint32(e.userData) {
		t.Fatal("the slot was given away")
	}
	f.complete(second.userData, 8)
	if err := other.Wait(); err != nil {
		t.Fatal(err)
	}
	if s := r.Stats(); s.InFlight != 1 || s.OldestAge <= 0 {
		t.Fatalf("got %+v", s)
	}
	// A part is written; what follows still comes from the same buffer.
	f.complete(e.userData, 3)
	rest := f.waitTaken(3)[2]
	if rest.addr != e.addr+3 || rest.len != 5 {
		t.Fatalf("the rest is %d bytes at +%d", rest.len, rest.addr-e.addr)
	}
	f.complete(rest.userData, 5)
	closeRing(t, r)
	if err := op.Wait(); err != nil || op.N != 8 {
		t.Fatalf("N %d, %v", op.N, err)
	}
}

func TestCloseCarriesOutWhatWasSubmitted(t *testing.T) {
	f := newFakeKernel(t)
	f.hold = true
	r := f.mustOpen(Options{Entries: 2})
	first := &device.Op{File: &fakeFile{}, Buf: make([]byte, 8)}
	inLine := &device.Op{File: &fakeFile{}, Buf: make([]byte, 8), Pos: 8}
	r.Submit(first, inLine)
	f.waitTaken(1)
	closed := make(chan error)
	go func() { closed <- r.Close() }()
	for i := range 2 {
		e := f.waitTaken(i + 1)[i]
		select {
		case err := <-closed:
			t.Fatalf("Close returned %v with an operation in flight", err)
		default:
		}
		f.complete(e.userData, 8)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	for _, op := range []*device.Op{first, inLine} {
		if err := op.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if f.mu.closed != 1 || f.mu.unmapped != 2 {
		t.Errorf("closed %d times, %d regions unmapped", f.mu.closed, f.mu.unmapped)
	}
}

// TestAnOpThatRacesWithCloseCompletes lets submissions meet the end of the loop, of
// a ring that is closed and of one that is lost.
func TestAnOpThatRacesWithCloseCompletes(t *testing.T) {
	for name, end := range map[string]func(*fakeKernel, *Ring){
		"close": func(_ *fakeKernel, r *Ring) { r.Close() },
		"loss": func(f *fakeKernel, r *Ring) {
			f.broken.Store(true)
			r.Submit(&device.Op{File: &fakeFile{}, Buf: make([]byte, 1)})
			<-r.finished
		},
	} {
		t.Run(name, func(t *testing.T) {
			refused := 0
			for range 300 {
				f := newFakeKernel(t)
				r := f.mustOpen(Options{Entries: 2})
				var all sync.WaitGroup
				var failures atomic.Int64
				for range 2 {
					all.Go(func() {
						op := &device.Op{File: &fakeFile{}, Buf: make([]byte, 1)}
						for device.Do(r, op) == nil { // would hang here
						}
						failures.Add(1)
					})
				}
				end(f, r)
				all.Wait()
				refused += int(failures.Load())
			}
			if refused != 600 {
				t.Errorf("%d of 600 producers heard of the end", refused)
			}
		})
	}
}

// TestNoWakeUpIsLost sends one operation at a time from several producers, so that
// the loop parks, waits in the kernel and wakes as often as can be. A lost
// wake-up hangs the test.
func TestNoWakeUpIsLost(t *testing.T) {
	for _, producers := range []int{1, 2, 7} {
		f := newFakeKernel(t)
		r := f.mustOpen(Options{Entries: 4})
		var all sync.WaitGroup
		for range producers {
			all.Go(func() {
				op := &device.Op{File: &fakeFile{}, Buf: make([]byte, 1)}
				for range 3000 {
					if err := device.Do(r, op); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		closeRing(t, r)
	}
}

// TestALoopInTheKernelIsWoken: with one operation stuck in the device, another
// one must still go out at once.
func TestALoopInTheKernelIsWoken(t *testing.T) {
	f := newFakeKernel(t)
	f.hold = true
	r := f.mustOpen(Options{})
	stuck := &device.Op{File: &fakeFile{}, Buf: make([]byte, 8)}
	r.Submit(stuck)
	first := f.waitTaken(1)[0]
	for i := range 1000 {
		op := &device.Op{File: &fakeFile{}, Buf: make([]byte, 8), Pos: int64(i)}
		r.Submit(op)
		f.complete(f.waitTaken(i + 2)[i+1].userData, 8)
		if err := op.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if r.Stats().Wakeups == 0 {
		t.Error("no producer had to wake the loop")
	}
	f.complete(first.userData, 8)
	closeRing(t, r)
	if err := stuck.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestAnOpPushedAfterTheLastLookCompletes plays the worst moment: the loop ended
// between Submit's check and its push.
func TestAnOpPushedAfterTheLastLookCompletes(t *testing.T) {
	r := newFakeKernel(t).mustOpen(Options{})
	closeRing(t, r)
	op := &device.Op{File: &fakeFile{}, Buf: make([]byte, 1)}
	op.Prepare()
	r.deliver(op, op)
	select {
	case <-op.Done():
		if !errors.Is(op.Err, device.ErrQueueClosed) {
			t.Errorf("got %v", op.Err)
		}
	default:
		t.Error("nobody completes the operation")
	}
}

// TestTheEventfdIsNotClosedUnderAProducer: its number could be another file's by the
// time of the write.
func TestTheEventfdIsNotClosedUnderAProducer(t *testing.T) {
	var b bell
	if errno := b.open(); errno != 0 {
		t.Fatal(errno)
	}
	b.ringing.Add(1) // a producer that is about to write
	closed := make(chan error)
	go func() { closed <- b.close() }()
	for range 1000 {
		runtime.Gosched()
		if _, err := unix.FcntlInt(uintptr(b.eventfd), unix.F_GETFD, 0); err != nil {
			t.Fatal("closed while a producer was about to write")
		}
	}
	b.ringing.Add(-1)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
}

func TestTheBellRingsOnceForABurst(t *testing.T) {
	var b bell
	if errno := b.open(); errno != 0 {
		t.Fatal(errno)
	}
	defer b.close()
	never := func() bool { return false }
	var arrived atomic.Bool
	idle := func() bool { return !arrived.Load() }

	b.ring() // awake: nothing to do
	if len(b.token) != 0 || b.rung.Load() != 0 {
		t.Fatal("a loop that is awake was woken")
	}
	b.park(never) // something came before the loop parked
	if b.state.Load() != awake {
		t.Fatal("the loop is not awake")
	}
	if b.enterKernel(never) || b.state.Load() != awake {
		t.Fatal("the loop entered the kernel although something came")
	}
	if !b.enterKernel(idle) {
		t.Fatal("the loop did not enter the kernel")
	}
	for range 5 {
		b.ring()
	}
	if b.rung.Load() != 1 {
		t.Fatalf("%d writes for one burst", b.rung.Load())
	}
	b.leaveKernel()
	b.silence()

	// From parked: five producers, one token.
	var all sync.WaitGroup
	woken := make(chan struct{})
	go func() {
		b.park(idle)
		close(woken)
	}()
	arrived.Store(true)
	for range 5 {
		all.Go(b.ring)
	}
	all.Wait()
	for {
		select {
		case <-woken:
			if len(b.token) != 0 {
				t.Fatal("a token is left")
			}
			return
		default:
			b.ring() // the loop may have parked after the five
		}
	}
}
