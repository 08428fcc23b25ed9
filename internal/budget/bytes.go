package budget

import (
	"container/list"
	"context"
	"sync"
)

// Bytes bounds bytes in use. Waiters are served in the order they came, so that a large
// request is not starved by small ones. A request above all there is is admitted alone:
// it waits until nothing else is in use.
type Bytes struct {
	max int64
	mu  struct {
		sync.Mutex
		used    int64
		waiters list.List // of *waiter
	}
}

type waiter struct {
	n     int64
	ready chan struct{}
}

// NewBytes gives a budget of so many bytes.
func NewBytes(max int64) *Bytes { return &Bytes{max: max} }

// Max returns how many bytes there are in all.
func (b *Bytes) Max() int64 { return b.max }

// Take reserves n bytes, waiting for room until ctx ends, whose error it returns then.
// It returns what to give back.
func (b *Bytes) Take(ctx context.Context, n int64) (int64, error) {
	n = min(n, b.max)
	b.mu.Lock()
	if b.takeLocked(n) {
		b.mu.Unlock()
		return n, nil
	}
	w := &waiter{n: n, ready: make(chan struct{})}
	place := b.mu.waiters.PushBack(w)
	b.mu.Unlock()
	select {
	case <-w.ready:
		return n, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.ready:
		// Granted while the context ended; hand it on.
		b.mu.used -= n
	default:
		b.mu.waiters.Remove(place)
	}
	b.grantLocked()
	return 0, ctx.Err()
}

// TryTake reserves n bytes if they are free and nobody waits for some.
func (b *Bytes) TryTake(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.takeLocked(n)
}

func (b *Bytes) takeLocked(n int64) bool {
	if b.mu.waiters.Len() > 0 || b.mu.used+n > b.max {
		return false
	}
	b.mu.used += n
	return true
}

// Add accounts for n bytes that are there already, even above the bound.
func (b *Bytes) Add(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.used += n
}

// Give returns n reserved bytes. To return more than was taken is a fault of the caller,
// and panics.
func (b *Bytes) Give(n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.used -= n
	if b.mu.used < 0 {
		panic("budget: more bytes given back than were taken")
	}
	b.grantLocked()
}

func (b *Bytes) grantLocked() {
	for first := b.mu.waiters.Front(); first != nil; first = b.mu.waiters.Front() {
		w := first.Value.(*waiter)
		if b.mu.used+w.n > b.max {
			return
		}
		b.mu.used += w.n
		b.mu.waiters.Remove(first)
		close(w.ready)
	}
}

// Used returns the bytes in use now.
func (b *Bytes) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.used
}
