package uring

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"felix.local/felix/device"
)

// fakeClock is a clock whose timers fire when the test says so.
type fakeClock struct {
	mu struct {
		sync.Mutex
		now    time.Time
		timers []fakeTimer // armed and not fired
		pauses []time.Duration
	}
	armed chan struct{} // a timer was armed
}

type fakeTimer struct {
	wait time.Duration
	fire func()
}

func newFakeClock() *fakeClock { return &fakeClock{armed: make(chan struct{}, 1)} }

// on makes a ring run by this clock.
func (c *fakeClock) on(o Options) Options {
	o.now = func() time.Time {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.mu.now
	}
	o.after = func(d time.Duration, f func()) {
		c.mu.Lock()
		c.mu.timers = append(c.mu.timers, fakeTimer{d, f})
		c.mu.pauses = append(c.mu.pauses, d)
		c.mu.Unlock()
		c.armed <- struct{}{} // blocks when there is a second timer
	}
	return o
}

// await returns when a timer is armed: the loop has seen what came back.
func (c *fakeClock) await() {
	<-c.armed
	c.armed <- struct{}{}
}

// fire waits for the timer, moves the clock and fires it.
func (c *fakeClock) fire() {
	<-c.armed
	c.mu.Lock()
	timer := c.mu.timers[0]
	c.mu.timers = c.mu.timers[1:]
	c.mu.now = c.mu.now.Add(timer.wait)
	c.mu.Unlock()
	timer.fire()
}

func (c *fakeClock) pauses() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]time.Duration(nil), c.mu.pauses...)
}

// noWorkers gives back every flush while it is set.
func (f *fakeKernel) noWorkers(on *atomic.Bool) {
	f.answer = func(e sqe, _ int) int32 {
		if on.Load() && e.opcode == opFsync {
			return -int32(syscall.ECANCELED)
		}
		return fullResult(e)
	}
}

// TestAnOpThatKeepsComingBackIsTriedLaterAndLater plays a kernel that cannot start a
// worker for a while.
func TestAnOpThatKeepsComingBackIsTriedLaterAndLater(t *testing.T) {
	f, clock := newFakeKernel(t), newFakeClock()
	var starved atomic.Bool
	starved.Store(true)
	f.noWorkers(&starved)
	r := f.mustOpen(clock.on(Options{}))
	op := &device.Op{Kind: device.Flush, File: &fakeFile{}}
	r.Submit(op)
	const rounds = 100 // more than Retries: the time is not over
	for range rounds {
		clock.fire()
	}
	clock.await()
	starved.Store(false)
	clock.fire()
	if err := op.Wait(); err != nil {
		t.Fatal(err)
	}
	closeRing(t, r)

	pauses := clock.pauses()
	if len(pauses) != rounds+1 || op.Pieces != 1+retriesAtOnce+len(pauses) {
		t.Errorf("%d pauses, %d pieces", len(pauses), op.Pieces)
	}
	for i, p := range pauses {
		if want := min(10*time.Microsecond<<min(i, 20), 10*time.Millisecond); p != want {
			t.Fatalf("pause %d is %v, want %v", i, p, want)
		}
	}
	if s := r.Stats(); s.ResubmitCanceled != uint64(op.Pieces-1) || s.Errors[device.Flush] != 0 {
		t.Errorf("got %+v", s)
	}
}

// TestOthersGoOnWhileAnOpWaitsToBeTriedAgain looks at the loop in both places where
// it can be: parked, and in the kernel with work of another operation.
func TestOthersGoOnWhileAnOpWaitsToBeTriedAgain(t *testing.T) {
	f, clock := newFakeKernel(t), newFakeClock()
	var starved atomic.Bool
	starved.Store(true)
	f.noWorkers(&starved)
	r := f.mustOpen(clock.on(Options{Entries: 4}))
	waits := &device.Op{Kind: device.Flush, File: &fakeFile{}}
	r.Submit(waits)
	for i := range 100 {
		if err := device.Do(r, &device.Op{File: &fakeFile{}, Buf: make([]byte, 8), Pos: int64(i)}); err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 {
			clock.fire()
		}
	}
	if s := r.Stats(); s.InFlight != 1 {
		t.Errorf("got %+v", s)
	}
	clock.await()
	starved.Store(false)
	clock.fire()
	if err := waits.Wait(); err != nil {
		t.Fatal(err)
	}
	closeRing(t, r)
}

// TestATimerWakesALoopInTheKernel has every slot taken: one operation waits to be
// tried again, the others are with the device, and more are in line.
func TestATimerWakesALoopInTheKernel(t *testing.T) {
	f, clock := newFakeKernel(t), newFakeClock()
	f.hold = true
	r := f.mustOpen(clock.on(Options{Entries: 4}))
	ops := make([]*device.Op, 6)
	for i := range ops {
		ops[i] = &device.Op{Kind: device.WriteDsync, File: &fakeFile{}, Buf: make([]byte, 8), Pos: int64(8 * i)}
	}
	r.Submit(ops...)
	taken := f.waitTaken(3)
	back := taken[0]
	for i := range retriesAtOnce + 1 {
		f.complete(back.userData, -int32(syscall.ECANCELED))
		if i < retriesAtOnce {
			back = f.waitTaken(4 + i)[3+i]
		}
	}
	clock.fire()
	again := f.waitTaken(4 + retriesAtOnce)[3+retriesAtOnce]
	if again.off != taken[0].off {
		t.Fatalf("the write at %d went out, want the one at %d again", again.off, taken[0].off)
	}
	f.complete(again.userData, 8)
	f.complete(taken[1].userData, 8)
	f.complete(taken[2].userData, 8)
	for i := range 3 {
		f.complete(f.waitTaken(8 + i)[7+i].userData, 8)
	}
	for _, op := range ops {
		if err := op.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	closeRing(t, r)
}

// TestOpsThatCameBackTogetherGoOutTogether: one timer serves all of them.
func TestOpsThatCameBackTogetherGoOutTogether(t *testing.T) {
	f, clock := newFakeKernel(t), newFakeClock()
	var starved atomic.Bool
	starved.Store(true)
	f.noWorkers(&starved)
	g := newGate()
	o := clock.on(Options{})
	o.Hooks.Gather = g.hook
	r := f.mustOpen(o)
	release := g.hold(r)
	ops := make([]*device.Op, 50)
	for i := range ops {
		ops[i] = &device.Op{Kind: device.Flush, File: &fakeFile{}}
	}
	r.Submit(ops...)
	release()
	for range 9 {
		clock.fire()
	}
	clock.await()
	starved.Store(false)
	clock.fire()
	for _, op := range ops {
		if err := op.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	closeRing(t, r)
	if n := len(clock.pauses()); n != 10 {
		t.Errorf("%d timers, want 10", n)
	}
}

func TestCloseWaitsForAnOpThatIsTriedAgain(t *testing.T) {
	f, clock := newFakeKernel(t), newFakeClock()
	var starved atomic.Bool
	starved.Store(true)
	f.noWorkers(&starved)
	r := f.mustOpen(clock.on(Options{}))
	op := &device.Op{Kind: device.FlushAll, File: &fakeFile{}}
	r.Submit(op)
	closed := make(chan error)
	go func() { closed <- r.Close() }()
	for range 20 {
		clock.fire()
	}
	select {
	case err := <-closed:
		t.Fatalf("Close returned %v with an operation in its hands", err)
	default:
	}
	clock.await()
	starved.Store(false)
	clock.fire()
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if err := op.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestTriesEndWhenBothCountAndTimeAreUsedUp: the count alone would be gone within
// microseconds, the time alone within one slow device.
func TestTriesEndWhenBothCountAndTimeAreUsedUp(t *testing.T) {
	for name, row := range map[string]struct {
		options Options
		errno   syscall.Errno
		tries   int // at least
		time    time.Duration
		typed   bool
	}{
		"by default":                {Options{}, syscall.ECANCELED, 1000, DefaultRetryTime, true},
		"the time is longer":        {Options{Retries: 5, RetryTime: 100 * time.Millisecond}, syscall.ECANCELED, 15, 100 * time.Millisecond, true},
		"the count is longer":       {Options{Retries: 500, RetryTime: time.Millisecond}, syscall.ECANCELED, 501, time.Second, true},
		"the count alone":           {Options{Retries: 20, RetryTime: -1}, syscall.ECANCELED, 21, 0, true},
		"another reason":            {Options{Retries: 20, RetryTime: -1}, syscall.EAGAIN, 21, 0, false},
		"too few to know the cause": {Options{Retries: 1, RetryTime: -1}, syscall.ECANCELED, 2, 0, false},
		"never again":               {Options{Retries: -1}, syscall.ECANCELED, 1, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			f, clock := newFakeKernel(t), newFakeClock()
			f.answer = func(sqe, int) int32 { return -int32(row.errno) }
			r := f.mustOpen(clock.on(row.options))
			defer closeRing(t, r)
			op := &device.Op{Kind: device.WriteDsync, File: &fakeFile{}, Buf: make([]byte, 8), Pos: 32}
			r.Submit(op)
			for ended := false; !ended; {
				select {
				case <-op.Done():
					ended = true
				case <-clock.armed:
					clock.armed <- struct{}{}
					clock.fire()
				}
			}
			var waited time.Duration
			for _, p := range clock.pauses() {
				waited += p
			}
			if op.Pieces < row.tries || waited < row.time || waited > row.time+time.Second+5*time.Second {
				t.Errorf("%d tries in %v, want %d in %v", op.Pieces, waited, row.tries, row.time)
			}
			if !errors.Is(op.Err, row.errno) || device.ClassOf(op.Err) != device.ClassIO {
				t.Errorf("got %v", op.Err)
			}
			var starved *WorkerError
			if errors.As(op.Err, &starved) != row.typed {
				t.Fatalf("got %v", op.Err)
			}
			if row.typed && (starved.Tries != op.Pieces || starved.For != waited || !strings.Contains(op.Err.Error(), "ulimit -u")) {
				t.Errorf("got %v after %d tries in %v", op.Err, op.Pieces, waited)
			}
		})
	}
}

// TestALostRingFailsWhatWaitsToBeTriedAgain: and a timer that fires later does no harm.
func TestALostRingFailsWhatWaitsToBeTriedAgain(t *testing.T) {
	f, clock := newFakeKernel(t), newFakeClock()
	var starved atomic.Bool
	starved.Store(true)
	f.noWorkers(&starved)
	r := f.mustOpen(clock.on(Options{}))
	waits := &device.Op{Kind: device.Flush, File: &fakeFile{}}
	r.Submit(waits)
	clock.await()
	f.broken.Store(true)
	other := &device.Op{File: &fakeFile{}, Buf: make([]byte, 8)}
	r.Submit(other)
	wantLost(t, r, syscall.EBADF, waits, other)
	clock.fire()
}
