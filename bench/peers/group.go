package main

import (
	"context"
	"runtime"
	"slices"
	"sync"
)

// committer is a group commit: while one group is being written, later requests gather in
// the next. Whoever finds nobody writing leads, and hands the lead to the first of the
// next group, so that no publisher serves the others for long.
type committer[T any] struct {
	// write makes all of a group durable, in order. It is called by one goroutine at a time.
	write func(ctx context.Context, requests []T) error

	mu struct {
		sync.Mutex
		waiting []*member[T]
		busy    bool
	}
}

// member is a request that waits. It is told once that it leads, or that it is done.
type member[T any] struct {
	request T
	told    chan verdict
}

type verdict struct {
	lead bool
	err  error
}

// commit returns when the group that holds the request is written.
func (c *committer[T]) commit(ctx context.Context, request T) error {
	m := &member[T]{request: request, told: make(chan verdict, 1)}
	c.mu.Lock()
	c.mu.waiting = append(c.mu.waiting, m)
	leads := !c.mu.busy
	c.mu.busy = true
	c.mu.Unlock()
	if !leads {
		if v := <-m.told; !v.lead {
			return v.err
		}
	}
	return c.lead(ctx, m)
}

// lead writes all that wait, itself among them.
func (c *committer[T]) lead(ctx context.Context, self *member[T]) error {
	members := c.gather()
	requests := make([]T, len(members))
	for i, m := range members {
		requests[i] = m.request
	}
	err := c.write(ctx, requests)
	for _, m := range members {
		if m != self {
			m.told <- verdict{err: err}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.waiting) > 0 {
		c.mu.waiting[0].told <- verdict{lead: true}
	} else {
		c.mu.busy = false
	}
	return err
}

// gather yields for as long as others come, and takes them all: publishers of the
// former group are back within microseconds, and starting without them would make two
// half groups of one.
func (c *committer[T]) gather() []*member[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	for seen := 0; len(c.mu.waiting) > seen; {
		seen = len(c.mu.waiting)
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
	members := c.mu.waiting
	c.mu.waiting = nil
	return members
}

// grouped is a log with a group commit around its writer.
type grouped struct {
	writer
	committer[[][]byte]
}

func group(w writer) log {
	g := &grouped{writer: w}
	g.committer.write = func(ctx context.Context, requests [][][]byte) error {
		return w.write(ctx, slices.Concat(requests...))
	}
	return g
}

// Append waits for the group.
func (g *grouped) Append(ctx context.Context, payloads [][]byte) error {
	return g.commit(ctx, payloads)
}
