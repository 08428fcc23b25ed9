package broker

import (
	"log/slog"
	"strings"
	"time"

	"felix.local/felix/engine"
)

// The defaults.
const (
	DefaultRingRecords      = 1024
	DefaultRingBytes        = 4 << 20
	DefaultRingBytesTotal   = 256 << 20
	DefaultMemoryBytesTotal = 512 << 20
	DefaultSubscriberQueue  = 512
	DefaultPageBytes        = 1 << 20
	DefaultPageRecords      = 1024
	DefaultStreamsMax       = 10_000
	DefaultShardsMax        = 1024
	DefaultShardsTotalMax   = 20_000
	DefaultSubscriptionsMax = 20_000
	DefaultBatchRecordsMax  = 100_000
	DefaultBatchBytesMax    = 64 << 20
)

// WhenFull says what happens to a subscription whose bounded queue is full.
type WhenFull uint8

const (
	// WhenFullDisk turns a subscription to a durable stream back to reading pages
	// from disk. On an in-memory stream, which has no disk, new records are
	// dropped and told as missed.
	WhenFullDisk WhenFull = iota
	// WhenFullBlock holds publishers back until there is room.
	WhenFullBlock
)

// Config is everything a Broker can be told. The zero value is an in-memory
// broker with the defaults.
type Config struct {
	// Root is the storage directory; "" is none, and then durable streams are
	// refused.
	Root string
	// Engine configures the store under Root.
	Engine engine.Config
	// RingRecords and RingBytes bound each shard's replay ring; the newest record
	// is always held. 0 takes the default.
	RingRecords int
	RingBytes   int64
	// RingBytesTotal bounds the rings of all durable shards together: those of idle
	// shards are emptied first, then the one that grows holds fewer records.
	RingBytesTotal int64
	// MemoryBytesTotal bounds what in-memory streams hold together, in rings and for
	// their subscriptions. Beyond it rings give up their oldest records, subscriptions
	// miss what they have no room for, and then publishes are refused.
	MemoryBytesTotal int64
	// SubscriberQueue is how many records a subscription may be behind before it is
	// full; at most RingRecords on a durable stream.
	SubscriberQueue int
	// PageBytes is how many payload bytes a subscription takes at a time.
	PageBytes int64
	// StreamsMax, ShardsMax (per stream), ShardsTotalMax and SubscriptionsMax
	// bound what can be made.
	StreamsMax, ShardsMax, ShardsTotalMax, SubscriptionsMax int
	// BatchRecordsMax and BatchBytesMax bound one publish.
	BatchRecordsMax int
	BatchBytesMax   int64
	// Logger receives what an operator should know; nil is slog.Default.
	Logger *slog.Logger
}

// withDefaults gives the configuration in effect, or an *InvalidError with all that is
// wrong with it. What is wrong with Engine is the engine's to say.
func (c Config) withDefaults() (Config, error) {
	if c.Root == "" && c.Engine.SegmentBytes == 0 {
		c.Engine = engine.DefaultConfig() // only for what reads are bounded by
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	var problems []string
	positive(&problems, "RingRecords", &c.RingRecords, DefaultRingRecords)
	positive(&problems, "RingBytes", &c.RingBytes, DefaultRingBytes)
	positive(&problems, "RingBytesTotal", &c.RingBytesTotal, DefaultRingBytesTotal)
	positive(&problems, "MemoryBytesTotal", &c.MemoryBytesTotal, DefaultMemoryBytesTotal)
	positive(&problems, "SubscriberQueue", &c.SubscriberQueue, DefaultSubscriberQueue)
	positive(&problems, "PageBytes", &c.PageBytes, DefaultPageBytes)
	positive(&problems, "StreamsMax", &c.StreamsMax, DefaultStreamsMax)
	positive(&problems, "ShardsMax", &c.ShardsMax, DefaultShardsMax)
	positive(&problems, "ShardsTotalMax", &c.ShardsTotalMax, DefaultShardsTotalMax)
	positive(&problems, "SubscriptionsMax", &c.SubscriptionsMax, DefaultSubscriptionsMax)
	positive(&problems, "BatchRecordsMax", &c.BatchRecordsMax, DefaultBatchRecordsMax)
	positive(&problems, "BatchBytesMax", &c.BatchBytesMax, DefaultBatchBytesMax)
	if len(problems) > 0 {
		return c, &InvalidError{Problem: strings.Join(problems, "; ")}
	}
	return c, nil
}

// positive fills in a default, and notes a value that no bound can have.
func positive[T int | int64](problems *[]string, name string, field *T, standard T) {
	if *field == 0 {
		*field = standard
	}
	if *field < 0 {
		*problems = append(*problems, name+" is negative")
	}
}

// StreamConfig defines a stream. Durable, Format and Fsync are fixed while the
// stream is registered; Shards may grow, retention may change.
type StreamConfig struct {
	Durable bool
	Shards  int // 0 is 1
	Format  Format
	// Fsync is what an acknowledgement means; nil is the server's mode. Only a
	// durable stream has one.
	Fsync *engine.FsyncMode
	// RetentionBytes (per shard) and RetentionAge bound a durable stream; nil takes
	// the server's, 0 keeps all.
	RetentionBytes *int64
	RetentionAge   *time.Duration
}

// State says whether a shard serves.
type State uint8

const (
	// StateServing: appends and reads.
	StateServing State = iota
	// StateRefused: opening it was refused; nothing can be read or appended.
	StateRefused
	// StatePoisoned: a flush failed; reads end at the durable bound, appends fail.
	StatePoisoned
)

// String gives the state as errors and health reports write it.
func (s State) String() string {
	switch s {
	case StateServing:
		return "serving"
	case StateRefused:
		return "refused"
	default:
		return "poisoned"
	}
}

// ShardInfo describes a shard.
type ShardInfo struct {
	Shard int
	State State
	// Reason is why it does not serve; nil when it does.
	Reason error
	// Base is the oldest offset that can be read, Next the one the next record
	// gets, Durable one past the last record known to be on the device.
	Base, Next, Durable uint64
	// Subscriptions open now.
	Subscriptions int
}

// StreamInfo describes a stream.
type StreamInfo struct {
	Name   StreamName
	Config StreamConfig // with Shards, Fsync and retention as in effect
	Shards []ShardInfo
	// Err is why nothing of the stream can be served: a definition that cannot be
	// read. Name may then be only what the file's name tells.
	Err error
}

// Published names what a publish got.
type Published struct {
	Shard       int
	First, Last uint64
	// Duplicate: the shard held the batch of an idempotent producer, or a part of it
	// that was completed.
	Duplicate bool
}

// Start says where a subscription begins.
type Start struct {
	kind   startKind
	offset uint64
}

type startKind uint8

const (
	startLatest startKind = iota
	startEarliest
	startOffset
	startTime
)

// Latest begins with the next record that is published.
func Latest() Start { return Start{} }

// Earliest begins with the oldest record held.
func Earliest() Start { return Start{kind: startEarliest} }

// AtOffset begins with the record at offset; the next offset to come is allowed.
func AtOffset(offset uint64) Start { return Start{kind: startOffset, offset: offset} }

// AtTime begins with the first record whose timestamp, in microseconds since 1970,
// is not before micros.
func AtTime(micros uint64) Start { return Start{kind: startTime, offset: micros} }

// SubscribeOptions tune one subscription; the zero value takes the broker's.
type SubscribeOptions struct {
	WhenFull WhenFull
	// PageBytes bounds one Delivery in payload bytes; 0 is the broker's.
	PageBytes int64
	// PageRecords bounds one Delivery in records; 0 is DefaultPageRecords.
	PageRecords int
}

// Delivery is what a subscription's Next gives: records in order without a gap, or
// what was missed.
type Delivery struct {
	Records []Record
	// Missed is set, and Records empty, when an in-memory stream dropped
	// [First, Last] because this subscription was too slow.
	Missed *OffsetRange
	// Next is the offset that the following delivery begins with.
	Next uint64
}

// OffsetRange is [First, Last].
type OffsetRange struct{ First, Last uint64 }

// Page is the result of a range read.
type Page struct {
	Records []Record
	// Base and Next bound the shard's view when it was read.
	Base, Next uint64
	// Continue is the offset to read from next. It lies behind the last record, or,
	// without one, behind offsets that hold nothing for readers.
	Continue uint64
}

// Generation is a leadership of a shard: First is the offset of its first record.
type Generation struct{ Number, First uint64 }

// RetentionResult says what a pass over a stream removed.
type RetentionResult struct {
	Segments int
	Bytes    int64
	// Bases are the oldest offsets held afterwards, by shard.
	Bases []uint64
}
