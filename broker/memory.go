package broker

import "felix.local/felix/engine"

// remember is a publish to an in-memory stream: offsets, ring and deliveries under
// one lock.
func (h *shard) remember(messages []Message) (engine.AppendResult, error) {
	entries := h.kept(messages)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.ended != nil {
		return engine.AppendResult{}, h.mu.ended
	}
	if err := h.admitLocked(entries); err != nil {
		return engine.AppendResult{}, err
	}
	first := h.mu.next
	h.changeRingLocked(func(r *ring) {
		for _, e := range entries {
			r.push(e)
		}
	})
	for _, blocks := range []bool{true, false} { // those that must not miss any come first
		for _, sub := range h.mu.queues {
			if (sub.opts.WhenFull == WhenFullBlock) == blocks {
				sub.queueLocked(first, entries)
			}
		}
	}
	h.mu.next += uint64(len(entries))
	h.wakeLocked()
	return engine.AppendResult{First: first, Last: h.mu.next - 1}, nil
}

// admitLocked makes room for what the ring will hold of the records, and for the queues
// of subscriptions that must not miss any, out of this shard's older records. It refuses
// them when in-memory streams have no room.
func (h *shard) admitLocked(entries []entry) error {
	size, limit := h.mu.ring.weightOf(entries), h.broker.cfg.MemoryBytesTotal
	for _, sub := range h.mu.blockers {
		size += sub.queuedSize(entries)
	}
	if h.broker.memoryBytes.Load()-h.mu.ring.weight()+size > limit {
		return &MemoryError{Stream: h.stream, Max: limit}
	}
	for h.mu.ring.count > 0 && h.broker.memoryBytes.Load()+size > limit {
		h.changeRingLocked(func(r *ring) { r.drop() })
	}
	return nil
}

// kept copies the messages as a log would.
func (h *shard) kept(messages []Message) []entry {
	sc := h.broker.scratches.Get().(*scratch)
	defer h.broker.giveBack(sc)
	sc.encode(h.format, messages)
	left, now := int64(0), uint64(0)
	for i := range sc.records {
		left += int64(len(sc.records[i].Payload))
	}
	entries, copies := make([]entry, 0, len(sc.records)), slab{}
	for i := range sc.records {
		r := &sc.records[i]
		if r.TimestampMicros == 0 {
			if now == 0 {
				now = h.broker.nowMicros()
			}
			r.TimestampMicros = now
		}
		entries = copies.add(entries, r.TimestampMicros, r.Payload, left)
		left -= int64(len(r.Payload))
	}
	return entries
}
