package broker

import (
	"context"
	"errors"
	"fmt"

	"felix.local/felix/engine"
)

// EnvelopeError says that a record of a kafka stream is no envelope: something
// other than this server wrote it.
type EnvelopeError struct {
	Stream StreamName
	Shard  int
	Offset uint64
	Err    error
}

func (e *EnvelopeError) Error() string {
	return fmt.Sprintf("stream %s shard %d: the record at offset %d cannot be read: %v; it was written with another format",
		e.Stream, e.Shard, e.Offset, e.Err)
}

// Unwrap gives what is wrong with it.
func (e *EnvelopeError) Unwrap() error { return e.Err }

// Read returns records from offset from on: up to maxBytes of payload and maxRecords
// (0: the engine's bound), but at least one if there is one. At the next offset it
// is empty; past it the error is a *CursorInFutureError, below the base a
// *CursorTooOldError. Payloads are shared and must not be changed.
func (s *Stream) Read(ctx context.Context, shard int, from uint64, maxBytes int64, maxRecords int) (Page, error) {
	h, err := s.shard(shard)
	if err != nil {
		return Page{}, err
	}
	return h.page(ctx, from, maxBytes, maxRecords, nil)
}

// page reads one page into dst, which is overwritten.
func (h *shard) page(ctx context.Context, from uint64, maxBytes int64, maxRecords int, dst []Record) (Page, error) {
	if maxRecords <= 0 {
		maxRecords = h.broker.cfg.Engine.MaxRecordsPerRead
	}
	logBase := h.logBase()
	h.mu.Lock()
	p := Page{Records: dst[:0], Base: min(h.baseLocked(logBase), h.mu.next), Next: h.mu.next, Continue: from}
	if err := h.readableLocked(from, p.Base); err != nil || from == p.Next {
		h.mu.Unlock()
		return p, err
	}
	held := h.mu.ring.holds(from)
	if held {
		h.ringPageLocked(&p, from, maxBytes, maxRecords)
	}
	h.mu.Unlock()
	if held {
		h.broker.counters.ringReads.Add(1)
		return p, h.decodePage(&p)
	}
	if h.log == nil {
		// Below the ring of an in-memory stream there is nothing: baseLocked
		// refused it, and its ring ends at next.
		panic("broker: an in-memory stream's ring does not hold what it should")
	}
	h.broker.counters.diskReads.Add(1)
	return h.diskPage(ctx, p, from, maxBytes, maxRecords)
}

// readableLocked refuses a read that names no place in the view.
func (h *shard) readableLocked(from, base uint64) error {
	switch {
	case h.mu.ended != nil:
		return h.mu.ended
	case h.mu.state == StateRefused:
		return h.unavailable(StateRefused, h.mu.reason)
	case from < base:
		return &CursorTooOldError{Stream: h.stream, Shard: h.index, Requested: from, Oldest: base}
	case from > h.mu.next:
		return &CursorInFutureError{Stream: h.stream, Shard: h.index, Requested: from, Next: h.mu.next}
	}
	return nil
}

// ringPageLocked takes stored records; decode makes them what they mean.
func (h *shard) ringPageLocked(p *Page, from uint64, maxBytes int64, maxRecords int) {
	end := min(h.mu.ring.end(), p.Next)
	bytes := int64(0)
	for offset := from; offset < end && len(p.Records) < maxRecords; offset++ {
		e := h.mu.ring.at(offset)
		bytes += int64(len(e.payload))
		if bytes > maxBytes && len(p.Records) > 0 {
			return
		}
		p.Records = append(p.Records, stored(offset, e.timestamp, e.payload))
	}
}

func (h *shard) diskPage(ctx context.Context, p Page, from uint64, maxBytes int64, maxRecords int) (Page, error) {
	records, next, err := h.log.ReadNext(ctx, from, maxBytes, maxRecords)
	if err != nil {
		return p, h.readError(err)
	}
	for i := range records {
		// The log may have committed past the view: what its end is was decided
		// when the view was looked at.
		if r := &records[i]; r.Offset < p.Next {
			p.Records = append(p.Records, stored(r.Offset, r.TimestampMicros, r.Payload))
		}
	}
	if len(p.Records) == 0 {
		if next > from { // all that is there starts generations
			p.Continue = min(next, p.Next)
			return p, nil
		}
		// The log's readers see at least what its follower was told, unless a
		// truncation or a failed flush took it back meanwhile.
		return p, h.takenBack(from)
	}
	return p, h.decodePage(&p)
}

// decodePage makes the records what they mean, and says where to go on.
func (h *shard) decodePage(p *Page) error {
	err := h.decode(&p.Records)
	if n := len(p.Records); n > 0 {
		p.Continue = p.Records[n-1].Offset + 1
	}
	return err
}

// takenBack explains why records below the view's end are not there any more.
func (h *shard) takenBack(from uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.state == StatePoisoned {
		return h.unavailable(StatePoisoned, h.mu.reason)
	}
	return &CursorInFutureError{Stream: h.stream, Shard: h.index, Requested: from, Next: h.mu.next}
}

// stored is a record with its whole payload as the value. A raw record has a value,
// if an empty one.
func stored(offset, timestamp uint64, payload []byte) Record {
	if payload == nil {
		payload = []byte{}
	}
	return Record{Offset: offset, Message: Message{Value: payload, TimestampMicros: timestamp}}
}

// decode makes stored records what they mean in the stream's format. It is not
// called with the lock: envelopes take time. Records end before the first that
// cannot be read; that is an error only when it is the first of all, so that what
// comes before it is delivered.
func (h *shard) decode(records *[]Record) error {
	if h.format == FormatRaw {
		return nil
	}
	for i := range *records {
		r := &(*records)[i]
		m, err := ParseEnvelope(r.Value)
		if err != nil {
			*records = (*records)[:i]
			if i > 0 {
				return nil
			}
			return &EnvelopeError{Stream: h.stream, Shard: h.index, Offset: r.Offset, Err: err}
		}
		m.TimestampMicros = r.TimestampMicros
		r.Message = m
	}
	return nil
}

// readError translates what the log answers.
func (h *shard) readError(err error) error {
	var trimmed *engine.TrimmedError
	switch {
	case errors.As(err, &trimmed):
		return &CursorTooOldError{Stream: h.stream, Shard: h.index, Requested: trimmed.Requested, Oldest: max(trimmed.Oldest, h.base())}
	case errors.Is(err, engine.ErrPoisoned):
		return h.unavailable(StatePoisoned, err)
	case errors.Is(err, engine.ErrClosed):
		return h.endedOr(err)
	}
	return err
}

// endedOr gives why the shard ended, if it did.
func (h *shard) endedOr(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.mu.ended != nil:
		return h.mu.ended
	case h.broker.draining.Load():
		return &ClosedError{}
	}
	return err
}

// Resolve gives the offset that a start means now.
func (s *Stream) Resolve(ctx context.Context, shard int, start Start) (uint64, error) {
	h, err := s.shard(shard)
	if err != nil {
		return 0, err
	}
	return h.resolve(ctx, start)
}

func (h *shard) resolve(ctx context.Context, start Start) (uint64, error) {
	logBase := h.logBase()
	h.mu.Lock()
	base := min(h.baseLocked(logBase), h.mu.next)
	at := base
	switch start.kind {
	case startLatest:
		at = h.mu.next
	case startOffset:
		at = start.offset
	}
	err := h.readableLocked(at, base)
	h.mu.Unlock()
	if err == nil && start.kind == startTime {
		return h.offsetForTime(ctx, start.offset)
	}
	return at, err
}

// offsetForTime is the first offset whose record is not older than micros, by
// binary search: right for timestamps that do not fall. Where publishers set
// timestamps that do, it is an offset whose record is not older and whose
// predecessor is.
func (h *shard) offsetForTime(ctx context.Context, micros uint64) (uint64, error) {
	for {
		low := h.base()
		h.mu.Lock()
		high := h.mu.next
		h.mu.Unlock()
		found, err := h.searchTime(ctx, micros, low, high)
		var gone *CursorTooOldError
		if errors.As(err, &gone) && gone.Oldest > low {
			continue // trimmed under the search; the base rises each time
		}
		return found, err
	}
}

func (h *shard) searchTime(ctx context.Context, micros, low, high uint64) (uint64, error) {
	var one [1]Record
	for low < high {
		mid := low + (high-low)/2
		p, err := h.page(ctx, mid, 1, 1, one[:0])
		if err != nil {
			return 0, err
		}
		if len(p.Records) == 0 {
			return mid, nil // the view's end came down to here
		}
		if p.Records[0].TimestampMicros >= micros {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low, nil
}
