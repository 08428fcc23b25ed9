package simdisk

import (
	"time"

	"felix.local/felix/device"
)

// job is one operation in a queue.
type job struct {
	id uint64 // by which a test names it, from 1 in the order of taking up
	op *device.Op
	// flight is nil when the operation was refused, with err.
	flight *flight
	err    error
	// settled says that the device is done with it; its completion may come much
	// later, and others may overtake it.
	settled bool
	// due is when the next piece lands, or, without pieces left, when it settles
	// or, settled, when it completes.
	due    time.Duration
	pieces []int
	rand   *Rand
	// landed is what a test is told, under Queue.mu.
	landed int64
}

// begin issues an operation.
func (q *Queue) begin(op *device.Op) *job {
	j := &job{op: op}
	f, ok := fileOf(op.File)
	if !ok {
		panic("simdisk: " + op.File.Name() + " is no file of a simulated disk")
	}
	if f.disk != q.disk {
		panic("simdisk: " + op.File.Name() + " is a file of another disk")
	}
	j.flight, j.err = q.disk.issue(f, op)
	return j
}

func (j *job) buf() []byte {
	if j.flight == nil {
		return nil
	}
	return j.flight.buf
}

// left is how many bytes are still to land.
func (j *job) left() int {
	if j.flight == nil {
		return 0
	}
	return len(j.flight.buf) - j.flight.landed
}

// advance lands the next n bytes.
func (q *Queue) advance(j *job, n int) {
	if n == 0 || j.flight == nil {
		return
	}
	q.disk.land(j.flight, n)
	j.op.Pieces++
	q.mu.Lock()
	defer q.mu.Unlock()
	j.landed += int64(n)
}

// settle ends an operation on the disk.
func (q *Queue) settle(j *job) {
	if j.settled {
		return
	}
	j.settled = true
	if j.flight != nil {
		j.err = q.disk.settle(j.flight)
	}
}

// finish settles an operation and hands its result over.
func (q *Queue) finish(j *job) {
	q.settle(j)
	n := 0
	if j.flight != nil && j.err == nil {
		n = j.flight.landed
	}
	j.op.Pieces = max(1, j.op.Pieces)
	q.mu.Lock()
	q.mu.stats.Ops[j.op.Kind]++
	if j.err != nil {
		q.mu.stats.Errors[j.op.Kind]++
	}
	q.mu.Unlock()
	j.op.Complete(n, j.err)
}
