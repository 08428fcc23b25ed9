package httpapi

import (
	"context"
	"slices"
	"sync"
)

// budget bounds the bytes that all requests of a kind hold together, and how many of
// them are one client's, so that no client holds all of them with slow connections.
type budget struct {
	name string
	// max bounds all, share what one client has of them.
	max, share int64

	mu struct {
		sync.Mutex
		used    int64
		clients map[string]int64
		waiting []*waiter // in the order in which they came
		// short says that one of them lacks room, and not only in its client's share.
		short bool
	}
}

// waiter waits for bytes.
type waiter struct {
	client  string
	n       int64
	granted chan struct{} // closed when it has them
}

func newBudget(name string, max, share int64) *budget {
	b := &budget{name: name, max: max, share: share}
	b.mu.clients = make(map[string]int64)
	return b
}

// held is what is taken now.
func (b *budget) held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.used
}

// take reserves n bytes for a client beside the own ones that the request has, or
// reports that there is no room: it never waits, so that a request is answered 429 and
// the client waits instead. Where nobody else holds any, n may be beyond a bound: one
// record or body may be larger. Who waits comes before who begins.
func (b *budget) take(client string, own, n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.roomLocked(own, n) || own == 0 && b.mu.short {
		return &crowdedError{what: b.name, max: b.max}
	}
	if !b.roomForLocked(client, own, n) {
		return &crowdedError{what: b.name + " of one client", max: b.share}
	}
	b.addLocked(client, n)
	return nil
}

// wait reserves n bytes as soon as there is room for them. Its caller holds none: those
// who do never wait, so that there is always an end to it.
func (b *budget) wait(ctx context.Context, client string, n int64) error {
	w := &waiter{client: client, n: n, granted: make(chan struct{})}
	b.mu.Lock()
	b.mu.waiting = append(b.mu.waiting, w)
	b.grantLocked()
	b.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if at := slices.Index(b.mu.waiting, w); at >= 0 {
		b.mu.waiting = slices.Delete(b.mu.waiting, at, at+1)
	} else {
		b.addLocked(client, -n) // it came at the same time
	}
	b.grantLocked()
	return ctx.Err()
}

// give gives n bytes of a client back.
func (b *budget) give(client string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addLocked(client, -n)
	b.grantLocked()
}

// grantLocked lets those through that there is room for. One whose client holds its
// share already holds nobody else up.
func (b *budget) grantLocked() {
	b.mu.short = false
	for at := 0; at < len(b.mu.waiting); {
		w := b.mu.waiting[at]
		if !b.roomLocked(0, w.n) {
			b.mu.short = true
			return
		}
		if !b.roomForLocked(w.client, 0, w.n) {
			at++
			continue
		}
		b.mu.waiting = slices.Delete(b.mu.waiting, at, at+1)
		b.addLocked(w.client, w.n)
		close(w.granted)
	}
}

func (b *budget) roomLocked(own, n int64) bool {
	return n == 0 || b.mu.used == own || b.mu.used+n <= b.max
}

func (b *budget) roomForLocked(client string, own, n int64) bool {
	has := b.mu.clients[client]
	return n == 0 || has == own || has+n <= b.share
}

func (b *budget) addLocked(client string, n int64) {
	b.mu.used += n
	has := b.mu.clients[client] + n
	if b.mu.used < 0 || has < 0 {
		panic("httpapi: more bytes of " + b.name + " given back than were taken")
	}
	if has == 0 {
		delete(b.mu.clients, client)
		return
	}
	b.mu.clients[client] = has
}
