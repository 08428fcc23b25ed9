package engine

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// The gathering pause. When a batch completes, its waiters come back within
// microseconds; a flush started at once would carry the first of them and let
// the rest wait for the next, which splits a closed-loop load into two cohorts
// that each pay for a flush of their own. So before it takes a batch the loop
// yields until as many appends are staged as the last batch released and found
// waiting, for at most a fraction of what a flush costs. A lone publisher is all
// that is expected and finds no pause. No timer is armed: the shortest one that
// a kernel keeps is longer than the pause.
const (
	gatherFraction = 4
	gatherMax      = 2 * time.Millisecond
)

// cohort is whom the last batch, or the last frame of the commit journal, released and
// found waiting: how many, when, and how long its flush took.
type cohort struct {
	released int64
	at       time.Time
	flush    time.Duration
}

// gather is the pause; staged counts those who came back.
func (c *cohort) gather(staged *atomic.Int64) {
	bound := min(c.flush/gatherFraction, gatherMax)
	for !c.gathered(staged) && time.Since(c.at) < bound {
		gatherYield()
	}
}

// gathered says that there is nothing to pause for.
func (c *cohort) gathered(staged *atomic.Int64) bool {
	return c.released <= 1 || staged.Load() >= c.released
}

func gatherYield() {
	runtime.Gosched()
	yieldThread()
}

// yieldThread lets other threads run on this CPU. The runtime yields among the
// goroutines of one thread only; those that another thread took over wait with it
// when the kernel put both on one CPU, and would come after the flush they are
// waited for. On a CPU that others want too it may return late, by about one of
// the kernel's time slices.
func yieldThread() { _, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// commit is the commit loop: the only code that appends to the active segment. It
// runs while there is work and is started by whoever stages the first batch. It ends
// too when the commit journal has a batch; what it left, the role, is framed's then.
// With until set it returns once that batch is complete and leaves the rest to a
// goroutine, so that no appender works for others for ever.
func (l *Log) commit(until *batch) {
	for {
		if b := l.bypassing; b != nil {
			l.bypassing = nil
			l.writeSegment(b, l.mu.active.file)
		}
		l.writeIndex(false)
		if l.cfg.FsyncMode == FsyncOnCommit {
			l.last.gather(&l.stagedAppends)
		}
		l.mu.Lock()
		if len(l.mu.staged) == 0 {
			l.restLocked()
			l.mu.Unlock()
			return
		}
		if until != nil && until.completed {
			l.mu.inFlight = nil
			l.mu.Unlock()
			l.store.committers.run(l.commitFn)
			return
		}
		b := l.takeBatchLocked()
		poison := l.mu.poison
		l.mu.Unlock()
		if poison != nil {
			l.fail(b, poison)
			continue
		}
		if away := l.write(b); away {
			return
		}
	}
}

// restLocked gives the commit role up: nothing is staged.
func (l *Log) restLocked() {
	l.mu.inFlight, l.mu.committing = nil, false
	l.notifyLocked()
}

// takeBatchLocked takes the first staged batch, of which there is one.
func (l *Log) takeBatchLocked() *batch {
	b := l.mu.staged[0]
	n := copy(l.mu.staged, l.mu.staged[1:])
	l.mu.staged[n] = nil
	l.mu.staged = l.mu.staged[:n]
	l.mu.inFlight = b
	return b
}

// goOn has the commit role and must not wait: what the commit journal takes as it is
// goes there, for all else a commit loop is started. A caller that may wait for the
// journal's device (mayWait) writes the frame itself where nobody else does.
func (l *Log) goOn(mayWait bool) {
	if l.bypassing != nil || l.cfg.FsyncMode != FsyncOnCommit || !l.store.journal.ready() || l.indexDue() || !l.last.gathered(&l.stagedAppends) {
		l.store.committers.run(l.commitFn)
		return
	}
	l.mu.Lock()
	if len(l.mu.staged) == 0 {
		l.restLocked()
		l.mu.Unlock()
		return
	}
	file, reserving := l.mu.active.file, l.mu.active.reserve.op != nil
	// A reservation that was refused is followed by a flush, and the first is waited for.
	if l.mu.staged[0].roll || l.mu.poison != nil || file == nil || reserving || l.reservesFirst() {
		l.mu.Unlock()
		l.store.committers.run(l.commitFn)
		return
	}
	b := l.takeBatchLocked()
	l.mu.Unlock()
	l.recent.Store(true)
	b.started = time.Now()
	switch err := l.reserve(file, b.end()); {
	case err != nil:
		l.fail(b, err)
	case l.store.journal.takes(l, b):
		l.store.journal.carry(l, b, mayWait)
		return
	default:
		l.bypassing = b
	}
	l.store.committers.run(l.commitFn)
}

// handOver ends a goroutine's turn as the commit loop: what was staged meanwhile
// goes to a loop of its own.
func (l *Log) handOver() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.mu.staged) > 0 {
		l.store.committers.run(l.commitFn)
		return
	}
	l.restLocked()
}

// finish completes a batch that succeeded.
func (l *Log) finish(b *batch) {
	c := &l.store.counters
	c.appends.Add(uint64(b.appends))
	c.appendRecords.Add(b.records())
	c.appendBytes.Add(uint64(b.payloadBytes))
	l.release(b)
}

// fail completes a batch, and everything staged behind it, with err. It happens
// in order and under the lock, so that none of their offsets is assigned again
// before its first owner knows that it was lost.
func (l *Log) fail(b *batch, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	behind := l.mu.staged
	l.mu.staged, l.mu.inFlight = nil, nil
	l.replanLocked()
	l.mu.produced.undo(b, behind)
	b.err = err
	l.release(b)
	for _, next := range behind {
		next.err = err
		l.release(next)
	}
	l.notifyLocked()
}

// release wakes everyone who waits for the batch and returns its memory. No
// operation names its buffer any more.
func (l *Log) release(b *batch) {
	l.stagedAppends.Add(-int64(b.appends))
	b.completed = true
	if b.lone != nil {
		b.lone <- struct{}{} // has room: one value is sent per use
	}
	if b.done != nil {
		close(b.done)
	}
	if b.crowd != nil {
		b.crowd.end() // after done, which they look at next
	}
	l.store.arena.Give(b.buf)
	b.buf = nil
	l.stagedBytes.Give(b.reservedLog)
	l.store.staging.Give(b.reservedStore)
}
