package engine

import (
	"context"
	"sync/atomic"
	"time"

	"felix.local/felix/device"
)

// What does not go through the queue, and why. This is the one rule; both routes
// are counted by kind.
//
//   - A plain write under none and periodic: a copy into the page cache. The ring
//     would hand it to a kernel worker on ext4, and on every filesystem the copy
//     costs less than the two thread switches around it.
//   - A dsync write under on_commit of a log that has had the store to itself for
//     a while. A queue pays when it carries several operations at once; with
//     one, it adds a thread switch on the way out and one on the way back.
//
// Everything else waits for a device beside others, and goes through the queue:
// every dsync write as soon as a second log is busy, every flush, every
// reservation. docs/performance.md has the measurements.
const (
	// inlineMax bounds how many goroutines, and so threads, may be inside an
	// inline operation at once. When no place is free the queue takes the
	// operation.
	inlineMax = 8
	// soloStreak is how many commits in a row one log must have made, without
	// any of another log between them, before its dsync writes go inline.
	soloStreak = 64
)

// solo watches whether one log has the device to itself.
type solo struct {
	log    atomic.Pointer[Log]
	streak atomic.Int64
}

// alone notes a commit of l and says whether l alone has been committing.
func (s *solo) alone(l *Log) bool {
	if s.log.Load() != l {
		s.log.Store(l)
		s.streak.Store(0)
		return false
	}
	return s.streak.Add(1) > soloStreak
}

// is says what alone last said of l.
func (s *solo) is(l *Log) bool { return s.log.Load() == l && s.streak.Load() > soloStreak }

// shared notes a commit of several logs at once.
func (s *solo) shared() {
	if s.log.Load() != nil {
		s.log.Store(nil)
	}
}

// inlinePlaces are where the operations that run inline are under way. No queue
// sees them, and a device that hangs holds them as it holds a queue's.
type inlinePlaces struct {
	free   chan int
	opened time.Time
	// since holds when the operation in each place began, in nanoseconds after
	// opened, plus one; 0 is a free place.
	since [inlineMax]atomic.Int64
}

func newInlinePlaces() *inlinePlaces {
	p := &inlinePlaces{free: make(chan int, inlineMax), opened: time.Now()}
	for i := range inlineMax {
		p.free <- i
	}
	return p
}

func (p *inlinePlaces) begin(place int) { p.since[place].Store(int64(time.Since(p.opened)) + 1) }

func (p *inlinePlaces) end(place int) {
	p.since[place].Store(0)
	p.free <- place
}

// oldestAge is how long the oldest operation has been under way; 0 without any.
func (p *inlinePlaces) oldestAge() time.Duration {
	now, oldest := int64(time.Since(p.opened)), time.Duration(0)
	for i := range p.since {
		if since := p.since[i].Load(); since != 0 {
			oldest = max(oldest, time.Duration(now-since+1))
		}
	}
	return oldest
}

// inline decides the route of one operation of l. The place it gives is to be
// used.
func (s *Store) inline(l *Log, op *device.Op) (place int, ok bool) {
	switch op.Kind {
	case device.Write:
		if l.cfg.FsyncMode == FsyncOnCommit {
			return 0, false
		}
	case device.WriteDsync:
		if !s.solo.alone(l) {
			return 0, false
		}
	default:
		return 0, false
	}
	select {
	case place = <-s.inlinePlaces.free:
		return place, true
	default:
		return 0, false
	}
}

// performInline runs op on this goroutine, in a place from inline.
func (s *Store) performInline(op *device.Op, place int) error {
	s.inlinePlaces.begin(place)
	defer s.inlinePlaces.end(place)
	s.counters.inline[op.Kind].Add(1)
	op.N, op.Err = op.File.Perform(op)
	return op.Err
}

// waitsInline says whether an appender that finds no commit loop may write the frame of
// the commit journal itself: of a log that has the store to itself, one that nothing
// could call back from the device. It saves two hand-overs between goroutines.
func (l *Log) waitsInline(ctx context.Context) bool {
	return ctx.Done() == nil && l.store.solo.is(l)
}

// leadsInline says whether an appender that finds no commit loop runs it itself
// until its batch b is complete: where the write is a copy into the page cache,
// handing it to another goroutine would cost more than the write. What waits for
// the disk first (a roll, a descriptor, a segment's first reservation) is not for
// a caller, who must be able to give up on it. The commit role is the caller's.
func (l *Log) leadsInline(b *batch) bool {
	w := &l.mu.active
	return l.cfg.FsyncMode != FsyncOnCommit && !b.roll && w.file != nil && !l.reservesFirst()
}
