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
	if err := s.broker.change(ctx); err != nil {
		return 0, err
	}
	defer s.broker.changed()
	if err := s.registered(); err != nil {
		return 0, err
	}
	info := h.info()
	switch {
	case info.State != StateServing:
		return 0, h.unavailable(info.State, info.Reason)
	case offset > info.Next:
		return 0, &CursorInFutureError{Stream: s.name, Shard: shard, Requested: offset, Next: info.Next}
	case offset <= info.Base:
		return info.Base, nil
	}
	if h.log == nil {
		h.setFloor(offset)
		return h.base(), nil
	}
	if h.log.DurableOffset() < offset {
		if err := h.log.Sync(ctx); err != nil {
			return 0, h.appendError(err)
		}
	}
	def := s.def.withFloor(shard, offset)
	if err := s.broker.save(def); err != nil {
		return 0, err
	}
	s.def = def
	h.setFloor(offset)
	if _, err := h.log.TrimBefore(ctx, offset); err != nil {
		return 0, h.readError(err)
	}
	return h.base(), nil
}
