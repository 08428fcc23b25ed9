package engine

import (
	"context"
	"fmt"
	"math"
	"time"

	"felix.local/felix/segment"
)

// measure adds up what records take on disk and what version they need, and
// refuses what the format cannot hold before anything is changed.
func (l *Log) measure(records []Record) (size, payloadBytes int64, version uint16, err error) {
	if len(records) == 0 {
		return 0, 0, 0, &InvalidRangeError{Label: l.label, Reason: "an append needs at least one record"}
	}
	for i := range records {
		r := &records[i]
		if len(r.Payload) > segment.MaxPayloadBytes {
			return 0, 0, 0, &UnsupportedError{Label: l.label, Reason: fmt.Sprintf(
				"record %d of the append has %d payload bytes; the format holds %d", i, len(r.Payload), segment.MaxPayloadBytes)}
		}
		if reason := unwritable(r.Mark, r.Payload); reason != "" {
			return 0, 0, 0, &UnsupportedError{Label: l.label, Reason: fmt.Sprintf("record %d of the append %s", i, reason)}
		}
		size += int64(segment.EncodedSize(r.Mark, len(r.Payload)))
		payloadBytes += int64(len(r.Payload))
		version = max(version, segment.RequiredVersion(r.Mark.Kind))
	}
	// One write is one transfer of at most this many bytes.
	if size > math.MaxInt32/2 {
		return 0, 0, 0, &UnsupportedError{Label: l.label, Reason: fmt.Sprintf(
			"an append of %d bytes; split it below %d", size, math.MaxInt32/2)}
	}
	return size, payloadBytes, version, nil
}

// unwritable says why a record with a mark has no form on disk that reads back as it
// is, "" when it has one.
func unwritable(m segment.Mark, payload []byte) string {
	switch m.Kind {
	case segment.Plain, segment.BatchOpen, segment.BatchContinue:
		return ""
	case segment.GenerationStart:
		if _, ok := (segment.Record{Mark: m, Payload: payload}).Generation(); !ok {
			return "starts a generation and does not name it"
		}
		return ""
	default:
		return fmt.Sprintf("is of %v, which the format does not have", m.Kind)
	}
}

// stage assigns offsets and encodes the records into a batch. handle says that the
// result is kept as a handle. lead says that no commit loop runs and the caller
// must start one. c is nil for an append without a condition; when it staged
// nothing and has the answer, the result has no batch.
func (l *Log) stage(ctx context.Context, records []Record, handle bool, c *claim) (p Pending, lead bool, err error) {
	p = Pending{log: l}
	if l.store.observed() {
		p.started = time.Now()
	}
	size, payloadBytes, version, err := l.measure(records)
	if err != nil {
		return Pending{}, false, err
	}
	if err := ctx.Err(); err != nil {
		return Pending{}, false, &LogError{Label: l.label, Op: "append", Err: err}
	}
	if reason, ok := l.store.space.admit(size); !ok {
		l.store.counters.full.Add(1)
		return Pending{}, false, &FullError{Label: l.label, Guard: reason}
	}
	// Staging bytes are reserved before the lock is taken: whoever returns
	// bytes needs that lock to get there.
	perLog, err := l.stagedBytes.Take(ctx, size)
	if err != nil {
		return Pending{}, false, &BackPressureError{
			Label: l.label, Wanted: size, Max: l.stagedBytes.Max(), Bound: "StagedBytesPerLogMax", Cause: err,
		}
	}
	perStore, err := l.store.staging.Take(ctx, size)
	if err != nil {
		l.stagedBytes.Give(perLog)
		return Pending{}, false, &BackPressureError{
			Label: l.label, Wanted: size, Max: l.store.staging.Max(), Bound: "StagedBytesMax", Cause: err,
		}
	}
	l.mu.Lock()
	p.b, p.result, err = l.stageLocked(ctx, records, size, version, c)
	if err != nil || p.b == nil {
		l.mu.Unlock()
		l.stagedBytes.Give(perLog)
		l.store.staging.Give(perStore)
		return Pending{}, false, err
	}
	p.b.reservedLog += perLog
	p.b.reservedStore += perStore
	p.payloadBytes = payloadBytes
	p.lone = !handle && p.b.appends == 1
	p.done = l.signalLocked(p.b, p.lone)
	if !handle && !p.lone && l.cfg.FsyncMode == FsyncOnCommit && ctx.Done() != nil {
		p.crowd = p.b.joinCrowd()
	}
	lead = !l.mu.committing
	l.mu.committing = true
	l.mu.Unlock()
	return p, lead, nil
}

// signalLocked gives what an append to the batch waits for.
func (l *Log) signalLocked(b *batch, lone bool) chan struct{} {
	if lone {
		b.lone = l.store.signals.Get().(chan struct{})
		return b.lone
	}
	if b.done == nil {
		b.done = make(chan struct{})
	}
	return b.done
}

// admitLocked waits at the gate, which unlocks, and refuses when the log is closed.
func (l *Log) admitLocked(ctx context.Context) error {
	for l.mu.gate != nil && !l.mu.closing && l.mu.poison == nil {
		gate := l.mu.gate
		l.mu.Unlock()
		select {
		case <-gate:
			l.mu.Lock()
		case <-ctx.Done():
			l.mu.Lock()
			return &LogError{Label: l.label, Op: "append", Err: ctx.Err()}
		}
	}
	if l.mu.closing {
		return &ClosedError{Label: l.label}
	}
	return nil
}

// stageLocked may unlock while the gate is closed. It gives no batch when a claim
// leaves nothing to stage.
func (l *Log) stageLocked(ctx context.Context, records []Record, size int64, version uint16, c *claim) (*batch, AppendResult, error) {
	if err := l.admitLocked(ctx); err != nil {
		return nil, AppendResult{}, err
	}
	if c != nil {
		// Before a poison refuses: what is durable can be answered all the same.
		var err error
		if records, err = c.decideLocked(l, records); err != nil || len(records) == 0 {
			return nil, AppendResult{}, err
		}
		if size, _, version, err = l.measure(records); err != nil {
			return nil, AppendResult{}, err
		}
	} else if err := l.ownLocked(); err != nil {
		return nil, AppendResult{}, err
	}
	switch {
	case l.mu.poison != nil:
		return nil, AppendResult{}, l.mu.poison
	case uint64(len(records)) > math.MaxUint64-l.mu.plan.next:
		return nil, AppendResult{}, &ExhaustedError{Label: l.label, What: "offsets"}
	}
	return l.putLocked(records, size, version)
}

// putLocked puts records behind everything staged.
func (l *Log) putLocked(records []Record, size int64, version uint16) (*batch, AppendResult, error) {
	b, err := l.batchForLocked(size, version)
	if err != nil {
		return nil, AppendResult{}, err
	}
	result := AppendResult{First: b.next, Last: b.next + uint64(len(records)) - 1}
	l.encodeLocked(b, records, size)
	l.mu.produced.observe(b, records, result.First, version)
	if b.marked && b.done == nil {
		b.done = make(chan struct{}) // for who asks whether its records are there
	}
	l.stagedAppends.Add(1)
	return b, result, nil
}

// batchForLocked gives the batch that takes size more bytes, with room for them.
//
// Whether a segment ends here is decided for this append alone, never by what
// group commit gathered: boundaries are a function of the sequence of appends.
func (l *Log) batchForLocked(size int64, version uint16) (*batch, error) {
	p := &l.mu.plan
	roll := version > p.version || p.records && (p.size+size > l.ceilingLocked() || l.mu.roll.readyLocked())
	if n := len(l.mu.staged); n > 0 && !roll {
		if b := l.mu.staged[n-1]; int64(len(b.buf))+size <= batchBytesMax {
			if err := b.grow(l.store.arena, int(size)); err != nil {
				return nil, &LogError{Label: l.label, Op: "append", Err: err}
			}
			return b, nil
		}
	}
	if roll && l.mu.active.id+uint64(l.rollsStagedLocked()) == math.MaxUint64 {
		return nil, &ExhaustedError{Label: l.label, What: "segment ids"}
	}
	buf, err := l.store.arena.Take(int(size))
	if err != nil {
		return nil, &LogError{Label: l.label, Op: "append", Err: err}
	}
	if roll {
		l.mu.roll.claimed = l.mu.roll.prepared != nil
		p.size, p.records = segment.HeaderSize, false
		p.version = max(segment.VersionDefault, version, p.version)
		p.builder = segment.IndexBuilder{Spacing: l.cfg.IndexSpacingBytes}
	}
	b := &batch{
		buf: buf[:0], first: p.next, next: p.next, pos: p.size,
		roll: roll, version: p.version,
	}
	if roll {
		b.producers = l.viewForRollLocked()
	}
	l.mu.produced.begin(b)
	l.mu.staged = append(l.mu.staged, b)
	return b, nil
}

func (l *Log) rollsStagedLocked() int {
	n := 0
	for _, b := range l.mu.staged {
		if b.roll {
			n++
		}
	}
	return n
}

// encodeLocked appends the records to the batch: one copy of each payload, from
// the caller's memory to where the kernel writes from.
func (l *Log) encodeLocked(b *batch, records []Record, size int64) {
	dst := b.extend(int(size))
	now := uint64(0)
	p := &l.mu.plan
	for i := range records {
		r := &records[i]
		timestamp := r.TimestampMicros
		if timestamp == 0 {
			if now == 0 {
				now = l.store.nowMicros()
			}
			timestamp = now
		}
		n := segment.EncodeRecord(dst, p.next, timestamp, r.Mark, r.Payload)
		dst = dst[n:]
		if entry, ok := p.builder.Observe(p.next, p.size, int64(n)); ok {
			b.entries = append(b.entries, entry)
		}
		p.next++
		p.size += int64(n)
		b.newest = timestamp
		b.payloadBytes += int64(len(r.Payload))
	}
	p.records = true
	b.next = p.next
	b.builder = p.builder
	b.appends++
}
