package broker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"felix.local/felix/engine"
)

// openStreams opens everything that is registered, and carries out the deletions
// that a crash interrupted.
func (b *Broker) openStreams(ctx context.Context) error {
	names, err := b.files.open(b.cfg.Root)
	if err != nil {
		return err
	}
	var wait sync.WaitGroup
	for _, file := range names {
		d, err := b.files.read(file)
		if err == nil {
			d, err = b.agree(ctx, d)
		}
		switch {
		case err != nil:
			b.registerUnreadable(file, err)
		case d.Deleting:
			b.carryOut(ctx, d)
		default:
			s := b.newStream(d)
			b.register(s, len(*s.shards.Load()))
			for _, h := range *s.shards.Load() {
				wait.Go(func() { b.openShard(ctx, s, h) })
			}
		}
	}
	wait.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	b.lowerFloors(ctx)
	return nil
}

// registerUnfinished lists a stream whose deletion could not be finished.
func (b *Broker) registerUnfinished(d definition, err error) {
	b.cfg.Logger.Error("a stream's deletion could not be finished; delete it again", "stream", d.name().String(), "error", err)
	s := b.newStream(d)
	s.deleting.Store(true)
	s.end(&DeletedError{Stream: s.name})
	b.register(s, d.Shards)
}

// registerUnreadable lists a stream whose definition cannot be read, or not be written
// where it has to, under what the file's name tells, so that it is seen and its name is
// not given away.
func (b *Broker) registerUnreadable(file string, err error) {
	b.cfg.Logger.Error("a stream is not served", "error", err)
	b.mu.Lock()
	defer b.mu.Unlock()
	name := unreadableName(file)
	b.mu.streams[name] = &Stream{broker: b, name: name, err: err}
}

// unreadableName is what the name of a definition's file tells of the stream's. No
// stream is called that: its other parts are empty.
func unreadableName(file string) StreamName {
	return StreamName{Stream: strings.TrimSuffix(file, definitionSuffix)}
}

func (b *Broker) newStream(d definition) *Stream {
	format, _ := ParseFormat(d.Format) // validated when it was read or made
	s := &Stream{broker: b, name: d.name(), def: d}
	s.config = StreamConfig{Durable: d.Durable, Format: format}
	if d.Durable {
		mode := d.fsync(b.cfg.Engine)
		s.config.Fsync = &mode
	}
	r := d.retention(b.cfg.Engine)
	s.retention.Store(&r)
	shards := make([]*shard, d.Shards)
	for i := range shards {
		shards[i] = b.newShard(s.name, i, format, d.floor(i))
	}
	s.shards.Store(&shards)
	return s
}

// register puts a stream, or more shards of one, into the table.
func (b *Broker) register(s *Stream, shards int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.streams[s.name] = s
	b.mu.shards += shards
}

// key names a shard's directory. The incarnation tells streams apart that had the same
// name one after the other.
func (d definition) key(shard int) engine.ShardKey {
	return engine.ShardKey{
		Tenant: d.Tenant, Namespace: d.Namespace, Stream: d.Stream, Shard: uint32(shard), Incarnation: d.Incarnation,
	}
}

// openShard opens a shard's log. One that is refused does not serve, and says why.
func (b *Broker) openShard(ctx context.Context, s *Stream, h *shard) {
	if !s.config.Durable {
		return
	}
	r := s.retention.Load()
	log, err := b.store.OpenLogWith(ctx, s.def.key(h.index), engine.LogOptions{
		FsyncMode: s.config.Fsync, RetentionBytes: &r.bytes, RetentionAge: &r.age, Follower: h,
	})
	if err != nil {
		h.refuse(err)
		b.cfg.Logger.Error("a shard is not served", "shard", s.def.key(h.index).Label(), "error", err)
		return
	}
	h.begin(log)
	if _, err := log.TrimBefore(ctx, min(s.def.floor(h.index), log.TailOffset())); err != nil {
		b.cfg.Logger.Warn("deleted records still take up room; a later pass of retention tries again",
			"shard", s.def.key(h.index).Label(), "error", err)
	}
}

// lowerFloors writes definitions anew whose floor lies past the end of a log: the
// directory was put back from an older copy, say. The floor would hide what is
// published from now on, so a stream whose definition cannot be written is not served.
func (b *Broker) lowerFloors(ctx context.Context) {
	for _, s := range b.table() {
		if s.err != nil || s.deleting.Load() {
			continue
		}
		d := s.def
		for _, h := range *s.shards.Load() {
			if h.log != nil && d.floor(h.index) > h.log.TailOffset() {
				d = d.withFloor(h.index, h.log.TailOffset())
				h.lowerFloor(h.log.TailOffset())
			}
		}
		if slices.Equal(d.Floors, s.def.Floors) {
			continue
		}
		if err := b.save(d); err != nil {
			b.withdraw(s, errors.Join(err, closeAll(ctx, *s.shards.Load())))
			continue
		}
		s.def = d
	}
}

// withdraw ends a stream that was opened and cannot be served.
func (b *Broker) withdraw(s *Stream, err error) {
	s.end(err)
	b.mu.Lock()
	delete(b.mu.streams, s.name)
	b.mu.shards -= s.Shards()
	b.mu.Unlock()
	b.registerUnreadable(fileName(s.name), err)
}

func (h *shard) lowerFloor(offset uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.floor = offset
}
