package uring

import (
	"syscall"
	"time"

	"felix.local/felix/device"
)

// retriesAtOnce is how often in a row an operation goes out again without a
// pause. That is enough for what passes at once, such as a thread that ended.
const retriesAtOnce = 3

// The pause between two tries of something that the kernel has no means for
// doubles between these.
const (
	pauseMin = 10 * time.Microsecond
	pauseMax = 10 * time.Millisecond
)

// pause is the wait before try number n, counted from 0, of those that wait.
func pause(n int) time.Duration { return min(pauseMin<<min(n, 16), pauseMax) }

// later holds the operations that the kernel gave back several times in a row.
// They keep their slots and all go out again when the timer fires.
//
// The usual cause is a limit on threads: the kernel carries out flushes and
// buffered writes on worker threads of the thread that submitted them, and gives
// the work back when it cannot start the first one. Trying again at once burns the
// tries within microseconds. Waiting helps in two ways: workers of other threads
// end when they were idle for five seconds, all but one of each thread, and the
// loop may wake on a thread that has one.
type later struct {
	waiting []uint32 // slots
	// armed: the timer runs or has fired and was not noticed yet.
	armed bool
}

// retry deals with an operation that the kernel gave back undone.
func (l *loop) retry(index uint32, errno syscall.Errno) {
	at := &l.slots.all[index]
	now := l.options.now()
	if at.retries == 0 {
		at.backSince = now
	}
	if at.retries >= l.options.Retries && now.Sub(at.backSince) >= l.options.RetryTime {
		l.end(index, failure(at.op, at.done, exhausted(at.retries, now.Sub(at.backSince), errno)))
		return
	}
	if errno == syscall.EAGAIN || errno == syscall.EINTR {
		l.ring.counters.again.Add(1)
	} else {
		l.ring.counters.canceled.Add(1)
	}
	at.retries++
	if at.retries <= retriesAtOnce {
		l.send(index)
		return
	}
	l.later.waiting = append(l.later.waiting, index)
	if !l.later.armed {
		// An operation that comes while the timer runs goes out with the others.
		l.later.armed = true
		l.options.after(pause(at.retries-retriesAtOnce-1), l.ring.wakeLater)
	}
}

// exhausted is what an operation fails with that came back too often.
func exhausted(retries int, since time.Duration, errno syscall.Errno) error {
	if errno != syscall.ECANCELED || retries < retriesAtOnce {
		return errno
	}
	return &WorkerError{Errno: errno, Tries: retries + 1, For: since}
}

// wakeLater runs on a timer's goroutine.
func (r *Ring) wakeLater() {
	r.laterDue.Store(true)
	r.bell.ring()
}

// resume sends what waited for the timer.
func (l *loop) resume() {
	if !l.ring.laterDue.Swap(false) {
		return
	}
	l.later.armed = false
	for _, index := range l.later.waiting {
		l.send(index)
	}
	l.later.waiting = l.later.waiting[:0]
}

// givenBack reports whether an errno means that the kernel gave the operation back
// without an answer from the device: no resources, a signal, or the submitting
// thread ended. Such an operation is issued again, a flush too, because it did
// not run.
//
// Every other errno of a flush is final: the kernel reports a failed write-back
// once, and a second flush would succeed without the data. So is EINTR, which may
// come from part of the way through and hide such a report. The filesystems
// that a ring is used on wait for the device uninterruptibly and do not give it.
func givenBack(k device.Kind, errno syscall.Errno) bool {
	switch errno {
	case syscall.EINTR:
		return !isFlush(k)
	case syscall.EAGAIN, syscall.ECANCELED, syscall.EFAULT:
		return true
	default:
		return false
	}
}
