package broker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/engine"
)

// Broker is all streams of a server. All methods may be called from any goroutine.
type Broker struct {
	cfg Config
	// store is nil without a root; then there are no files either.
	store *engine.Store
	files *files

	counters counters
	// ringBytes is the weight of the rings of all durable shards.
	ringBytes atomic.Int64
	// draining refuses new work; drained is closed with it.
	draining atomic.Bool
	drained  chan struct{}
	// changing is held by whoever changes a definition: a lock that a context can
	// give up on.
	changing chan struct{}

	mu struct {
		sync.Mutex
		streams map[StreamName]*Stream
		// shards counts those of all streams.
		shards int
	}
}

// Open opens the store under cfg.Root and every stream that was registered. A shard
// whose open is refused, or a definition that cannot be read, is logged, listed by
// Health, and answers *UnavailableError; the others serve.
func Open(ctx context.Context, cfg Config) (*Broker, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	b := &Broker{cfg: cfg, drained: make(chan struct{}), changing: make(chan struct{}, 1)}
	b.mu.streams = make(map[StreamName]*Stream)
	if cfg.Root == "" {
		return b, nil
	}
	store, err := engine.OpenStore(ctx, cfg.Root, cfg.Engine)
	if err != nil {
		return nil, err
	}
	b.store = store
	b.files = &files{fs: cfg.Engine.FS, cfg: &b.cfg}
	if b.files.fs == nil {
		b.files.fs = device.OS()
	}
	if err := b.openStreams(ctx); err != nil {
		return nil, errors.Join(err, store.Close(context.WithoutCancel(ctx)))
	}
	return b, nil
}

func (c *Config) setDefaults() {
	for value, standard := range map[*int]int{
		&c.RingRecords: DefaultRingRecords, &c.SubscriberQueue: DefaultSubscriberQueue, &c.StreamsMax: DefaultStreamsMax,
		&c.ShardsMax: DefaultShardsMax, &c.ShardsTotalMax: DefaultShardsTotalMax, &c.SubscriptionsMax: DefaultSubscriptionsMax,
		&c.BatchRecordsMax: DefaultBatchRecordsMax,
	} {
		if *value == 0 {
			*value = standard
		}
	}
	for value, standard := range map[*int64]int64{
		&c.RingBytes: DefaultRingBytes, &c.RingBytesTotal: DefaultRingBytesTotal, &c.PageBytes: DefaultPageBytes, &c.BatchBytesMax: DefaultBatchBytesMax,
	} {
		if *value == 0 {
			*value = standard
		}
	}
	if c.Root == "" && c.Engine.SegmentBytes == 0 {
		c.Engine = engine.DefaultConfig() // only for what reads are bounded by
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
}

// validate reports every invalid value; the engine's are its own to report.
func (c *Config) validate() error {
	var problems []string
	for _, bound := range []struct {
		name  string
		value int64
	}{
		{"RingRecords", int64(c.RingRecords)},
		{"RingBytes", c.RingBytes},
		{"RingBytesTotal", c.RingBytesTotal},
		{"SubscriberQueue", int64(c.SubscriberQueue)},
		{"PageBytes", c.PageBytes},
		{"StreamsMax", int64(c.StreamsMax)},
		{"ShardsMax", int64(c.ShardsMax)},
		{"ShardsTotalMax", int64(c.ShardsTotalMax)},
		{"SubscriptionsMax", int64(c.SubscriptionsMax)},
		{"BatchRecordsMax", int64(c.BatchRecordsMax)},
		{"BatchBytesMax", c.BatchBytesMax},
	} {
		if bound.value < 0 {
			problems = append(problems, bound.name+" is negative")
		}
	}
	if len(problems) > 0 {
		return &InvalidError{Problem: strings.Join(problems, "; ")}
	}
	return nil
}

// Store is the storage behind the durable streams; nil without a root.
func (b *Broker) Store() *engine.Store { return b.store }

// Stream gives a registered stream. One whose definition cannot be read is an
// *UnavailableError.
func (b *Broker) Stream(name StreamName) (*Stream, error) {
	if s := b.lookUp(name); s != nil && s.err == nil {
		return s, nil
	}
	if err := name.Validate(); err != nil {
		return nil, err
	}
	if s := b.lookUp(unreadableName(fileName(name))); s != nil {
		return nil, &UnavailableError{Stream: name, Shard: -1, State: StateRefused, Err: s.err}
	}
	return nil, &NotFoundError{Stream: name}
}

func (b *Broker) lookUp(name StreamName) *Stream {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.streams[name]
}

// Streams describes every stream, sorted by name.
func (b *Broker) Streams() []StreamInfo {
	table := b.table()
	infos := make([]StreamInfo, 0, len(table))
	for _, s := range table {
		infos = append(infos, s.Info())
	}
	return infos
}

// table gives every stream, sorted by name.
func (b *Broker) table() []*Stream {
	b.mu.Lock()
	streams := make([]*Stream, 0, len(b.mu.streams))
	for _, s := range b.mu.streams {
		streams = append(streams, s)
	}
	b.mu.Unlock()
	slices.SortFunc(streams, func(x, y *Stream) int { return strings.Compare(x.name.String(), y.name.String()) })
	return streams
}

// Drain refuses new publishes and subscriptions with *ClosedError. Those under way
// go on: publishes to their acknowledgement, subscriptions until they have
// delivered everything.
func (b *Broker) Drain() {
	if !b.draining.Swap(true) {
		close(b.drained)
	}
}

// Close drains, closes the store and says what was not synced. When ctx ends first,
// Close may be called again to go on.
func (b *Broker) Close(ctx context.Context) error {
	b.Drain()
	if err := b.change(ctx); err != nil {
		return err
	}
	defer b.changed()
	var err error
	if b.store != nil {
		err = b.store.Close(ctx)
	}
	for _, s := range b.table() {
		s.end(&ClosedError{})
	}
	return err
}

// end makes every use of the stream answer err.
func (s *Stream) end(err error) {
	if shards := s.shards.Load(); shards != nil {
		for _, h := range *shards {
			h.end(err)
		}
	}
}

// change takes the right to change definitions; changed gives it back.
func (b *Broker) change(ctx context.Context) error {
	select {
	case b.changing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *Broker) changed() { <-b.changing }

func (b *Broker) nowMicros() uint64 {
	if b.cfg.Engine.NowMicros != nil {
		return b.cfg.Engine.NowMicros()
	}
	return uint64(max(0, time.Now().UnixMicro()))
}
