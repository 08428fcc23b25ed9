package faultdisk

import (
	"errors"
	"sync"

	"felix.local/felix/device"
)

// Queue is the device.Queue of a Disk.
type Queue struct {
	disk    *Disk
	inner   device.Queue
	running sync.WaitGroup

	mu struct {
		sync.Mutex
		closed bool
		// ops that failed without the wrapped queue seeing a failure, and those
		// of them that it did not see at all
		failed, unseen [device.KindCount]uint64
	}
}

// Submit passes on, in one call, what no fault hits; the rest goes its own ways.
func (q *Queue) Submit(ops ...*device.Op) {
	for _, op := range ops {
		op.Prepare()
	}
	if !q.enter(len(ops)) {
		for _, op := range ops {
			op.Complete(0, device.NewError(op.Kind.String(), op.File.Name(), -1, device.ErrQueueClosed))
		}
		return
	}
	carried := make([]*carried, len(ops))
	var pass []*device.Op
	for i, op := range ops {
		carried[i] = q.disk.carry(op)
		if carried[i].hit == nil {
			pass = append(pass, &carried[i].shadow)
		}
	}
	q.inner.Submit(pass...)
	for i, op := range ops {
		go q.finish(op, carried[i])
	}
}

func (q *Queue) enter(n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.closed {
		return false
	}
	q.running.Add(n)
	return true
}

// finish sees one op through to its completion.
func (q *Queue) finish(op *device.Op, c *carried) {
	defer q.running.Done()
	reached := false
	n, err := c.run(func(shadow *device.Op) (int, error) {
		reached = true
		if c.hit != nil {
			q.inner.Submit(shadow)
		}
		err := shadow.Wait()
		return shadow.N, err
	})
	if err != nil && (!reached || c.shadow.Err == nil) {
		q.countFailure(op.Kind, reached)
	}
	op.Pieces = c.shadow.Pieces
	op.Complete(n, err)
}

func (q *Queue) countFailure(kind device.Kind, seen bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.failed[kind]++
	if !seen {
		q.mu.unseen[kind]++
	}
}

// Stats are the wrapped queue's, with the failures that were put in.
func (q *Queue) Stats() device.QueueStats {
	s := q.inner.Stats()
	q.mu.Lock()
	defer q.mu.Unlock()
	for kind := range s.Ops {
		s.Ops[kind] += q.mu.unseen[kind]
		s.Errors[kind] += q.mu.failed[kind]
	}
	return s
}

// Close waits for every op, then closes the wrapped queue.
func (q *Queue) Close() error {
	q.mu.Lock()
	if q.mu.closed {
		q.mu.Unlock()
		return errors.New("faultdisk: the queue is closed already")
	}
	q.mu.closed = true
	q.mu.Unlock()
	q.running.Wait()
	return q.inner.Close()
}
