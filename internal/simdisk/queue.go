package simdisk

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"felix.local/felix/device"
)

// Mode is how a Queue runs.
type Mode uint8

// The modes.
const (
	// FreeRunning carries out each operation within Submit.
	FreeRunning Mode = iota
	// Adversarial lets operations take times that a seed decides, so that they
	// complete in any order, and lets writes land early or in pieces.
	Adversarial
	// Stepped completes nothing by itself: the test decides.
	Stepped
)

// QueueOptions configure a Queue. The zero value runs freely.
type QueueOptions struct {
	Mode Mode
	// Seed decides delays, pieces and order under Adversarial.
	Seed uint64
	// InFlightMax is how many operations are under way at once; those beyond
	// stay in line. Zero means 64.
	InFlightMax int
	// ShortPercent of the writes take two or three pieces, under Adversarial.
	ShortPercent int
	// DelayMax is the longest an operation takes, under Adversarial. Most take
	// far less. Zero means 4 ms.
	DelayMax time.Duration
	// Sleep lets delays pass on the clock of package time; within a synctest
	// bubble they then cost nothing and are exact. Without it the queue has a
	// clock of its own, and only the order of completions follows the delays.
	Sleep bool
}

const (
	inFlightDefault = 64
	delayDefault    = 4 * time.Millisecond
)

func (o QueueOptions) validate() error {
	var problems []error
	if o.Mode > Stepped {
		problems = append(problems, fmt.Errorf("mode %d does not exist", o.Mode))
	}
	if o.InFlightMax < 0 || o.DelayMax < 0 {
		problems = append(problems, errors.New("a bound is negative"))
	}
	if o.ShortPercent < 0 || o.ShortPercent > 100 {
		problems = append(problems, fmt.Errorf("%d percent of the writes cannot be short", o.ShortPercent))
	}
	return errors.Join(problems...)
}

func (o QueueOptions) withDefaults() QueueOptions {
	if o.InFlightMax == 0 {
		o.InFlightMax = inFlightDefault
	}
	if o.DelayMax == 0 {
		o.DelayMax = delayDefault
	}
	return o
}

// Queue is a device.Queue of a Disk.
type Queue struct {
	disk    *Disk
	options QueueOptions
	started time.Time
	// running counts submitters and the driver.
	running sync.WaitGroup
	// wake tells a sleeping driver that there is something new.
	wake chan struct{}

	mu struct {
		sync.Mutex
		line   []*job // waiting for room
		window []*job // under way
		nextID uint64
		// now is the queue's own clock, without Sleep.
		now     time.Duration
		driving bool
		closed  bool
		// changed is closed and dropped when the window changes; nil while
		// nobody waits.
		changed chan struct{}
		// seen counts operations that are alike, so that each of them draws its
		// own numbers whatever goroutine came first.
		seen  map[likeness]uint64
		stats device.QueueStats
	}
}

var _ device.Queue = (*Queue)(nil)

// NewQueue makes a queue. It panics on options out of bounds.
func (d *Disk) NewQueue(o QueueOptions) *Queue {
	if err := o.validate(); err != nil {
		panic("simdisk: " + err.Error())
	}
	q := &Queue{disk: d, options: o.withDefaults(), started: time.Now(), wake: make(chan struct{}, 1)}
	q.mu.seen = make(map[likeness]uint64)
	q.mu.stats.Backend = "simdisk"
	q.mu.stats.InFlightMax = q.options.InFlightMax
	return q
}

// Submit hands operations over. Flushes cover what had landed by now.
func (q *Queue) Submit(ops ...*device.Op) {
	for _, op := range ops {
		op.Prepare()
	}
	if !q.enter() {
		for _, op := range ops {
			op.Complete(0, device.NewError(op.Kind.String(), op.File.Name(), -1, device.ErrQueueClosed))
		}
		return
	}
	defer q.running.Done()
	jobs := make([]*job, len(ops))
	for i, op := range ops {
		jobs[i] = q.begin(op)
	}
	if q.options.Mode == FreeRunning {
		for _, j := range jobs {
			q.advance(j, len(j.buf()))
			q.finish(j)
		}
		return
	}
	q.enqueue(jobs)
}

func (q *Queue) enter() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.closed {
		return false
	}
	q.running.Add(1)
	return true
}

// enqueue puts jobs in line and sees to it that somebody works on them.
func (q *Queue) enqueue(jobs []*job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.line = append(q.mu.line, jobs...)
	q.fillLocked()
	if q.options.Mode == Stepped || len(jobs) == 0 {
		return
	}
	if q.mu.driving {
		select {
		case q.wake <- struct{}{}:
		default:
		}
		return
	}
	q.mu.driving = true
	q.running.Add(1)
	go q.drive()
}

// fillLocked moves jobs from the line into the window.
func (q *Queue) fillLocked() {
	for len(q.mu.line) > 0 && len(q.mu.window) < q.options.InFlightMax {
		j := q.mu.line[0]
		q.mu.line[0] = nil
		q.mu.line = q.mu.line[1:]
		q.mu.nextID++
		j.id = q.mu.nextID
		q.chooseLocked(j)
		q.mu.window = append(q.mu.window, j)
	}
	if q.mu.changed != nil {
		close(q.mu.changed)
		q.mu.changed = nil
	}
}

// Stats returns the counters.
func (q *Queue) Stats() device.QueueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.mu.stats
	s.InFlight, s.Queued = len(q.mu.window), len(q.mu.line)
	for _, jobs := range [][]*job{q.mu.window, q.mu.line} {
		for _, j := range jobs {
			s.OldestAge = max(s.OldestAge, time.Since(j.op.SubmittedAt))
		}
	}
	return s
}

// Close completes everything submitted, in step mode in the order of submission.
func (q *Queue) Close() error {
	q.mu.Lock()
	if q.mu.closed {
		q.mu.Unlock()
		return errors.New("simdisk: the queue is closed already")
	}
	q.mu.closed = true
	q.mu.Unlock()
	q.running.Wait()
	for {
		pending := q.Pending()
		if len(pending) == 0 {
			return nil
		}
		q.Step(pending[0].ID)
	}
}
