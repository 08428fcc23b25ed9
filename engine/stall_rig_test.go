package engine_test

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/fallback"
	"felix.local/felix/uring"
)

// hangingQueue is a real backend in which chosen operations hang: what it is given
// in their place is a write into a full pipe, which stays in the kernel, in a slot
// or on a worker, until somebody reads. Then the operation itself is carried out.
type hangingQueue struct {
	device.Queue
	pipe  *fullPipe
	which atomic.Pointer[func(*device.Op) bool]
	// reached is closed when the first one begins to hang.
	reached chan struct{}
	first   sync.Once
}

// newHangingQueue opens a ring, or a pool, that a store may use until the test
// ends.
func newHangingQueue(t testing.TB, mode engine.IOURingMode) *hangingQueue {
	t.Helper()
	q := &hangingQueue{pipe: newFullPipe(t), reached: make(chan struct{})}
	if mode == engine.IOURingOff {
		q.Queue = fallback.Open(fallback.Options{Workers: 8})
	} else {
		needRing(t)
		ring, err := uring.Open(uring.Options{Entries: 32})
		if err != nil {
			t.Fatal(err)
		}
		q.Queue = ring
	}
	t.Cleanup(func() {
		q.release()
		if err := q.Close(); err != nil {
			t.Error(err)
		}
		q.pipe.close()
	})
	return q
}

// hang makes operations hang from now on, until release.
func (q *hangingQueue) hang(which func(*device.Op) bool) { q.which.Store(&which) }

func (q *hangingQueue) release() {
	q.which.Store(nil)
	q.pipe.drain()
}

func (q *hangingQueue) Submit(ops ...*device.Op) {
	var pass []*device.Op
	for _, op := range ops {
		if which := q.which.Load(); which == nil || !(*which)(op) {
			pass = append(pass, op)
			continue
		}
		op.Prepare()
		stuck := &device.Op{Kind: device.Write, File: q.pipe, Buf: []byte{0}}
		q.Queue.Submit(stuck)
		q.first.Do(func() { close(q.reached) })
		go func() {
			err := stuck.Wait()
			real := device.Op{Kind: op.Kind, File: op.File, Buf: op.Buf, Pos: op.Pos, Len: op.Len}
			if err == nil {
				err = device.Do(q.Queue, &real)
			}
			op.Pieces = real.Pieces
			op.Complete(real.N, err)
		}()
	}
	q.Queue.Submit(pass...)
}

// fullPipe is a file whose writes wait in the kernel until it is drained.
type fullPipe struct {
	device.File // nothing but writing is asked of it
	t           testing.TB
	read, write int
	once        sync.Once
	drained     chan struct{}
}

func newFullPipe(t testing.TB) *fullPipe {
	t.Helper()
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	p := &fullPipe{t: t, read: ends[0], write: ends[1], drained: make(chan struct{})}
	room, err := unix.FcntlInt(uintptr(p.write), unix.F_SETPIPE_SZ, 4096)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Write(p.write, make([]byte, room)); n != room || err != nil {
		t.Fatalf("%d bytes of %d fill a pipe: %v", n, room, err)
	}
	return p
}

func (p *fullPipe) Name() string { return "full pipe" }
func (p *fullPipe) FD() int      { return p.write }

func (p *fullPipe) Perform(op *device.Op) (int, error) { return unix.Write(p.write, op.Buf) }

// drain lets every write end, those to come too.
func (p *fullPipe) drain() {
	p.once.Do(func() {
		go func() {
			defer close(p.drained)
			for b := make([]byte, 4096); ; {
				if n, err := unix.Read(p.read, b); n == 0 || err != nil && err != unix.EINTR {
					return
				}
			}
		}()
	})
}

// close is for when nobody writes any more.
func (p *fullPipe) close() {
	p.drain()
	if err := unix.Close(p.write); err != nil {
		p.t.Error(err)
	}
	<-p.drained
	if err := unix.Close(p.read); err != nil {
		p.t.Error(err)
	}
}

// opsOn matches operations of these kinds on the segments of one log.
func opsOn(l *engine.Log, kinds ...device.Kind) func(*device.Op) bool {
	return func(op *device.Op) bool {
		name := op.File.Name()
		if filepath.Dir(name) != l.Dir() || !isLog(name) {
			return false
		}
		for _, kind := range kinds {
			if op.Kind == kind {
				return true
			}
		}
		return false
	}
}

// patience is a context that says when somebody begins to wait for its end: in
// an append, when there is no staging memory left, or when its outcome is waited
// for.
type patience struct {
	context.Context
	once    sync.Once
	waiting chan struct{}
}

func newPatience(ctx context.Context) *patience {
	return &patience{Context: ctx, waiting: make(chan struct{})}
}

func (p *patience) Done() <-chan struct{} {
	p.once.Do(func() { close(p.waiting) })
	return p.Context.Done()
}
