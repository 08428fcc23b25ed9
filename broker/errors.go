package broker

import (
	"fmt"
	"strconv"
)

// NameError refuses a part of a stream's name.
type NameError struct{ Part, Text, Problem string }

func (e *NameError) Error() string {
	text := e.Text
	if len(text) > 40 {
		text = text[:40] + "…"
	}
	return fmt.Sprintf("%s %q %s", e.Part, text, e.Problem)
}

// NotFoundError says that there is no such stream.
type NotFoundError struct{ Stream StreamName }

func (e *NotFoundError) Error() string { return "no stream " + e.Stream.String() }

// NoShardError says that the stream has no such shard.
type NoShardError struct {
	Stream        StreamName
	Shard, Shards int
}

func (e *NoShardError) Error() string {
	return fmt.Sprintf("stream %s has no shard %d; it has %d, counted from 0", e.Stream, e.Shard, e.Shards)
}

// ConflictError refuses to change what is fixed while a stream is registered.
type ConflictError struct {
	Stream            StreamName
	Field, Has, Asked string
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("stream %s has %s=%s and cannot become %s; that is fixed while the stream exists", e.Stream, e.Field, e.Has, e.Asked)
}

// NoStorageError refuses a durable stream on a broker that has no storage root.
type NoStorageError struct{ Stream StreamName }

func (e *NoStorageError) Error() string {
	return "durable stream " + e.Stream.String() + " needs a storage directory, and this server has none"
}

// InvalidError refuses arguments: a definition, a range, a batch.
type InvalidError struct{ Stream, Problem string }

func (e *InvalidError) Error() string { return joinLabel(e.Stream, e.Problem) }

// TooLargeError refuses a record, or a batch, over a bound. Nothing was appended.
type TooLargeError struct {
	Stream StreamName
	What   string
	// Size and Max are bytes, or a count where What says so.
	Size, Max int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("stream %s: %s is %d; at most %d", e.Stream, e.What, e.Size, e.Max)
}

// LimitError says that a bound on streams, shards or subscriptions is reached.
type LimitError struct {
	What string
	Max  int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the server has reached its limit of %d %s", e.Max, e.What)
}

// MemoryError refuses a publish to an in-memory stream: all of them together hold as
// much as they may. Nothing was published.
type MemoryError struct {
	Stream StreamName
	// Max is in bytes.
	Max int64
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("stream %s: in-memory streams and their subscriptions hold the %d bytes they may; a slow subscription has to go on first", e.Stream, e.Max)
}

// FormatError refuses a key or headers on a stream whose format holds none.
type FormatError struct {
	Stream StreamName
	What   string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("stream %s has the format raw, which holds no %s; create it with format kafka", e.Stream, e.What)
}

// CursorTooOldError says that the records asked for existed and are gone:
// trimmed by retention or a deletion of records, or out of an in-memory ring.
type CursorTooOldError struct {
	Stream    StreamName
	Shard     int
	Requested uint64
	// Oldest is the first offset that can be read.
	Oldest uint64
}

func (e *CursorTooOldError) Error() string {
	return fmt.Sprintf("stream %s shard %d: offset %d is gone; the oldest is %d", e.Stream, e.Shard, e.Requested, e.Oldest)
}

// CursorInFutureError says that the offset asked for does not exist yet.
type CursorInFutureError struct {
	Stream          StreamName
	Shard           int
	Requested, Next uint64
}

func (e *CursorInFutureError) Error() string {
	return fmt.Sprintf("stream %s shard %d: offset %d is not there yet; the next is %d", e.Stream, e.Shard, e.Requested, e.Next)
}

// UnavailableError says that a shard, or a whole stream, does not serve, and why:
// its open was refused, its definition cannot be read, its log is poisoned. Err
// keeps the engine's typed error.
type UnavailableError struct {
	Stream StreamName
	// Shard is -1 for all of the stream.
	Shard int
	// State is StateRefused or StatePoisoned.
	State State
	Err   error
}

func (e *UnavailableError) Error() string {
	where := "stream " + e.Stream.String()
	if e.Shard >= 0 {
		where += " shard " + strconv.Itoa(e.Shard)
	}
	return fmt.Sprintf("%s is %s: %v", where, e.State, e.Err)
}

// Unwrap gives the reason.
func (e *UnavailableError) Unwrap() error { return e.Err }

// DeletedError ends what was under way on a stream that was deleted meanwhile.
type DeletedError struct{ Stream StreamName }

func (e *DeletedError) Error() string { return "stream " + e.Stream.String() + " was deleted" }

// UnfinishedError says that a stream's deletion has begun and could not be finished.
type UnfinishedError struct{ Stream StreamName }

func (e *UnfinishedError) Error() string {
	return "the deletion of stream " + e.Stream.String() + " is not finished; delete it again"
}

// ClosedError says that the broker is closing.
type ClosedError struct{}

func (e *ClosedError) Error() string { return "the server is shutting down" }

func joinLabel(label, problem string) string {
	if label == "" {
		return problem
	}
	return "stream " + label + ": " + problem
}

// BlockedError says that the publisher's context ended while a subscription that
// holds publishers back was full. Nothing was appended.
type BlockedError struct {
	Stream StreamName
	Shard  int
	Cause  error
}

func (e *BlockedError) Error() string {
	return fmt.Sprintf("stream %s shard %d: a blocking subscription is full, and the publisher stopped waiting: %v", e.Stream, e.Shard, e.Cause)
}

// Unwrap gives the context's error.
func (e *BlockedError) Unwrap() error { return e.Cause }
