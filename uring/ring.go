package uring

import (
	"errors"
	"sync/atomic"
	"syscall"
	"time"

	"felix.local/felix/device"
)

// Ring is a device.Queue on one io_uring.
type Ring struct {
	info   Info
	opened time.Time
	bell   bell
	slots  *slots // Ring reads since only; the rest is the loop's

	// arrivals is a stack of submitted operations, newest first, linked by
	// Op.Link. Producers push, the loop takes all of it.
	arrivals atomic.Pointer[device.Op]
	closing  atomic.Bool
	// laterDue is set by a timer: the operations that wait are to go out again.
	laterDue atomic.Bool
	// ended is set once the loop takes no more operations; whoever pushed
	// too late completes them itself.
	ended atomic.Pointer[ending]
	// finished is closed when the loop completed its last operation.
	finished chan struct{}

	counters counters
}

// ending says why the loop takes no more operations.
type ending struct {
	lost     *LostError // nil after Close
	closeErr error
}

// counters are written by the loop and by producers, read by Stats.
type counters struct {
	ops, errors                 [device.KindCount]atomic.Uint64
	enters, submitEnters, taken atomic.Uint64
	short, again, canceled      atomic.Uint64
	queued                      atomic.Int64
	inFlight                    atomic.Int64
}

func start(d driver, o Options, info Info) (*Ring, syscall.Errno) {
	r := &Ring{info: info, opened: time.Now(), slots: newSlots(info.InFlightMax), finished: make(chan struct{})}
	if errno := r.bell.open(); errno != 0 {
		return nil, errno
	}
	go newLoop(r, d, o).run()
	return r, 0
}

// Info describes the ring.
func (r *Ring) Info() Info { return r.info }

// Submit implements device.Queue.
func (r *Ring) Submit(ops ...*device.Op) {
	if len(ops) == 0 {
		return
	}
	var newest *device.Op
	for _, op := range ops {
		op.Prepare()
		op.Link, newest = newest, op
	}
	r.counters.queued.Add(int64(len(ops)))
	if r.closing.Load() || r.ended.Load() != nil {
		r.refuse(newest)
		return
	}
	r.deliver(ops[0], newest)
}

// deliver pushes a chain of operations and makes the loop see it.
func (r *Ring) deliver(oldest, newest *device.Op) {
	for {
		top := r.arrivals.Load()
		oldest.Link = top
		if r.arrivals.CompareAndSwap(top, newest) {
			break
		}
	}
	if r.ended.Load() != nil {
		// The loop may have taken its last look before the push.
		r.refuse(r.arrivals.Swap(nil))
		return
	}
	r.bell.ring()
}

// refuse completes a chain of operations that were never issued.
func (r *Ring) refuse(chain *device.Op) {
	for chain != nil {
		op := chain
		chain, op.Link = op.Link, nil
		r.counters.queued.Add(-1)
		if end := r.ended.Load(); end != nil && end.lost != nil {
			r.complete(op, 0, unknownOutcome(op, end.lost))
		} else {
			r.complete(op, 0, failure(op, 0, device.ErrQueueClosed))
		}
	}
}

// complete counts a result and hands it over.
func (r *Ring) complete(op *device.Op, n int, err error) {
	if op.Kind < device.KindCount {
		r.counters.ops[op.Kind].Add(1)
		if err != nil {
			r.counters.errors[op.Kind].Add(1)
		}
	}
	op.Complete(n, err)
}

// failure describes err for op, n bytes into it.
func failure(op *device.Op, n int, err error) error {
	pos := int64(-1)
	if hasPosition(op.Kind) {
		pos = op.Pos + int64(n)
	}
	return device.NewError(op.Kind.String(), nameOf(op), pos, err)
}

// unknownOutcome is what op completes with when the ring is lost. The class is set
// here, because the cause's errno would be taken for the device's answer.
func unknownOutcome(op *device.Op, lost *LostError) error {
	return &device.Error{
		Op: op.Kind.String(), Path: nameOf(op), Pos: -1,
		Class: device.ClassOutcomeUnknown, Err: lost,
	}
}

func nameOf(op *device.Op) string {
	if op.File == nil {
		return "no file"
	}
	return op.File.Name()
}

// Stats implements device.Queue.
func (r *Ring) Stats() device.QueueStats {
	c := &r.counters
	s := device.QueueStats{
		Backend: "ring", Driver: r.info.Driver,
		Enters: c.enters.Load(), EnterOps: c.taken.Load(),
		ResubmitShort: c.short.Load(), ResubmitAgain: c.again.Load(), ResubmitCanceled: c.canceled.Load(),
		Wakeups:  r.bell.rung.Load(),
		InFlight: int(c.inFlight.Load()), Queued: int(c.queued.Load()), InFlightMax: r.info.InFlightMax,
	}
	for k := range s.Ops {
		s.Ops[k], s.Errors[k] = c.ops[k].Load(), c.errors[k].Load()
	}
	// Operations are issued in the order they came, so the oldest of all is
	// among those in flight.
	now := int64(time.Since(r.opened))
	for i := range r.slots.since {
		if since := r.slots.since[i].Load(); since != 0 {
			s.OldestAge = max(s.OldestAge, time.Duration(now-since+1))
		}
	}
	if end := r.ended.Load(); end != nil && end.lost != nil {
		s.Lost = end.lost
	}
	return s
}

// Close implements device.Queue. After a lost ring it returns the *LostError and
// releases nothing.
func (r *Ring) Close() error {
	if !r.closing.CompareAndSwap(false, true) {
		return errors.New("uring: the ring was closed twice")
	}
	r.bell.ring()
	<-r.finished
	end := r.ended.Load()
	if end.lost != nil {
		return end.lost
	}
	return end.closeErr
}
