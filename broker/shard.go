package broker

import (
	"fmt"
	"sync"
	"sync/atomic"

	"felix.local/felix/engine"
	"felix.local/felix/segment"
)

// shard is one order of records: a log and the ring of its newest records, or a
// ring alone.
type shard struct {
	broker *Broker
	stream StreamName
	index  int
	format Format
	// log is nil for an in-memory stream, and for a shard whose open was refused.
	// It is set before the shard is used and never changed.
	log *engine.Log

	// blocking counts the subscriptions that hold publishers back, so that a
	// publish looks for them without the lock.
	blocking atomic.Int32
	// over mirrors mu.ended, for publishes.
	over atomic.Bool

	mu struct {
		sync.Mutex
		state  State
		reason error // why it does not serve
		// ended is set once the stream is deleted or the broker closed.
		ended error
		// floor is the oldest offset left by DeleteRecords; next is one past the
		// newest record a reader may see.
		floor, next uint64
		ring        ring
		// busy says that the log committed since the rings' common bound was last
		// enforced.
		busy bool
		// watchers are woken by every change; each has room for one wake-up.
		watchers []chan struct{}
		// queues are the subscriptions of an in-memory stream.
		queues []*Subscription
		// blockers are the subscriptions that hold publishers back; room is closed
		// when one of them moved, nil while nobody waits.
		blockers []*Subscription
		room     chan struct{}
		// subscriptions counts those open.
		subscriptions int
	}
}

func (b *Broker) newShard(s StreamName, index int, format Format, floor uint64) *shard {
	h := &shard{broker: b, stream: s, index: index, format: format}
	h.mu.ring = ring{limit: b.cfg.RingRecords, limitBytes: b.cfg.RingBytes}
	h.mu.floor = floor
	return h
}

// begin tells the shard where its log stands; the log may commit from then on.
func (h *shard) begin(log *engine.Log) {
	tail := log.TailOffset() // before the lock: Poisoned takes it under the log's
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = log
	h.mu.next = tail
	h.mu.ring.reset(tail)
	h.broker.rings.add(h)
}

// refuse makes the shard one that does not serve.
func (h *shard) refuse(reason error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.state, h.mu.reason = StateRefused, reason
}

// Committed takes what the log made visible. The log calls it in the order on disk
// and acknowledges afterwards: this order is that of the ring and of every delivery.
func (h *shard) Committed(batch engine.Committed) {
	h.take(batch.Next(), h.copied(batch))
	if h.broker.ringBytes.Load() > h.broker.cfg.RingBytesTotal {
		h.broker.shareRings(h)
	}
}

// take puts the last records below next into the ring and moves the view.
func (h *shard) take(next uint64, entries []entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.state == StatePoisoned || h.mu.ended != nil {
		return // reads end at the bound that Poisoned was told, or are over
	}
	h.changeRingLocked(func(r *ring) {
		if skipped := next - uint64(len(entries)); r.end() != skipped {
			r.reset(skipped)
		}
		for _, e := range entries {
			r.push(e)
		}
	})
	h.mu.next, h.mu.busy = next, true
	h.wakeLocked()
}

// copied takes the newest records of a batch, as far as the ring can hold them,
// out of the log's staging memory. One that starts a generation is no reader's: the
// ring begins behind it.
func (h *shard) copied(batch engine.Committed) []entry {
	left, leftBytes := batch.Records(), batch.PayloadBytes()
	limit, limitBytes := h.broker.cfg.RingRecords, h.broker.cfg.RingBytes
	var (
		entries []entry
		copies  slab
	)
	for record := range batch.All() {
		size := int64(len(record.Payload))
		switch {
		case record.Mark.Kind == segment.GenerationStart:
			entries = entries[:0]
		case left > 1 && (left > limit || leftBytes > limitBytes):
		default:
			if entries == nil {
				entries = make([]entry, 0, left)
			}
			entries = copies.add(entries, record.TimestampMicros, record.Payload, leftBytes)
		}
		left, leftBytes = left-1, leftBytes-size
	}
	return entries
}

// changeRingLocked changes the ring and accounts for its memory.
func (h *shard) changeRingLocked(change func(*ring)) {
	before := h.mu.ring.weight()
	change(&h.mu.ring)
	account := &h.broker.ringBytes
	if h.log == nil {
		account = &h.broker.memoryBytes
	}
	account.Add(h.mu.ring.weight() - before)
}

// Poisoned ends the shard's life for publishers: reads end at readable.
func (h *shard) Poisoned(cause error, readable uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.state, h.mu.reason = StatePoisoned, &engine.PoisonedError{Label: fmt.Sprintf("%s/%d", h.stream, h.index), Cause: cause}
	h.moveLocked(readable)
}

// Truncated takes that the log ends at next now.
func (h *shard) Truncated(next uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moveLocked(next)
}

// moveLocked sets the end of the view. The ring may end before it, never after.
func (h *shard) moveLocked(next uint64) {
	if h.mu.ring.end() > next {
		h.changeRingLocked(func(r *ring) { r.cut(next) })
	}
	h.mu.next = next
	h.wakeLocked()
}

// end makes every use of the shard answer err.
func (h *shard) end(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.ended == nil {
		h.mu.ended = err
		h.over.Store(true)
		h.changeRingLocked(func(r *ring) { r.reset(r.end()) })
		h.broker.rings.remove(h)
		h.wakeLocked()
	}
}

// setFloor hides every record below offset.
func (h *shard) setFloor(offset uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.floor = max(h.mu.floor, offset)
	h.changeRingLocked(func(r *ring) {
		for r.count > 0 && r.oldest < offset {
			r.drop()
		}
	})
	h.wakeLocked()
}

// wakeLocked wakes all who watch.
func (h *shard) wakeLocked() {
	for _, wake := range h.mu.watchers {
		select {
		case wake <- struct{}{}:
		default: // it has a wake-up to take already
		}
	}
	h.makeRoomLocked()
}

// watch has wake told of every change from now on.
func (h *shard) watch(wake chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.watchers = append(h.mu.watchers, wake)
}

func (h *shard) unwatch(wake chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.watchers = without(h.mu.watchers, wake)
}

// without removes one value; the order changes.
func without[T comparable](list []T, value T) []T {
	for i := range list {
		if list[i] == value {
			last := len(list) - 1
			list[i] = list[last]
			clear(list[last:])
			return list[:last]
		}
	}
	return list
}

// base is the oldest offset that can be read. It takes the log's lock, so it must
// not be called with the shard's.
func (h *shard) base() uint64 {
	logBase := h.logBase()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.baseLocked(logBase)
}

// logBase is the log's part of the base. It takes the log's lock.
func (h *shard) logBase() uint64 {
	if h.log == nil {
		return 0
	}
	return h.log.BaseOffset()
}

// baseLocked is base, given the log's.
func (h *shard) baseLocked(logBase uint64) uint64 {
	if h.log == nil {
		logBase = h.mu.ring.oldest
	}
	return max(logBase, h.mu.floor)
}

// info describes the shard.
func (h *shard) info() ShardInfo {
	info := ShardInfo{Shard: h.index, Base: h.base()}
	if h.log != nil {
		info.Durable = h.log.DurableOffset()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	info.State, info.Reason = h.mu.state, h.mu.reason
	info.Next = h.mu.next
	info.Base = min(info.Base, info.Next)
	info.Subscriptions = h.mu.subscriptions
	return info
}

// unavailable says that the shard does not serve.
func (h *shard) unavailable(state State, reason error) error {
	return &UnavailableError{Stream: h.stream, Shard: h.index, State: state, Err: reason}
}
