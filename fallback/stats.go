package fallback

import (
	"time"

	"felix.local/felix/device"
)

// counts are the pool's rising counters.
type counts struct {
	ops, errors                  [device.KindCount]uint64
	resubmitShort, resubmitAgain uint64
}

func (c *counts) add(op *device.Op, err error) {
	c.ops[op.Kind]++
	if err != nil {
		c.errors[op.Kind]++
	}
	if op.Pieces <= 1 {
		return
	}
	repeats := uint64(op.Pieces - 1)
	switch op.Kind {
	case device.Write, device.WriteDsync:
		c.resubmitShort += repeats
	default:
		c.resubmitAgain += repeats
	}
}

// Stats returns counters since the pool was made. A write that was interrupted
// before it moved a byte is counted among the short ones.
func (p *Pool) Stats() device.QueueStats {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := device.QueueStats{
		Backend:       "pool",
		Ops:           p.mu.counts.ops,
		Errors:        p.mu.counts.errors,
		ResubmitShort: p.mu.counts.resubmitShort,
		ResubmitAgain: p.mu.counts.resubmitAgain,
		Queued:        p.mu.queued,
		InFlightMax:   p.options.Workers,
	}
	var oldest time.Time
	for w := range p.mu.workers {
		if w.since.IsZero() {
			continue
		}
		s.InFlight++
		if oldest.IsZero() || w.since.Before(oldest) {
			oldest = w.since
		}
	}
	// Ops start in order, but one in line can be older than all under way when
	// workers that took it over are still starting.
	if p.mu.head != nil && (oldest.IsZero() || p.mu.head.SubmittedAt.Before(oldest)) {
		oldest = p.mu.head.SubmittedAt
	}
	if !oldest.IsZero() {
		s.OldestAge = now.Sub(oldest)
	}
	return s
}
