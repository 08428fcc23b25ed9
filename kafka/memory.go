package kafka

import (
	"container/list"
	"context"
	"sync"
)

// memory bounds what requests and responses of all connections hold together, in
// bytes. Waiters are served in the order they came, so that a large request is not
// starved by small ones.
type memory struct {
	max int64
	mu  struct {
		sync.Mutex
		used    int64
		waiters list.List // of *memoryWaiter
	}
}

type memoryWaiter struct {
	bytes int64
	ready chan struct{}
}

func newMemory(max int64) *memory { return &memory{max: max} }

// take waits for n bytes; more than there is in all is taken as all there is. It
// gives what has to be given back.
func (m *memory) take(ctx context.Context, n int64) (int64, error) {
	n = min(n, m.max)
	m.mu.Lock()
	if m.mu.used+n <= m.max && m.mu.waiters.Len() == 0 {
		m.mu.used += n
		m.mu.Unlock()
		return n, nil
	}
	w := &memoryWaiter{bytes: n, ready: make(chan struct{})}
	place := m.mu.waiters.PushBack(w)
	m.mu.Unlock()
	select {
	case <-w.ready:
		return n, nil
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-w.ready:
		m.mu.used -= n
	default:
		m.mu.waiters.Remove(place)
	}
	m.wakeLocked()
	return 0, ctx.Err()
}

// tryTake takes n bytes if they are free now.
func (m *memory) tryTake(n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.used+n > m.max || m.mu.waiters.Len() > 0 {
		return false
	}
	m.mu.used += n
	return true
}

// give returns n bytes.
func (m *memory) give(n int64) {
	if n == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.used -= n
	if m.mu.used < 0 {
		panic("kafka: more memory was given back than taken")
	}
	m.wakeLocked()
}

// used is how many bytes are taken now.
func (m *memory) used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.used
}

func (m *memory) wakeLocked() {
	for first := m.mu.waiters.Front(); first != nil; first = m.mu.waiters.Front() {
		w := first.Value.(*memoryWaiter)
		if m.mu.used+w.bytes > m.max {
			return
		}
		m.mu.used += w.bytes
		m.mu.waiters.Remove(first)
		close(w.ready)
	}
}

// add accounts for bytes that are there already, even above the bound.
func (m *memory) add(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.used += n
}
