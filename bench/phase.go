package bench

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// phase is the warm-up of a load, or what is measured of it.
type phase struct {
	load Load
	// duration is 0 when it ends with the records.
	duration time.Duration
	start    time.Time
	left     atomic.Int64
	unserved atomic.Int64
}

func (l Load) phase(records int64, duration time.Duration) *phase {
	p := &phase{load: l, duration: duration}
	p.left.Store(records)
	if duration > 0 {
		p.left.Store(RecordsMax)
	}
	return p
}

// run lets all publishers append until the phase is over.
func (p *phase) run(ctx context.Context, publishers []*publisher) error {
	p.start = time.Now()
	if p.load.Rate == 0 {
		return all(ctx, publishers, p.closed)
	}
	return p.open(ctx, publishers)
}

// take is how many of n records are left to append.
func (p *phase) take(n int64) int64 { return min(n, p.left.Add(-n)+n) }

// closed appends one after the other. The clock is read once per append: the end of
// one is the start of the next, so noting a latency counts as part of the append
// that follows.
func (p *phase) closed(ctx context.Context, by *publisher) error {
	for last := time.Since(p.start); ctx.Err() == nil; {
		if p.duration > 0 && last >= p.duration {
			return nil
		}
		n := p.take(int64(len(by.payloads)))
		if n <= 0 {
			return nil
		}
		if err := by.append(ctx, n); err != nil {
			return err
		}
		now := time.Since(p.start)
		by.note(now - last)
		last = now
	}
	return nil
}

func (p *publisher) note(took time.Duration) {
	if p.latencies != nil {
		p.latencies.record(took)
	}
}

// dueMax is how many appends that are due wait in line for a publisher. How many
// more there are is known from the clock.
const dueMax = 1024

// open hands out appends when they are due. A publisher takes the next one that is
// due, late or not, and its latency counts from when it was due: a target that
// stalls is charged for everything that would have come meanwhile, not only for
// the few appends that were under way.
func (p *phase) open(ctx context.Context, publishers []*publisher) error {
	due := make(chan time.Duration, dueMax)
	pacing, paced := context.WithCancel(ctx)
	ended := make(chan int64, 1)
	go func() { ended <- p.pace(pacing, due) }()
	err := all(ctx, publishers, func(ctx context.Context, by *publisher) error { return p.serve(ctx, by, due) })
	paced()
	for next := <-ended; err == nil && p.dueAt(next) < p.duration; next++ {
		p.giveUp(publishers[0], p.dueAt(next))
	}
	return err
}

// serve appends what is due until there is no more, or the time is up.
func (p *phase) serve(ctx context.Context, by *publisher, due <-chan time.Duration) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case at, more := <-due:
			if !more {
				return nil
			}
			if time.Since(p.start) >= p.duration {
				p.giveUp(by, at)
				continue
			}
			if err := by.append(ctx, int64(len(by.payloads))); err != nil {
				return err
			}
			by.note(time.Since(p.start) - at)
		}
	}
}

// giveUp counts an append that was due and not begun when the time was up.
func (p *phase) giveUp(by *publisher, at time.Duration) {
	p.unserved.Add(1)
	by.note(p.duration - at)
}

// dueAt is when append number n is due.
func (p *phase) dueAt(n int64) time.Duration {
	return time.Duration(float64(n) / p.load.Rate * float64(time.Second))
}

// pace hands out every append that is due before the time is up, and returns the
// number of the first that it did not hand out. It sleeps in the kernel, on a thread
// of its own: the runtime's timers are up to a millisecond late when a process idles,
// which would count as latency of the target.
func (p *phase) pace(ctx context.Context, due chan<- time.Duration) (next int64) {
	defer close(due)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	precise()
	over := time.NewTimer(p.duration - time.Since(p.start))
	defer over.Stop()
	for ; p.dueAt(next) < p.duration; next++ {
		if !p.sleepUntil(ctx, p.dueAt(next)) {
			return next
		}
		select {
		case due <- p.dueAt(next):
		case <-over.C:
			return next
		case <-ctx.Done():
			return next
		}
	}
	return next
}

// sleepMax bounds a sleep in the kernel, which no context ends.
const sleepMax = 20 * time.Millisecond

// sleepUntil sleeps until a time of the phase; false when the context ended first.
func (p *phase) sleepUntil(ctx context.Context, at time.Duration) bool {
	for {
		left := at - time.Since(p.start)
		if left <= 0 {
			return ctx.Err() == nil
		}
		if ctx.Err() != nil {
			return false
		}
		// A signal may end the sleep early; the clock decides.
		sleep := unix.NsecToTimespec(min(left, sleepMax).Nanoseconds())
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &sleep, nil)
	}
}

// precise asks for timers without the slack that the kernel adds to save power,
// 50 µs by default. Without it the load is a little later, and says so as latency.
func precise() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }
