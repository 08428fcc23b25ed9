package broker

import (
	"context"

	"felix.local/felix/engine"
)

// Stubs that fix the signatures while the package is being written.

type Broker struct{}

func Open(ctx context.Context, cfg Config) (*Broker, error) { panic("stub") }

// CreateStream registers a stream, durably, before it returns. An equal
// definition that exists is no error: created is false. Shards and retention of an
// existing stream are brought up to cfg; what is fixed is a *ConflictError.
func (b *Broker) CreateStream(ctx context.Context, name StreamName, cfg StreamConfig) (s *Stream, created bool, err error) {
	panic("stub")
}
func (b *Broker) DeleteStream(ctx context.Context, name StreamName) error { panic("stub") }
func (b *Broker) Stream(name StreamName) (*Stream, error)                { panic("stub") } // *NotFoundError, *NameError, *UnavailableError (definition unreadable)
func (b *Broker) Streams() []StreamInfo                                  { panic("stub") } // sorted by name
func (b *Broker) Health() Health                                         { panic("stub") }
func (b *Broker) Stats() Stats                                           { panic("stub") }
func (b *Broker) Store() *engine.Store                                   { panic("stub") } // nil without a root
func (b *Broker) NewWatch() *Watch                                       { panic("stub") }

// Drain refuses new publishes and subscriptions (*ClosedError) and ends those
// subscriptions that caught up; Close closes the store and says what was not synced.
func (b *Broker) Drain()                          { panic("stub") }
func (b *Broker) Close(ctx context.Context) error { panic("stub") }

type Stream struct{}

func (s *Stream) Name() StreamName                                        { panic("stub") }
func (s *Stream) Config() StreamConfig                                    { panic("stub") }
func (s *Stream) Info() StreamInfo                                        { panic("stub") }
func (s *Stream) Shards() int                                             { panic("stub") }
func (s *Stream) Shard(shard int) (ShardInfo, error)                      { panic("stub") } // cheap: bounds and state
func (s *Stream) Grow(ctx context.Context, shards int) error              { panic("stub") }
func (s *Stream) Publish(ctx context.Context, to ShardChoice, messages ...Message) (Published, error) {
	panic("stub")
}

// Read returns records from from on, up to maxBytes of payload and maxRecords (0:
// the engine's bound), at least one if there is one. At next it is empty; past it a
// *CursorInFutureError, below base a *CursorTooOldError. Payloads must not be changed.
func (s *Stream) Read(ctx context.Context, shard int, from uint64, maxBytes int64, maxRecords int) (Page, error) {
	panic("stub")
}
func (s *Stream) Subscribe(ctx context.Context, shard int, start Start, opts SubscribeOptions) (*Subscription, error) {
	panic("stub")
}

// Resolve gives the offset that a start means now.
func (s *Stream) Resolve(ctx context.Context, shard int, start Start) (uint64, error) { panic("stub") }

// DeleteRecords makes everything below offset unreadable, durably, and gives the
// new oldest offset; whole segments below it are removed.
func (s *Stream) DeleteRecords(ctx context.Context, shard int, offset uint64) (oldest uint64, err error) {
	panic("stub")
}
func (s *Stream) EnforceRetention(ctx context.Context) (RetentionResult, error) { panic("stub") }

type Subscription struct{}

// Next waits for records. Errors end the subscription: *CursorTooOldError (trimmed
// under it), *DeletedError, *UnavailableError (poisoned: after all readable records),
// *ClosedError, the context's.
func (s *Subscription) Next(ctx context.Context) (Delivery, error) { panic("stub") }
func (s *Subscription) Start() uint64                              { panic("stub") } // first offset it will deliver
func (s *Subscription) Live() uint64                               { panic("stub") } // next offset of the shard when it subscribed
func (s *Subscription) Close()                                     { panic("stub") }

// Watch is woken when any of the shards it watches commits, is trimmed, poisoned or deleted.
// Add before looking at bounds; C has room for one wake-up.
type Watch struct{ C <-chan struct{} }

func (w *Watch) Add(s *Stream, shard int) error { panic("stub") }
func (w *Watch) Remove(s *Stream, shard int)    { panic("stub") }
func (w *Watch) Close()                         { panic("stub") }

// Health is what /ready shows.
type Health struct {
	// Ready is false when the store cannot work at all: ring lost, every shard poisoned or refused, or closing.
	Ready  bool
	Reason string // why not
	// Unavailable lists shards that do not serve; Shard -1: the whole stream.
	Unavailable []UnavailableShard
}
type UnavailableShard struct {
	Stream StreamName
	Shard  int
	State  State
	Reason string
}

// Stats are totals and gauges.
type Stats struct {
	Publishes, PublishedRecords, PublishedBytes, PublishFailures uint64
	DeliveredRecords, DeliveredBytes                            uint64
	// RingReads and DiskReads count pages by where they came from.
	RingReads, DiskReads uint64
	DroppedRecords       uint64 // by in-memory subscriptions that were full
	Blocked              uint64 // publishes held back by a full subscription
	Streams, Shards, Subscriptions           int
	RefusedShards, PoisonedShards, UnreadableStreams int
}
