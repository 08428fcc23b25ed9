package engine

import (
	"container/list"
	"context"
	"sync"
)

// budget bounds bytes in use. Waiters are served in order, so that a large
// request is not starved by small ones. A request above the whole budget is
// admitted alone: it waits until nothing else is in use.
type budget struct {
	max int64
	mu  struct {
		sync.Mutex
		used    int64
		waiters list.List // of *budgetWaiter
	}
}

type budgetWaiter struct {
	n     int64
	ready chan struct{}
}

func newBudget(max int64) *budget { return &budget{max: max} }

// take reserves n bytes, waiting for room until ctx ends. It returns what to
// give back.
func (b *budget) take(ctx context.Context, n int64) (int64, error) {
	n = min(n, b.max)
	b.mu.Lock()
	if b.mu.waiters.Len() == 0 && b.mu.used+n <= b.max {
		b.mu.used += n
		b.mu.Unlock()
		return n, nil
	}
	w := &budgetWaiter{n: n, ready: make(chan struct{})}
	place := b.mu.waiters.PushBack(w)
	b.mu.Unlock()
	select {
	case <-w.ready:
		return n, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	select {
	case <-w.ready:
		// Granted while the context ended; hand it on.
		b.mu.used -= n
	default:
		b.mu.waiters.Remove(place)
	}
	b.grantLocked()
	b.mu.Unlock()
	return 0, ctx.Err()
}

// give returns n reserved bytes.
func (b *budget) give(n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	b.mu.used -= n
	if b.mu.used < 0 {
		panic("engine: more staging bytes returned than taken")
	}
	b.grantLocked()
	b.mu.Unlock()
}

func (b *budget) grantLocked() {
	for e := b.mu.waiters.Front(); e != nil; e = b.mu.waiters.Front() {
		w := e.Value.(*budgetWaiter)
		if b.mu.used+w.n > b.max {
			return
		}
		b.mu.used += w.n
		b.mu.waiters.Remove(e)
		close(w.ready)
	}
}

// inUse returns the bytes reserved now.
func (b *budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.used
}
