package broker

// queue is what a subscription to an in-memory stream has not taken yet: first what
// the ring held when it began, then what was published since, up to limit records and limitBytes
// of payload. What does not fit is dropped: the newest, so that what is delivered has no gap but
// one, which is told after what was queued before it.
type queue struct {
	backlog, records []queued
	// bytes is the payload in records.
	bytes      int64
	limit      int
	limitBytes int64
	missed     *OffsetRange
}

type queued struct {
	offset uint64
	entry
}

// newQueue begins with what the ring holds from an offset on.
func newQueue(r *ring, from uint64, limit int) *queue {
	q := &queue{limit: limit, limitBytes: r.limitBytes}
	for offset := from; r.holds(offset); offset++ {
		q.backlog = append(q.backlog, queued{offset, r.at(offset)})
	}
	return q
}

func (q *queue) empty() bool {
	return len(q.backlog) == 0 && len(q.records) == 0 && q.missed == nil
}

// queueLocked takes a record that is published, or drops it. A subscription that
// holds publishers back never drops: each publisher that had passed the gate adds
// one publish at most.
func (sub *Subscription) queueLocked(offset uint64, e entry) {
	q := sub.queue
	size := int64(len(e.payload))
	full := len(q.records) >= q.limit || len(q.records) > 0 && q.bytes+size > q.limitBytes
	if sub.opts.WhenFull != WhenFullBlock && (q.missed != nil || full) {
		sub.shard.broker.counters.dropped.Add(1)
		if q.missed == nil {
			q.missed = &OffsetRange{First: offset}
		}
		q.missed.Last = offset
		return
	}
	q.records = append(q.records, queued{offset, e})
	q.bytes += size
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
	if len(q.backlog) == 0 {
		q.backlog, q.records, q.bytes = q.records, nil, 0
	}
	switch {
	case len(q.backlog) > 0:
		return sub.takePageLocked(), nil
	case q.missed != nil:
		d := Delivery{Missed: q.missed, Next: q.missed.Last + 1}
		sub.next, q.missed = d.Next, nil
		return d, nil
	default:
		return Delivery{Next: sub.next}, h.mu.ended
	}
}

func (sub *Subscription) takePageLocked() Delivery {
	h, q := sub.shard, sub.queue
	records, bytes := sub.records[:0], int64(0)
	for len(q.backlog) > 0 && (sub.opts.PageRecords <= 0 || len(records) < sub.opts.PageRecords) {
		next := &q.backlog[0]
		if bytes += int64(len(next.payload)); bytes > sub.opts.PageBytes && len(records) > 0 {
			break
		}
		records = append(records, stored(next.offset, next.timestamp, next.payload))
		*next = queued{}
		q.backlog = q.backlog[1:]
	}
	sub.records = records[:0]
	sub.next = records[len(records)-1].Offset + 1
	h.makeRoomLocked()
	return Delivery{Records: records, Next: sub.next}
}
