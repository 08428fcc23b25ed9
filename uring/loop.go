package uring

import (
	"errors"
	"runtime"
	"syscall"
	"time"

	"felix.local/felix/device"
)

// loop is the goroutine that owns the kernel ring. Nobody else touches its fields.
type loop struct {
	ring    *Ring
	driver  driver
	slots   *slots
	options Options

	// line holds operations that wait for a slot, oldest first.
	line, lineEnd *device.Op
	// pushed counts entries queued. The kernel takes them in order.
	pushed uint32
	// polling: the poll of the eventfd is submitted or about to be. pollPending:
	// it is about to be, as entry number pollAt. The flag falls as soon as the
	// kernel has taken the entry, because the numbers run round in 32 bits.
	polling, pollPending bool
	pollAt               uint32
	pollFailures         int
	later                later
	// refusals counts submissions in a row that the kernel had no room for.
	refusals int
	lost     *LostError

	noArrivals func() bool
	nothingNew func() bool
	reaped     func(userData uint64, res int32)
}

func newLoop(r *Ring, d driver, o Options) *loop {
	l := &loop{ring: r, driver: d, slots: r.slots, options: o}
	l.noArrivals = func() bool { return r.arrivals.Load() == nil && !r.laterDue.Load() }
	l.nothingNew = func() bool { return l.noArrivals() && !r.closing.Load() }
	l.reaped = l.settle
	return l
}

func (l *loop) run() {
	for l.lost == nil {
		if hold := l.options.Hooks.Gather; hold != nil {
			hold()
		}
		// Read before the last gathering: what was submitted before Close is
		// carried out.
		closing := l.ring.closing.Load()
		l.gather()
		l.resume()
		l.issue()
		switch {
		case l.issued() > 0:
			l.turn()
		case len(l.later.waiting) > 0:
			l.ring.bell.park(l.noArrivals)
		case closing:
			l.finish()
			return
		default:
			l.ring.bell.park(l.nothingNew)
		}
	}
	l.abandon()
}

// gather moves everything that was submitted to the end of the line.
func (l *loop) gather() {
	newest := l.ring.arrivals.Swap(nil)
	if newest == nil {
		return
	}
	var oldest *device.Op
	last := newest
	for newest != nil {
		next := newest.Link
		newest.Link, oldest = oldest, newest
		newest = next
	}
	if l.line == nil {
		l.line = oldest
	} else {
		l.lineEnd.Link = oldest
	}
	l.lineEnd = last
}

// issue gives slots to the line, as far as there are any, and queues an entry for
// each.
func (l *loop) issue() {
	for l.line != nil && len(l.slots.free) > 0 {
		op := l.line
		l.line, op.Link = op.Link, nil
		l.ring.counters.queued.Add(-1)
		l.begin(op)
	}
}

// issued counts the operations that are in the kernel or the submission queue.
func (l *loop) issued() int { return l.slots.inFlight() - len(l.later.waiting) }

// turn is one visit to the kernel: it submits all that is queued, waits for a
// completion unless one is there, and hands the completions over.
func (l *loop) turn() {
	wait := uint32(1)
	if l.driver.ready() > 0 {
		wait = 0
	}
	watching := false
	if wait > 0 && (l.line == nil || l.later.armed) {
		l.poll()
		if watching = l.ring.bell.enterKernel(l.noArrivals); !watching {
			return // submit those as well
		}
	}
	if wait > 0 || l.driver.pending() > 0 {
		l.enter(l.driver.pending(), wait)
	}
	if watching {
		l.ring.bell.leaveKernel()
	}
	l.reap()
}

// enter makes the system call and judges its answer.
func (l *loop) enter(submit, wait uint32) {
	consumed, errno := l.driver.enter(submit, wait)
	c := &l.ring.counters
	c.enters.Add(1)
	if consumed > 0 {
		c.submitEnters.Add(1)
		c.taken.Add(uint64(consumed))
	}
	if taken := l.pushed - l.driver.pending(); int32(l.pollAt-taken) <= 0 {
		l.pollPending = false
	}
	switch {
	case errno == syscall.EINTR:
		// A signal, usually the Go scheduler's own. The next turn reads from the
		// ring what is still to be submitted.
	case errno == syscall.EAGAIN, errno == syscall.EBUSY, errno == 0 && submit > 0 && consumed == 0:
		l.refused(errno)
		return
	case errno != 0:
		// EBADR: the kernel dropped a completion. The others: the ring is not what
		// this process believes. What was in flight is unknowable.
		l.lose("io_uring_enter", errno)
		return
	}
	l.refusals = 0
}

// refused deals with a kernel that had no room for a submission. Completions
// free some: reap them, or wait for the next. Without anything in the kernel
// only time helps.
func (l *loop) refused(errno syscall.Errno) {
	if l.reap() > 0 {
		l.refusals = 0
		return
	}
	if l.underWay() > 0 {
		l.ring.counters.enters.Add(1)
		switch _, errno := l.driver.enter(0, 1); errno {
		case 0:
			l.refusals = 0
			return
		case syscall.EINTR:
			return
		case syscall.EAGAIN, syscall.EBUSY:
		default:
			l.lose("io_uring_enter", errno)
			return
		}
	}
	if l.refusals++; l.refusals > l.options.EnterRetries {
		if errno == 0 {
			errno = syscall.EAGAIN
		}
		l.lose("io_uring_enter was refused too often", errno)
		return
	}
	time.Sleep(pause(l.refusals))
}

// reap hands over every completion that is there. Then it lets the woken
// producers run once, so that what they submit next goes out together: with 8
// publishers that is a tenth more operations for less CPU. After a lone operation
// there is nobody to wait for.
func (l *loop) reap() int {
	before := l.slots.inFlight()
	n := l.driver.reap(l.reaped)
	if l.driver.overflow() != 0 {
		// The queue has room for every completion there can be, so this process
		// and the kernel disagree, and somebody's result is gone.
		l.lose("completion queue", errors.New("the kernel dropped a completion"))
	}
	if before > 1 && l.slots.inFlight() < before {
		runtime.Gosched()
	}
	return n
}

// poll makes sure that the ring watches the eventfd.
func (l *loop) poll() {
	if l.polling {
		return
	}
	e := pollEntry(l.ring.bell.eventfd)
	e.userData = uint64(pollIndex)
	l.push(&e)
	l.polling, l.pollPending, l.pollAt = true, true, l.pushed
}

func (l *loop) push(e *sqe) {
	l.driver.push(e)
	l.pushed++
}

// underWay counts the operations that the kernel has taken and not completed.
func (l *loop) underWay() int {
	ops := l.issued() - int(l.driver.pending())
	if l.pollPending {
		ops++ // one of those pending is the poll
	}
	return ops
}

// polled takes the poll's completion. A poll that was given back (its thread
// ended) is made again; one that never works would turn the wait into a spin.
func (l *loop) polled(res int32) {
	l.polling = false
	l.ring.bell.silence()
	if res >= 0 {
		l.pollFailures = 0
		return
	}
	if l.pollFailures++; l.pollFailures > max(l.options.Retries, DefaultRetries) {
		l.lose("poll of the eventfd", syscall.Errno(-res))
	}
}

func (l *loop) lose(call string, cause error) {
	if l.lost == nil {
		l.lost = &LostError{Call: call, Cause: cause}
	}
}

// finish ends the loop after Close: nothing is in flight and nothing in line.
func (l *loop) finish() {
	l.ring.ended.Store(&ending{closeErr: errors.Join(l.driver.close(), l.ring.bell.close())})
	l.ring.refuse(l.ring.arrivals.Swap(nil))
	close(l.ring.finished)
}

// abandon ends the loop after the ring was lost. The kernel may still use
// buffers, files and the ring's memory, so this goroutine never returns and keeps
// them reachable.
func (l *loop) abandon() {
	r := l.ring
	r.ended.Store(&ending{lost: l.lost})
	for i := range l.slots.all {
		if at := &l.slots.all[i]; at.op != nil {
			op := at.op
			l.slots.since[i].Store(0)
			r.counters.inFlight.Add(-1)
			r.complete(op, at.done, unknownOutcome(op, l.lost))
		}
	}
	chain := l.line
	l.line, l.lineEnd = nil, nil
	r.refuse(chain)
	r.refuse(r.arrivals.Swap(nil))
	close(r.finished)
	keepUntilExit(l)
}

// keepUntilExit never returns. The channel is one that nobody can close; a plain
// empty select would let the compiler drop the reference.
func keepUntilExit(l *loop) {
	<-make(chan struct{})
	runtime.KeepAlive(l)
}
