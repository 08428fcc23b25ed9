package broker

import (
	"context"
	"errors"
	"sync/atomic"

	"felix.local/felix/engine"
)

// Stream is a registered stream. A handle of a deleted stream answers
// *DeletedError, also when a stream of the same name was created since.
type Stream struct {
	broker *Broker
	name   StreamName
	// config has everything resolved except Shards and retention, which change:
	// see Config.
	config StreamConfig
	// def is the definition as it is on disk. Broker.changing guards it.
	def definition
	// err is why the definition cannot be read; nothing else is set then.
	err error
	// deleting says that a deletion has begun and could not be finished yet.
	deleting atomic.Bool
	// shards only grow; the slice is replaced.
	shards atomic.Pointer[[]*shard]
	// retention is in effect on every shard.
	retention atomic.Pointer[retention]
	turn      atomic.Uint64
}

// Name is the stream's name.
func (s *Stream) Name() StreamName { return s.name }

// Config is the definition as it is in effect.
func (s *Stream) Config() StreamConfig {
	config := s.config
	config.Shards = s.Shards()
	if config.Durable {
		r := *s.retention.Load()
		config.RetentionBytes, config.RetentionAge = &r.bytes, &r.age
	}
	return config
}

// Shards is their number.
func (s *Stream) Shards() int { return len(*s.shards.Load()) }

// Shard describes one shard.
func (s *Stream) Shard(shard int) (ShardInfo, error) {
	h, err := s.shard(shard)
	if err != nil {
		return ShardInfo{}, err
	}
	return h.info(), nil
}

// Info describes the stream and its shards.
func (s *Stream) Info() StreamInfo {
	if s.err != nil {
		return StreamInfo{Name: s.name, Err: s.err}
	}
	info := StreamInfo{Name: s.name, Config: s.Config()}
	if s.deleting.Load() {
		info.Err = &UnfinishedError{Stream: s.name}
	}
	for _, h := range *s.shards.Load() {
		info.Shards = append(info.Shards, h.info())
	}
	return info
}

func (s *Stream) shard(shard int) (*shard, error) {
	shards := *s.shards.Load()
	if shard < 0 || shard >= len(shards) {
		return nil, &NoShardError{Stream: s.name, Shard: shard, Shards: len(shards)}
	}
	return shards[shard], nil
}

// EnforceRetention makes one pass over all shards now. Shards that do not serve are
// left out; the errors of others are joined.
func (s *Stream) EnforceRetention(ctx context.Context) (RetentionResult, error) {
	var (
		result RetentionResult
		errs   []error
	)
	for _, h := range *s.shards.Load() {
		if h.log != nil {
			r, err := h.log.EnforceRetention(ctx)
			result.Segments += r.Segments
			result.Bytes += r.Bytes
			if err != nil && !errors.Is(err, engine.ErrPoisoned) {
				errs = append(errs, h.readError(err))
			}
			h.touch()
		}
		result.Bases = append(result.Bases, h.info().Base)
	}
	return result, errors.Join(errs...)
}

// touch wakes all who watch: a base may have risen.
func (h *shard) touch() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wakeLocked()
}

// DeleteRecords makes every record below offset unreadable, durably, and gives the
// oldest offset there is then. Whole segments below it are removed; what shares a
// segment with later records goes when that segment does. An offset past the next is
// a *CursorInFutureError.
//
// The floor is written to the stream's definition, so everything below it is made
// durable first: after a power loss the log must not end below its floor, or
// records published then would be hidden by it.
func (s *Stream) DeleteRecords(ctx context.Context, shard int, offset uint64) (oldest uint64, err error) {
	h, err := s.shard(shard)
	if err != nil {
		return 0, err
	}
	info := h.info()
	switch {
	case info.State != StateServing:
		return 0, h.unavailable(info.State, info.Reason)
	case offset > info.Next:
		return 0, &CursorInFutureError{Stream: s.name, Shard: shard, Requested: offset, Next: info.Next}
	case h.log == nil:
		if err := h.endedOr(nil); err != nil {
			return 0, err
		}
		h.setFloor(offset)
		return h.base(), nil
	case h.log.DurableOffset() < offset:
		if err := h.log.Sync(ctx); err != nil {
			return 0, h.appendError(err)
		}
	}
	if err := s.raiseFloor(ctx, h, offset); err != nil {
		return 0, err
	}
	// The records are gone for readers, whatever comes of their files.
	if _, err := h.log.TrimBefore(ctx, offset); err != nil {
		s.broker.cfg.Logger.Warn("deleted records still take up room; a later pass of retention tries again",
			"shard", h.log.Label(), "error", err)
	}
	return h.base(), nil
}

// raiseFloor hides the records below offset, which are durable, in the definition and
// then in the shard.
func (s *Stream) raiseFloor(ctx context.Context, h *shard, offset uint64) error {
	_, changed, err := s.broker.change(ctx)
	if err != nil {
		return err
	}
	defer changed()
	if err := s.registered(); err != nil {
		return err
	}
	if offset <= s.def.floor(h.index) {
		return nil
	}
	return s.adopt(s.def.withFloor(h.index, offset), func() { h.setFloor(offset) })
}

// adopt saves a definition and puts it into force. One that took the former's place but
// may not survive a power loss is in force too, and the error says so: the next start
// would follow it.
func (s *Stream) adopt(d definition, inForce func()) error {
	err := s.broker.save(d)
	var unsure *DefinitionError
	if err == nil || errors.As(err, &unsure) && unsure.Replaced {
		s.def = d
		inForce()
	}
	return err
}

// Generations tells which leadership generation wrote which records of a shard, oldest
// first; empty where nobody ever led by generation, and for an in-memory stream.
func (s *Stream) Generations(shard int) ([]Generation, error) {
	h, err := s.shard(shard)
	if err != nil || h.log == nil {
		return nil, err
	}
	var generations []Generation
	for _, e := range h.log.Generations() {
		generations = append(generations, Generation{Number: e.Generation, First: e.Start})
	}
	return generations, nil
}
