package broker

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"felix.local/felix/engine"
)

// CreateStream registers a stream, durably, before it returns. For one that exists
// created is false: its retention is set to what cfg names, and its shards grow to
// cfg.Shards (0 leaves them); asking for fewer shards, or for another Durable,
// Format or Fsync, is a *ConflictError. A new stream whose shard directories exist,
// because another Felix wrote them, serves the records in them.
func (b *Broker) CreateStream(ctx context.Context, name StreamName, cfg StreamConfig) (s *Stream, created bool, err error) {
	if err := b.admissible(name, cfg); err != nil {
		return nil, false, err
	}
	ctx, changed, err := b.change(ctx)
	if err != nil {
		return nil, false, err
	}
	defer changed()
	if b.draining.Load() {
		return nil, false, &ClosedError{}
	}
	s, err = b.Stream(name)
	if err == nil {
		if err := s.registered(); err != nil {
			return nil, false, err
		}
		return s, false, b.orClosed(b.update(ctx, s, cfg))
	}
	var missing *NotFoundError
	if !errors.As(err, &missing) {
		return nil, false, err
	}
	s, err = b.create(ctx, name, cfg)
	return s, err == nil, b.orClosed(err)
}

// admissible refuses a definition that no stream could have.
func (b *Broker) admissible(name StreamName, cfg StreamConfig) error {
	if err := name.Validate(); err != nil {
		return err
	}
	problem := ""
	switch {
	case cfg.Shards < 0:
		problem = "shards is negative"
	case cfg.Shards > b.cfg.ShardsMax:
		return &TooLargeError{Stream: name, What: "the number of shards", Size: int64(cfg.Shards), Max: int64(b.cfg.ShardsMax)}
	case cfg.Format != FormatRaw && cfg.Format != FormatKafka:
		problem = "the format is neither raw nor kafka"
	case cfg.RetentionBytes != nil && *cfg.RetentionBytes < 0, cfg.RetentionAge != nil && *cfg.RetentionAge < 0:
		problem = "a retention bound is negative; 0 keeps all"
	case cfg.RetentionAge != nil && *cfg.RetentionAge > 0 && *cfg.RetentionAge < time.Microsecond:
		problem = "a retention age below a microsecond; 0 keeps all"
	case !cfg.Durable && (cfg.Fsync != nil || cfg.RetentionBytes != nil || cfg.RetentionAge != nil):
		problem = "fsync and retention are for durable streams; an in-memory one holds its newest records alone"
	case cfg.Durable && b.store == nil:
		return &NoStorageError{Stream: name}
	}
	if problem == "" && cfg.Fsync != nil {
		if _, err := engine.ParseFsyncMode(cfg.Fsync.String()); err != nil {
			problem = err.Error()
		}
	}
	if problem != "" {
		return &InvalidError{Stream: name.String(), Problem: problem}
	}
	return nil
}

// create opens the shards first, so that a stream is not registered that cannot
// serve, and answers once its definition is durable. A crash in between leaves empty
// shards, which the next attempt finds.
func (b *Broker) create(ctx context.Context, name StreamName, cfg StreamConfig) (*Stream, error) {
	d := define(name, cfg, b.nowMicros())
	if err := b.room(1, d.Shards); err != nil {
		return nil, err
	}
	if b.files != nil {
		if err := b.files.free(name); err != nil {
			return nil, err
		}
	}
	if d.Durable {
		var err error
		if d.Incarnation, err = b.incarnation(ctx, name); err != nil {
			return nil, err
		}
	}
	s := b.newStream(d)
	shards := *s.shards.Load()
	err := b.openAll(ctx, s, shards)
	if err == nil {
		err = b.saveNew(d)
	}
	if err != nil {
		return nil, errors.Join(err, closeAll(context.WithoutCancel(ctx), shards))
	}
	b.register(s, len(shards))
	return s, nil
}

// incarnation is that of a stream to be created: the one whose directories are there,
// because its creation did not end or its definition was lost, or else one that no
// stream of the name had before.
func (b *Broker) incarnation(ctx context.Context, n StreamName) (uint64, error) {
	m, err := b.store.StreamIncarnation(ctx, n.Tenant, n.Namespace, n.Stream)
	if err != nil {
		return 0, err
	}
	if m.Marked && !m.Deleting && m.Incarnation > m.DeletedThrough {
		return m.Incarnation, nil
	}
	if m.Deleting {
		// Its definition, which would have had a start carry it out, is gone.
		d := definition{Tenant: n.Tenant, Namespace: n.Namespace, Stream: n.Stream, Incarnation: m.Incarnation}
		if err := b.deleteShards(ctx, d); err != nil {
			return 0, err
		}
	}
	return b.store.BeginStream(ctx, n.Tenant, n.Namespace, n.Stream)
}

// save makes a definition durable, where there is a root.
func (b *Broker) save(d definition) error {
	if b.files == nil {
		return nil
	}
	return b.files.write(d)
}

// saveNew saves the definition of a stream that does not exist yet, or leaves none.
func (b *Broker) saveNew(d definition) error {
	err := b.save(d)
	var unsure *DefinitionError
	if errors.As(err, &unsure) && unsure.Replaced {
		// Left there, the stream would come to be at the next start.
		return errors.Join(err, b.files.remove(d.name()))
	}
	return err
}

// room refuses more than the server may hold.
func (b *Broker) room(streams, shards int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mu.streams)+streams > b.cfg.StreamsMax {
		return &LimitError{What: "streams", Max: b.cfg.StreamsMax}
	}
	if b.mu.shards+shards > b.cfg.ShardsTotalMax {
		return &LimitError{What: "shards of all streams", Max: b.cfg.ShardsTotalMax}
	}
	return nil
}

// openAll opens shards; the first that is refused is the error.
func (b *Broker) openAll(ctx context.Context, s *Stream, shards []*shard) error {
	var wait sync.WaitGroup
	for _, h := range shards {
		wait.Go(func() { b.openShard(ctx, s, h) })
	}
	wait.Wait()
	for _, h := range shards {
		if state, reason := h.status(); state != StateServing {
			return h.unavailable(state, reason)
		}
	}
	return nil
}

// closeAll closes the logs of shards that nobody is to use.
func closeAll(ctx context.Context, shards []*shard) error {
	var errs []error
	for _, h := range shards {
		if h.log != nil {
			errs = append(errs, h.log.Close(ctx))
		}
	}
	return errors.Join(errs...)
}

// update brings an existing stream to cfg.
func (b *Broker) update(ctx context.Context, s *Stream, cfg StreamConfig) error {
	conflict := func(field, has, asked string) error {
		return &ConflictError{Stream: s.name, Field: field, Has: has, Asked: asked}
	}
	switch {
	case cfg.Durable != s.config.Durable:
		return conflict("durable", strconv.FormatBool(s.config.Durable), strconv.FormatBool(cfg.Durable))
	case cfg.Format != s.config.Format:
		return conflict("format", s.config.Format.String(), cfg.Format.String())
	case cfg.Fsync != nil && *cfg.Fsync != *s.config.Fsync:
		return conflict("fsync", s.config.Fsync.String(), cfg.Fsync.String())
	case cfg.Shards != 0 && cfg.Shards < s.Shards():
		return conflict("shards", strconv.Itoa(s.Shards()), strconv.Itoa(cfg.Shards))
	}
	if cfg.RetentionBytes != nil || cfg.RetentionAge != nil {
		if err := b.retain(s, cfg); err != nil {
			return err
		}
	}
	if cfg.Shards > s.Shards() {
		return b.grow(ctx, s, cfg.Shards)
	}
	return nil
}

// retain changes the bounds of retention. The logs judge them first, so that none is
// saved that the next start would refuse.
func (b *Broker) retain(s *Stream, cfg StreamConfig) error {
	d := s.def
	d.setRetention(cfg)
	r, former := d.retention(b.cfg.Engine), *s.retention.Load()
	err := s.setRetention(r)
	if err == nil {
		err = s.adopt(d, func() { s.retention.Store(&r) })
	}
	if *s.retention.Load() == former {
		return errors.Join(err, s.setRetention(former))
	}
	return err
}

func (s *Stream) setRetention(r retention) error {
	for _, h := range *s.shards.Load() {
		if h.log == nil {
			continue
		}
		if err := h.log.SetRetention(r.bytes, r.age); err != nil {
			return err
		}
	}
	return nil
}

// Grow raises the number of shards, durably. Keys go to other shards from then on.
func (s *Stream) Grow(ctx context.Context, shards int) error {
	b := s.broker
	if shards > b.cfg.ShardsMax {
		return &TooLargeError{Stream: s.name, What: "the number of shards", Size: int64(shards), Max: int64(b.cfg.ShardsMax)}
	}
	ctx, changed, err := b.change(ctx)
	if err != nil {
		return err
	}
	defer changed()
	if err := s.registered(); err != nil {
		return err
	}
	if shards <= s.Shards() {
		return &ConflictError{Stream: s.name, Field: "shards", Has: strconv.Itoa(s.Shards()), Asked: strconv.Itoa(shards)}
	}
	return b.orClosed(b.grow(ctx, s, shards))
}

// registered refuses to change a stream that is not in the table any more, or
// whose deletion has begun. The caller holds the right to change.
func (s *Stream) registered() error {
	if now, err := s.broker.Stream(s.name); err != nil || now != s || s.def.Deleting {
		return &DeletedError{Stream: s.name}
	}
	if s.broker.draining.Load() {
		return &ClosedError{}
	}
	return nil
}

func (b *Broker) grow(ctx context.Context, s *Stream, count int) error {
	old := *s.shards.Load()
	if err := b.room(0, count-len(old)); err != nil {
		return err
	}
	more := make([]*shard, 0, count-len(old))
	for i := len(old); i < count; i++ {
		more = append(more, b.newShard(s.name, i, s.config.Format, 0))
	}
	d := s.def
	d.Shards = count
	grown := false
	err := b.openAll(ctx, s, more)
	if err == nil {
		err = s.adopt(d, func() {
			grown = true
			b.register(s, len(more))
			shards := append(append([]*shard(nil), old...), more...)
			s.shards.Store(&shards)
		})
	}
	if !grown {
		return errors.Join(err, closeAll(context.WithoutCancel(ctx), more))
	}
	return err
}
