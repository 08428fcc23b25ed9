package broker

import (
	"context"
	"errors"

	"felix.local/felix/engine"
)

// Publish appends messages to one shard, all with consecutive offsets, and returns
// when they are acknowledged under the stream's fsync mode. Messages are copied
// before it returns. Errors are those of engine.Log.Append, and before anything is
// appended *TooLargeError, *FormatError, *NoShardError, *UnavailableError,
// *DeletedError, *ClosedError.
func (s *Stream) Publish(ctx context.Context, to ShardChoice, messages ...Message) (Published, error) {
	p, err := s.publish(ctx, to, nil, messages)
	return s.broker.counters.published(p, err, messageBytes(messages))
}

// PublishProduced is Publish of a batch of an idempotent producer: a batch that the
// shard holds already is not stored again, and answers the offsets it got the first
// time, with Duplicate set. Sequences are per producer and shard, so a retry has to name
// the shard that the first try went to. A batch that is neither the next one nor held is an
// *engine.SequenceError. An in-memory stream takes none: *InvalidError.
func (s *Stream) PublishProduced(ctx context.Context, to ShardChoice, batch engine.ProducerBatch, messages ...Message) (Published, error) {
	p, err := s.publish(ctx, to, &batch, messages)
	return s.broker.counters.published(p, err, messageBytes(messages))
}

// published notes the outcome of a publish, and passes it on.
func (c *counters) published(p Published, err error, bytes int64) (Published, error) {
	switch {
	case err != nil:
		c.publishFailures.Add(1)
		return Published{}, err
	case p.Duplicate:
		c.duplicates.Add(1)
	default:
		c.publishes.Add(1)
		c.publishedRecords.Add(p.Last - p.First + 1)
		c.publishedBytes.Add(uint64(bytes))
	}
	return p, nil
}

func (s *Stream) publish(ctx context.Context, to ShardChoice, batch *engine.ProducerBatch, messages []Message) (Published, error) {
	h, err := s.gate(ctx, to, batch, messages)
	if err != nil {
		return Published{}, err
	}
	var result engine.ProducedResult
	if s.config.Durable {
		result, err = h.append(ctx, batch, messages)
	} else {
		result.AppendResult, err = h.remember(messages)
	}
	return h.published(result), err
}

func (h *shard) published(r engine.ProducedResult) Published {
	return Published{Shard: h.index, First: r.First, Last: r.Last, Duplicate: r.Duplicate}
}

// gate gives the shard that a publish goes to, once it may go there.
func (s *Stream) gate(ctx context.Context, to ShardChoice, batch *engine.ProducerBatch, messages []Message) (*shard, error) {
	if batch != nil && !s.config.Durable {
		return nil, &InvalidError{Stream: s.name.String(), Problem: "an in-memory stream knows no idempotent producers; publish without a producer, or create a durable stream"}
	}
	if s.broker.draining.Load() {
		return nil, &ClosedError{}
	}
	h, err := s.choose(to)
	if err != nil {
		return nil, err
	}
	if err := s.admit(messages); err != nil {
		return nil, err
	}
	if h.blocking.Load() > 0 {
		if err := h.waitForRoom(ctx); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// choose gives the shard that a publish goes to.
func (s *Stream) choose(to ShardChoice) (*shard, error) {
	shards := *s.shards.Load()
	switch to.kind {
	case chooseExplicit:
		return s.shard(to.shard)
	case chooseByKey:
		return shards[keyShard(to.key, len(shards))], nil
	default:
		return shards[int(s.turn.Add(1)-1)%len(shards)], nil
	}
}

// admit refuses a batch that is over a bound or that the format cannot hold.
func (s *Stream) admit(messages []Message) error {
	cfg := &s.broker.cfg
	if len(messages) == 0 {
		return &InvalidError{Stream: s.name.String(), Problem: "a publish needs at least one record"}
	}
	if len(messages) > cfg.BatchRecordsMax {
		return &TooLargeError{Stream: s.name, What: "the number of records of a publish", Size: int64(len(messages)), Max: int64(cfg.BatchRecordsMax)}
	}
	if s.config.Format == FormatRaw {
		for i := range messages {
			switch m := &messages[i]; {
			case m.Key != nil:
				return &FormatError{Stream: s.name, What: "keys"}
			case len(m.Headers) > 0:
				return &FormatError{Stream: s.name, What: "headers"}
			}
		}
	}
	if bytes := messageBytes(messages); bytes > cfg.BatchBytesMax {
		return &TooLargeError{Stream: s.name, What: "the bytes of a publish", Size: bytes, Max: cfg.BatchBytesMax}
	}
	return nil
}

// messageBytes is the size of values, keys and headers.
func messageBytes(messages []Message) int64 {
	bytes := int64(0)
	for i := range messages {
		m := &messages[i]
		bytes += int64(len(m.Value)) + int64(len(m.Key))
		for k := range m.Headers {
			bytes += int64(len(m.Headers[k].Key)) + int64(len(m.Headers[k].Value))
		}
	}
	return bytes
}

// scratch is what encoding one publish needs.
type scratch struct {
	records   []engine.Record
	envelopes []byte
}

// scratchBytesMax is the largest buffer that is kept for another publish.
const scratchBytesMax = 1 << 20

// append hands the messages to the log, which copies them before it returns.
func (h *shard) append(ctx context.Context, batch *engine.ProducerBatch, messages []Message) (result engine.ProducedResult, err error) {
	sc, err := h.encode(messages)
	if err != nil {
		return result, err
	}
	if batch == nil {
		result.AppendResult, err = h.log.Append(ctx, sc.records...)
	} else {
		result, err = h.log.AppendProduced(ctx, *batch, sc.records...)
	}
	h.broker.giveBack(sc)
	if err != nil {
		return engine.ProducedResult{}, h.appendError(err)
	}
	return result, nil
}

// encode gives the records that messages are in the log, for an append; giveBack takes
// them once it has copied them.
func (h *shard) encode(messages []Message) (*scratch, error) {
	if h.log == nil || h.over.Load() {
		return nil, h.whyNot()
	}
	sc := h.broker.scratches.Get().(*scratch)
	sc.encode(h.format, messages)
	return sc, nil
}

func (sc *scratch) encode(format Format, messages []Message) {
	if format == FormatRaw {
		for i := range messages {
			m := &messages[i]
			sc.records = append(sc.records, engine.Record{Payload: m.Value, TimestampMicros: m.TimestampMicros})
		}
		return
	}
	size := 0
	for i := range messages {
		size += envelopeSize(&messages[i])
	}
	if cap(sc.envelopes) < size {
		sc.envelopes = make([]byte, 0, size)
	}
	for i := range messages {
		start := len(sc.envelopes)
		sc.envelopes = AppendEnvelope(sc.envelopes, &messages[i])
		sc.records = append(sc.records, engine.Record{Payload: sc.envelopes[start:], TimestampMicros: messages[i].TimestampMicros})
	}
}

func (b *Broker) giveBack(sc *scratch) {
	clear(sc.records)
	sc.records, sc.envelopes = sc.records[:0], sc.envelopes[:0]
	if cap(sc.envelopes) <= scratchBytesMax && cap(sc.records) <= scratchBytesMax/64 {
		b.scratches.Put(sc)
	}
}

// appendError translates what the log answers.
func (h *shard) appendError(err error) error {
	switch {
	case errors.Is(err, engine.ErrPoisoned):
		return h.unavailable(StatePoisoned, err)
	case errors.Is(err, engine.ErrClosed):
		return h.endedOr(err)
	}
	return err
}

// whyNot is why a shard of a durable stream has no log.
func (h *shard) whyNot() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.ended != nil {
		return h.mu.ended
	}
	return h.unavailable(h.mu.state, h.mu.reason)
}

// waitForRoom waits until no subscription that holds publishers back is full. Nothing
// was appended when it fails.
func (h *shard) waitForRoom(ctx context.Context) error {
	waited := false
	for {
		h.mu.Lock()
		full := h.mu.ended == nil && h.mu.state == StateServing && h.fullLocked()
		if !full {
			h.mu.Unlock()
			return nil
		}
		if h.mu.room == nil {
			h.mu.room = make(chan struct{})
		}
		room := h.mu.room
		h.mu.Unlock()
		if !waited {
			waited = true
			h.broker.counters.blocked.Add(1)
		}
		select {
		case <-room:
		case <-ctx.Done():
			return &BlockedError{Stream: h.stream, Shard: h.index, Cause: ctx.Err()}
		case <-h.broker.drained:
			return &ClosedError{}
		}
	}
}

func (h *shard) fullLocked() bool {
	for _, sub := range h.mu.blockers {
		if sub.fullLocked() {
			return true
		}
	}
	return false
}

func (h *shard) makeRoomLocked() {
	if h.mu.room != nil {
		close(h.mu.room)
		h.mu.room = nil
	}
}
