package broker

import (
	"context"
	"errors"
	"fmt"
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
	// ringBytes is the weight of the rings of all durable shards, memoryBytes that of
	// in-memory streams: rings, and what their subscriptions have queued.
	ringBytes, memoryBytes atomic.Int64
	rings                  rings
	// scratches are of publishes, for further ones.
	scratches sync.Pool
	// draining refuses new work; drained is closed with it, and life, which changes of
	// definitions live in, ends.
	draining atomic.Bool
	drained  chan struct{}
	life     context.Context
	endLife  context.CancelFunc
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
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Broker{cfg: cfg, drained: make(chan struct{}), changing: make(chan struct{}, 1)}
	b.life, b.endLife = context.WithCancel(context.Background())
	b.mu.streams = make(map[StreamName]*Stream)
	b.scratches.New = func() any { return new(scratch) }
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

// Drain refuses new publishes and subscriptions with *ClosedError, and asks changes of
// definitions to end. Others under way go on: publishes to their acknowledgement,
// subscriptions until they have delivered everything.
func (b *Broker) Drain() {
	if !b.draining.Swap(true) {
		close(b.drained)
		b.endLife()
	}
}

// Close drains, closes the store and says what was not synced. When ctx ends first,
// Close may be called again to go on.
//
// The root is not given up while a definition is being changed. A change that hangs
// gets half of the time that ctx leaves; then the logs are closed without it.
func (b *Broker) Close(ctx context.Context) error {
	b.Drain()
	_, changed, err := b.change(half(ctx))
	if err != nil {
		return errors.Join(fmt.Errorf("a change of a stream's definition does not end: %w", err), b.closeLogs(ctx))
	}
	defer changed()
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

// closeLogs flushes and closes the logs of all streams, a few at a time.
func (b *Broker) closeLogs(ctx context.Context) error {
	const atOnce = 16
	var (
		wait  sync.WaitGroup
		slots = make(chan struct{}, atOnce)
		mu    sync.Mutex
		errs  []error
	)
	for _, s := range b.table() {
		if s.err != nil {
			continue
		}
		for _, h := range *s.shards.Load() {
			slots <- struct{}{}
			wait.Go(func() {
				defer func() { <-slots }()
				if err := closeAll(ctx, []*shard{h}); err != nil && !errors.Is(err, engine.ErrClosed) {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			})
		}
	}
	wait.Wait()
	return errors.Join(errs...)
}

// half is ctx with half of the time it has left.
func half(ctx context.Context) context.Context {
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx
	}
	// It ends with ctx, or by itself soon after.
	part, cancel := context.WithTimeout(ctx, time.Until(deadline)/2)
	context.AfterFunc(part, cancel)
	return part
}

// change takes the right to change definitions; changed gives it back. What is done with
// it lives in inner, which ends with ctx and when the broker drains.
func (b *Broker) change(ctx context.Context) (inner context.Context, changed func(), err error) {
	select {
	case b.changing <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	inner, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(b.life, cancel)
	return inner, func() {
		stop()
		cancel()
		<-b.changing
	}, nil
}

// orClosed says that a change of a definition ended because the broker drains.
func (b *Broker) orClosed(err error) error {
	if b.draining.Load() && errors.Is(err, context.Canceled) {
		return &ClosedError{}
	}
	return err
}

func (b *Broker) nowMicros() uint64 {
	if b.cfg.Engine.NowMicros != nil {
		return b.cfg.Engine.NowMicros()
	}
	return uint64(max(0, time.Now().UnixMicro()))
}
