package fallback_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/fallback"
)

// slowFile is a file whose ops run until they are let go.
type slowFile struct {
	device.File
	started chan *device.Op
	let     chan struct{}
}

func newSlowFile() *slowFile {
	return &slowFile{started: make(chan *device.Op, 1000), let: make(chan struct{})}
}

func (f *slowFile) Name() string { return "slow" }

func (f *slowFile) Perform(op *device.Op) (int, error) {
	f.started <- op
	<-f.let
	return len(op.Buf), nil
}

// clock is an idle period that ends when a test says so.
type clock struct {
	mu    sync.Mutex
	end   func()
	armed bool
}

func (c *clock) after(_ time.Duration, f func()) fallback.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end, c.armed = f, true
	return c
}

func (c *clock) Reset(time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = true
	return false
}
func (c *clock) Stop() bool { c.mu.Lock(); defer c.mu.Unlock(); c.armed = false; return true }

// periodEnds ends one idle period, and reports whether one was running.
func (c *clock) periodEnds() bool {
	c.mu.Lock()
	armed, end := c.armed, c.end
	c.armed = false
	c.mu.Unlock()
	if armed {
		end()
	}
	return armed
}

func submit(p *fallback.Pool, f device.File, n int) []*device.Op {
	ops := make([]*device.Op, n)
	for i := range ops {
		ops[i] = &device.Op{Kind: device.Write, File: f, Pos: int64(i)}
	}
	p.Submit(ops...)
	return ops
}

func wait(t *testing.T, ops []*device.Op) {
	t.Helper()
	for _, op := range ops {
		if err := op.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

func closePool(t *testing.T, p *fallback.Pool) {
	t.Helper()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestNoMoreOpsRunThanThereAreWorkers(t *testing.T) {
	p := fallback.Open(fallback.Options{Workers: 3})
	f := newSlowFile()
	ops := submit(p, f, 10)
	for range 3 {
		<-f.started
	}
	s := p.Stats()
	if s.InFlight != 3 || s.Queued != 7 || s.InFlightMax != 3 || s.OldestAge <= 0 || s.Backend != "pool" {
		t.Fatalf("%+v", s)
	}
	f.let <- struct{}{}
	<-f.started // the freed worker took the next op
	if s := p.Stats(); s.InFlight != 3 || s.Queued != 6 || s.Ops[device.Write] != 1 {
		t.Fatalf("%+v", s)
	}
	close(f.let)
	wait(t, ops)
	closePool(t, p)
	if s := p.Stats(); s.InFlight != 0 || s.Queued != 0 || s.OldestAge != 0 || s.Ops[device.Write] != 10 {
		t.Fatalf("%+v", s)
	}
}

func TestOpsStartInTheOrderTheyWereSubmitted(t *testing.T) {
	p := fallback.Open(fallback.Options{Workers: 1})
	f := newSlowFile()
	ops := append(submit(p, f, 5), submit(p, f, 5)...)
	close(f.let)
	wait(t, ops)
	for i, op := range ops {
		if started := <-f.started; started != op {
			t.Fatalf("op %d was not the one to start in its place", i)
		}
	}
	closePool(t, p)
}

func TestWorkersStartOnDemandAndEndWhenIdle(t *testing.T) {
	c := &clock{}
	p := fallback.Open(fallback.Options{Workers: 8, AfterFunc: c.after})
	if c.periodEnds() {
		t.Fatal("a pool without workers has a timer")
	}
	f := newSlowFile()
	ops := submit(p, f, 4)
	for range 4 {
		<-f.started
	}
	if n := p.Workers(); n != 4 {
		t.Fatalf("%d workers for 4 ops", n)
	}
	close(f.let)
	wait(t, ops)
	p.WaitIdle(4)
	c.periodEnds() // they were busy in this one
	if n := p.Workers(); n != 4 {
		t.Fatalf("%d workers left after a busy period", n)
	}
	wait(t, submit(p, f, 1)) // one worker is enough, and it is always the same
	p.WaitIdle(4)
	c.periodEnds()
	p.WaitWorkers(1)
	wait(t, submit(p, f, 1))
	p.WaitIdle(1)
	c.periodEnds()
	if n := p.Workers(); n != 1 {
		t.Fatalf("%d workers left after a busy period", n)
	}
	c.periodEnds()
	p.WaitWorkers(0)
	if c.periodEnds() {
		t.Fatal("a pool without workers has a timer")
	}
	wait(t, submit(p, f, 3)) // and it all starts again
	closePool(t, p)
	if c.periodEnds() {
		t.Fatal("a closed pool has a timer")
	}
}

func TestAWorkerSentAwayTakesAnOpThatCameMeanwhile(t *testing.T) {
	c := &clock{}
	p := fallback.Open(fallback.Options{Workers: 1, AfterFunc: c.after})
	f := newSlowFile()
	close(f.let)
	for range 500 {
		wait(t, submit(p, f, 1))
		p.WaitQuiet()
		c.periodEnds()
		c.periodEnds() // dismissed now, perhaps not gone yet
		wait(t, submit(p, f, 2))
		for range 3 {
			<-f.started
		}
	}
	closePool(t, p)
}

func TestCloseWaitsForOpsUnderWayAndInLine(t *testing.T) {
	p := fallback.Open(fallback.Options{Workers: 2})
	f := newSlowFile()
	ops := submit(p, f, 6)
	<-f.started
	closed := make(chan error)
	go func() { closed <- p.Close() }()
	for range 5 {
		select {
		case <-closed:
			t.Fatal("closed with ops under way")
		case f.let <- struct{}{}:
		}
	}
	f.let <- struct{}{}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	for i, op := range ops {
		select {
		case <-op.Done():
		default:
			t.Fatalf("op %d was not completed", i)
		}
	}
}

func TestOptionsOutOfBoundsPanic(t *testing.T) {
	for _, o := range []fallback.Options{{Workers: -1}, {Workers: fallback.WorkersMax + 1}, {IdleAfter: -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v was taken", o)
				}
			}()
			fallback.Open(o)
		}()
	}
}

func BenchmarkPoolOverhead(b *testing.B) {
	for _, submitters := range []int{1, 64} {
		b.Run(fmt.Sprintf("%d submitters", submitters), func(b *testing.B) {
			p := fallback.Open(fallback.Options{})
			defer p.Close()
			b.ReportAllocs()
			var all sync.WaitGroup
			for i := range submitters {
				n := b.N / submitters
				if i == 0 {
					n += b.N % submitters
				}
				all.Go(func() {
					op := &device.Op{Kind: device.Write, File: nullFile{}}
					for range n {
						_ = device.Do(p, op)
					}
				})
			}
			all.Wait()
		})
	}
}

// nullFile does nothing at once.
type nullFile struct{ device.File }

func (nullFile) Name() string                       { return "null" }
func (nullFile) Perform(op *device.Op) (int, error) { return len(op.Buf), nil }
