package simdisk

import (
	"context"
	"fmt"

	"felix.local/felix/device"
)

// PendingOp is an operation under way, as a test sees it in step mode.
type PendingOp struct {
	// ID names it in Step and Land.
	ID   uint64
	Kind device.Kind
	Path string
	// Pos and Len are bytes; Landed of them are in the page cache.
	Pos, Len, Landed int64
}

// Pending lists the operations under way, oldest first.
func (q *Queue) Pending() []PendingOp {
	q.mu.Lock()
	defer q.mu.Unlock()
	pending, _ := q.pendingLocked()
	return pending
}

func (q *Queue) pendingLocked() ([]PendingOp, chan struct{}) {
	pending := make([]PendingOp, len(q.mu.window))
	for i, j := range q.mu.window {
		n := int64(len(j.op.Buf))
		if j.op.Kind == device.Allocate {
			n = j.op.Len
		}
		pending[i] = PendingOp{ID: j.id, Kind: j.op.Kind, Path: j.op.File.Name(), Pos: j.op.Pos, Len: n, Landed: j.landed}
	}
	if q.mu.changed == nil {
		q.mu.changed = make(chan struct{})
	}
	return pending, q.mu.changed
}

// Await waits until an operation is under way that want accepts, and gives the
// oldest such. Step mode only.
func (q *Queue) Await(ctx context.Context, want func(PendingOp) bool) (PendingOp, error) {
	for {
		q.mu.Lock()
		pending, changed := q.pendingLocked()
		q.mu.Unlock()
		for _, op := range pending {
			if want(op) {
				return op, nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return PendingOp{}, fmt.Errorf("simdisk: no such operation among %d under way: %w", len(pending), ctx.Err())
		}
	}
}

// Step lands what is left of an operation and completes it. It panics when there
// is no such operation. Step mode only.
func (q *Queue) Step(id uint64) {
	j := q.pick(id)
	q.advance(j, j.left())
	q.remove(j)
	q.finish(j)
}

// Land puts the next n bytes of a write into the page cache and leaves it under
// way. Step mode only.
func (q *Queue) Land(id uint64, n int) {
	j := q.pick(id)
	q.advance(j, min(n, j.left()))
}

// Settle lets the device be done with an operation, with all that is durable or
// lost by it, and keeps the completion back until Step. Step mode only.
func (q *Queue) Settle(id uint64) {
	j := q.pick(id)
	q.advance(j, j.left())
	q.settle(j)
}

func (q *Queue) pick(id uint64) *job {
	if q.options.Mode != Stepped {
		panic("simdisk: only a queue in step mode can be stepped")
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range q.mu.window {
		if j.id == id {
			return j
		}
	}
	panic(fmt.Sprintf("simdisk: operation %d is not under way", id))
}
