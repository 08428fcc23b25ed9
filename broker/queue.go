package broker

// queue is what a subscription to an in-memory stream has not taken yet: first what the
// ring held when it began, the backlog, then what was published since, up to limit
// records and limitBytes of payload, but always one record. What does not fit is dropped: the newest, so
// that what is delivered has no gap but one, which is told after what was queued before
// it.
type queue struct {
	records []queued
	// backlog of them, the first ones, count against no limit; bytes is the payload of
	// the others.
	backlog    int
	bytes      int64
	limit      int
	limitBytes int64
	missed     *OffsetRange
}

type queued struct {
	offset uint64
	entry
}

// queuedBytes is what a queued record takes beside its payload.
const queuedBytes = 56

func (q *queue) empty() bool { return len(q.records) == 0 && q.missed == nil }

// fits says that a record of this many bytes has a place.
func (q *queue) fits(size int64) bool {
	live := len(q.records) - q.backlog
	return live == 0 || live < q.limit && q.bytes+size <= q.limitBytes
}

// beginQueueLocked begins with what the ring holds from an offset on, as far as memory
// lasts; the rest is missed.
func (sub *Subscription) beginQueueLocked(from uint64) {
	h := sub.shard
	r := &h.mu.ring
	sub.queue = &queue{limit: h.broker.cfg.SubscriberQueue, limitBytes: r.limitBytes}
	for offset := from; r.holds(offset); offset++ {
		e := r.at(offset)
		if !h.broker.takeMemory(int64(len(e.payload)) + queuedBytes) {
			sub.missLocked(offset, r.end()-1)
			return
		}
		sub.queue.records = append(sub.queue.records, queued{offset, e})
		sub.queue.backlog++
	}
}

// queuedSize is what the records take in the subscription's queue.
func (sub *Subscription) queuedSize(entries []entry) int64 {
	if sub.queue.missed != nil {
		return 0
	}
	size := int64(len(entries)) * queuedBytes
	for i := range entries {
		size += int64(len(entries[i].payload))
	}
	return size
}

// takeMemory claims memory of the in-memory streams for a queue.
func (b *Broker) takeMemory(size int64) bool {
	if b.memoryBytes.Add(size) <= b.cfg.MemoryBytesTotal {
		return true
	}
	b.memoryBytes.Add(-size)
	return false
}

// missLocked notes that [first, last] are dropped.
func (sub *Subscription) missLocked(first, last uint64) {
	if sub.queue.missed == nil {
		sub.queue.missed = &OffsetRange{First: first}
	}
	sub.queue.missed.Last = last
	sub.shard.broker.counters.dropped.Add(last - first + 1)
}

// queueLocked takes the records that are published, beginning with offset first, or
// drops those that have no place. A subscription that holds publishers back drops none:
// there is room for it, or the publish was refused. Each publisher that had passed the
// gate adds one publish.
func (sub *Subscription) queueLocked(first uint64, entries []entry) {
	q := sub.queue
	blocks := sub.opts.WhenFull == WhenFullBlock && q.missed == nil
	last := first + uint64(len(entries)) - 1
	for i, e := range entries {
		size := int64(len(e.payload))
		switch {
		case blocks:
			sub.shard.broker.memoryBytes.Add(size + queuedBytes)
		case q.missed != nil || !q.fits(size) || !sub.shard.broker.takeMemory(size+queuedBytes):
			sub.missLocked(first+uint64(i), last)
			return
		}
		q.records = append(q.records, queued{first + uint64(i), e})
		q.bytes += size
	}
}

// takeQueued gives one page of the queue.
func (sub *Subscription) takeQueued() (Delivery, error) {
	d, err := sub.takeStored()
	if err != nil || len(d.Records) == 0 {
		return d, err
	}
	err = sub.shard.decode(&d.Records)
	sub.shard.broker.counters.delivered(d.Records)
	return d, err
}

func (sub *Subscription) takeStored() (Delivery, error) {
	h := sub.shard
	h.mu.Lock()
	defer h.mu.Unlock()
	q := sub.queue
	switch {
	case sub.next < h.mu.floor: // deleted since it was queued
		return Delivery{Next: sub.next}, &CursorTooOldError{Stream: h.stream, Shard: h.index, Requested: sub.next, Oldest: h.mu.floor}
	case len(q.records) > 0:
		return sub.takePageLocked(), nil
	case q.missed != nil:
		d := Delivery{Missed: q.missed, Next: q.missed.Last + 1}
		sub.next, q.missed = d.Next, nil
		return d, nil
	default:
		q.records = nil
		return Delivery{Next: sub.next}, h.mu.ended
	}
}

// shiftLocked removes the first record of the queue.
func (sub *Subscription) shiftLocked() queued {
	q := sub.queue
	first := q.records[0]
	q.records[0] = queued{}
	q.records = q.records[1:]
	if q.backlog > 0 {
		q.backlog--
	} else {
		q.bytes -= int64(len(first.payload))
	}
	sub.shard.broker.memoryBytes.Add(-int64(len(first.payload)) - queuedBytes)
	sub.next = first.offset + 1
	return first
}

func (sub *Subscription) takePageLocked() Delivery {
	records, bytes := sub.records[:0], int64(0)
	for len(sub.queue.records) > 0 && len(records) < sub.opts.PageRecords {
		if bytes += int64(len(sub.queue.records[0].payload)); bytes > sub.opts.PageBytes && len(records) > 0 {
			break
		}
		next := sub.shiftLocked()
		records = append(records, stored(next.offset, next.timestamp, next.payload))
	}
	sub.records = records[:0]
	sub.shard.makeRoomLocked()
	return Delivery{Records: records, Next: sub.next}
}

// endQueueLocked gives the queue's memory back.
func (sub *Subscription) endQueueLocked() {
	for len(sub.queue.records) > 0 {
		sub.shiftLocked()
	}
}
