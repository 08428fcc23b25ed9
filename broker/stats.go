package broker

import (
	"math"
	"sync/atomic"
)

// Stats are a broker's totals (which only rise) and gauges.
type Stats struct {
	// Publishes counts acknowledged publishes, PublishedRecords what they held,
	// PublishedBytes the bytes of their values, keys and headers.
	// PublishFailures counts publishes that got an error.
	Publishes, PublishedRecords, PublishedBytes, PublishFailures uint64
	// Duplicates counts publishes of idempotent producers that were held already.
	Duplicates uint64
	// DeliveredRecords and DeliveredBytes count what subscriptions were given.
	DeliveredRecords, DeliveredBytes uint64
	// RingReads and DiskReads count pages by where they came from.
	RingReads, DiskReads uint64
	// DroppedRecords counts records of in-memory streams that a subscription was
	// too slow for, each per subscription.
	DroppedRecords uint64
	// Blocked counts publishes that a full subscription held back.
	Blocked uint64
	// Streams, Shards and Subscriptions count what there is now.
	Streams, Shards, Subscriptions int
	// RefusedShards and PoisonedShards do not serve; UnreadableStreams have a
	// definition that cannot be read.
	RefusedShards, PoisonedShards, UnreadableStreams int
}

// counters are the totals behind Stats.
type counters struct {
	publishes, publishedRecords, publishedBytes, publishFailures atomic.Uint64
	duplicates                                                   atomic.Uint64
	deliveredRecords, deliveredBytes                             atomic.Uint64
	ringReads, diskReads, dropped, blocked                       atomic.Uint64
	subscriptions                                                atomic.Int64
}

// delivered counts a page that a subscription was given.
func (c *counters) delivered(records []Record) {
	bytes := 0
	for i := range records {
		bytes += len(records[i].Value) + len(records[i].Key)
	}
	c.deliveredRecords.Add(uint64(len(records)))
	c.deliveredBytes.Add(uint64(bytes))
}

// Stats returns totals and gauges. Gauges look at every shard: call it for a
// scrape, not per publish.
func (b *Broker) Stats() Stats {
	c := &b.counters
	s := Stats{
		Publishes: c.publishes.Load(), PublishedRecords: c.publishedRecords.Load(), PublishedBytes: c.publishedBytes.Load(),
		PublishFailures: c.publishFailures.Load(), Duplicates: c.duplicates.Load(), DeliveredRecords: c.deliveredRecords.Load(), DeliveredBytes: c.deliveredBytes.Load(),
		RingReads: c.ringReads.Load(), DiskReads: c.diskReads.Load(), DroppedRecords: c.dropped.Load(), Blocked: c.blocked.Load(),
		Subscriptions: int(c.subscriptions.Load()),
	}
	for _, stream := range b.table() {
		s.Streams++
		if stream.err != nil {
			s.UnreadableStreams++
			continue
		}
		for _, h := range *stream.shards.Load() {
			s.Shards++
			switch state, _ := h.status(); state {
			case StateRefused:
				s.RefusedShards++
			case StatePoisoned:
				s.PoisonedShards++
			case StateServing:
			}
		}
	}
	return s
}

// Health is what a readiness check shows.
type Health struct {
	// Ready is false when nothing can be stored: the backend is lost, no durable
	// shard serves, or the broker is closing. Reason says which.
	Ready  bool
	Reason string
	// Unavailable lists what does not serve.
	Unavailable []UnavailableShard
}

// UnavailableShard is a shard that does not serve; Shard is -1 for a whole stream
// whose definition cannot be read.
type UnavailableShard struct {
	Stream StreamName
	Shard  int
	State  State
	Reason string
}

// Health looks at every shard.
func (b *Broker) Health() Health {
	var h Health
	durable, serving := 0, 0
	var lost error
	if b.store != nil {
		lost = b.store.Stats().Queue.Lost
	}
	for _, stream := range b.table() {
		if stream.err != nil {
			h.Unavailable = append(h.Unavailable, UnavailableShard{Stream: stream.name, Shard: -1, State: StateRefused, Reason: stream.err.Error()})
			continue
		}
		if stream.deleting.Load() {
			h.Unavailable = append(h.Unavailable, UnavailableShard{stream.name, -1, StateRefused, (&UnfinishedError{stream.name}).Error()})
			continue
		}
		for _, shard := range *stream.shards.Load() {
			state, reason := shard.status()
			if stream.config.Durable {
				durable++
			}
			if state != StateServing {
				h.Unavailable = append(h.Unavailable, UnavailableShard{stream.name, shard.index, state, reason.Error()})
			} else if stream.config.Durable {
				serving++
			}
		}
	}
	switch {
	case b.draining.Load():
		h.Reason = "shutting down"
	case lost != nil:
		h.Reason = "the I/O backend is lost: " + lost.Error() + "; restart the server"
	case durable > 0 && serving == 0:
		h.Reason = "no shard of a durable stream serves"
	default:
		h.Ready = true
	}
	return h
}

func (h *shard) status() (State, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.state, h.mu.reason
}

// claimSubscription counts one more, unless that is too many.
func (b *Broker) claimSubscription() bool {
	limit := int64(min(b.cfg.SubscriptionsMax, math.MaxInt32))
	if b.counters.subscriptions.Add(1) > limit {
		b.counters.subscriptions.Add(-1)
		return false
	}
	return true
}
