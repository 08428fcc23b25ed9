package simdisk

import (
	"errors"
	"sync"

	"felix.local/felix/device"
)

// recordedOp is a data-path operation on its way through a Recorder. What goes
// to the real disk is a shadow of the caller's op, so that the caller's completes
// only when the model has followed.
type recordedOp struct {
	model  *Disk
	flight *flight // nil when the model does not follow this one
	shadow device.Op
}

// begin issues the operation in the model.
func (r *Recorder) begin(f *recordedFile, op *device.Op) *recordedOp {
	c := &recordedOp{model: r.model}
	c.shadow.Kind, c.shadow.File = op.Kind, op.File
	c.shadow.Buf, c.shadow.Pos, c.shadow.Len = op.Buf, op.Pos, op.Len
	if f == nil {
		return c
	}
	c.shadow.File = f.inner
	if f.model != nil {
		// What the model refuses the disk will refuse, too.
		c.flight, _ = r.model.issue(f.model, &c.shadow)
	}
	return c
}

// end lets the model follow a result. A dsync write that took several pieces made
// nothing durable, since nobody knows where they met.
func (c *recordedOp) end(n int, err error) {
	if c.flight == nil {
		return
	}
	c.model.land(c.flight, n)
	switch {
	case err != nil && c.flight.capture != nil:
		c.model.fail(c.flight)
	case err != nil, c.flight.kind == device.WriteDsync && c.shadow.Pieces > 1:
		c.model.abandon(c.flight)
	default:
		_ = c.model.settle(c.flight) // the model has no faults of its own
	}
}

// fail ends a flush that failed on the real disk: what it was to write counts as
// clean.
func (d *Disk) fail(fl *flight) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.mu.flights, fl)
	_ = d.failFlushLocked(fl, &syncFault{})
	fl.file.inode.release()
}

// recordedQueue is the queue of a Recorder.
type recordedQueue struct {
	recorder *Recorder
	inner    device.Queue
	running  sync.WaitGroup

	mu struct {
		sync.Mutex
		closed bool
	}
}

var _ device.Queue = (*recordedQueue)(nil)

// Submit passes the operations on in one call.
func (q *recordedQueue) Submit(ops ...*device.Op) {
	for _, op := range ops {
		op.Prepare()
	}
	if !q.enter(len(ops)) {
		for _, op := range ops {
			op.Complete(0, device.NewError(op.Kind.String(), op.File.Name(), -1, device.ErrQueueClosed))
		}
		return
	}
	recorded := make([]*recordedOp, len(ops))
	shadows := make([]*device.Op, len(ops))
	for i, op := range ops {
		recorded[i] = q.recorder.begin(recordedOf(op.File), op)
		shadows[i] = &recorded[i].shadow
	}
	q.inner.Submit(shadows...)
	for i, op := range ops {
		go q.finish(op, recorded[i])
	}
}

func (q *recordedQueue) enter(n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.closed {
		return false
	}
	q.running.Add(n)
	return true
}

func (q *recordedQueue) finish(op *device.Op, c *recordedOp) {
	defer q.running.Done()
	err := c.shadow.Wait()
	c.end(c.shadow.N, err)
	op.Pieces = c.shadow.Pieces
	op.Complete(c.shadow.N, err)
}

// Stats are the wrapped queue's.
func (q *recordedQueue) Stats() device.QueueStats { return q.inner.Stats() }

// Close waits for every operation, then closes the wrapped queue.
func (q *recordedQueue) Close() error {
	q.mu.Lock()
	if q.mu.closed {
		q.mu.Unlock()
		return errors.New("simdisk: the queue is closed already")
	}
	q.mu.closed = true
	q.mu.Unlock()
	q.running.Wait()
	return q.inner.Close()
}
