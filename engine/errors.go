package engine

import (
	"errors"
	"fmt"

	"felix.local/felix/device"
)

// ErrClosed matches every error that says a log or store is closed.
var ErrClosed = errors.New("closed")

// ErrPoisoned matches every error that says a log is poisoned.
var ErrPoisoned = errors.New("log is poisoned")

// ErrFull matches every error that says there is no room; the append did not
// happen and the log stays usable.
var ErrFull = device.ErrFull

// ClosedError says that the log, or the store, was closed.
type ClosedError struct{ Label string }

func (e *ClosedError) Error() string { return e.Label + ": closed" }

// Is matches ErrClosed.
func (e *ClosedError) Is(target error) bool { return target == ErrClosed }

// PoisonedError says that the log cannot promise anything any more: a flush, a
// durable write, a seal or a rewind failed, and trying again would prove
// nothing, since Linux may drop the pages a failed writeback could not write.
// What was acknowledged before is safe. What this error answers may or may not
// be on the device. Close the store and open it again: recovery then reads what
// the device holds.
type PoisonedError struct {
	Label string
	// Cause is the first failure.
	Cause error
}

func (e *PoisonedError) Error() string {
	return fmt.Sprintf("%s: poisoned, no further append is accepted until the store is closed and opened again: %v",
		e.Label, e.Cause)
}

// Unwrap gives the first failure.
func (e *PoisonedError) Unwrap() error { return e.Cause }

// Is matches ErrPoisoned.
func (e *PoisonedError) Is(target error) bool { return target == ErrPoisoned }

// FullError says that an append was refused, or undone, for want of space,
// quota or inodes. The log is usable; the next append tries again.
type FullError struct {
	Label string
	// Guard is set when the free-space guard refused before the disk was full.
	Guard string
	// Cause is the disk's answer, nil when the guard refused.
	Cause error
}

func (e *FullError) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("%s: disk nearly full (%s); free space, or lower FELIX_DURABLE_MIN_FREE_BYTES", e.Label, e.Guard)
	}
	return fmt.Sprintf("%s: %v", e.Label, e.Cause)
}

// Unwrap gives the disk's answer.
func (e *FullError) Unwrap() error { return e.Cause }

// Is matches ErrFull, whoever refused.
func (e *FullError) Is(target error) bool { return target == device.ErrFull }

// TrimmedError says that the requested records existed and are gone, which is
// another fact than "nothing here yet" (an empty result).
type TrimmedError struct {
	Label string
	// Requested is the offset asked for, Oldest the oldest one still held.
	Requested, Oldest uint64
}

func (e *TrimmedError) Error() string {
	return fmt.Sprintf("%s: offset %d was trimmed; the oldest retained is %d", e.Label, e.Requested, e.Oldest)
}

// InvalidRangeError refuses arguments that name no range of records.
type InvalidRangeError struct{ Label, Reason string }

func (e *InvalidRangeError) Error() string { return e.Label + ": " + e.Reason }

// UnsupportedError refuses what the format cannot hold.
type UnsupportedError struct{ Label, Reason string }

func (e *UnsupportedError) Error() string { return e.Label + ": " + e.Reason }

// ExhaustedError says that offsets or segment ids have run out.
type ExhaustedError struct{ Label, What string }

func (e *ExhaustedError) Error() string {
	return fmt.Sprintf("%s: %s exhausted; the log stays readable, start a new stream", e.Label, e.What)
}

// BackPressureError says that the caller's context ended while it waited for
// staging memory. Nothing was appended.
type BackPressureError struct {
	Label string
	// Wanted and Max are bytes.
	Wanted, Max int64
	// Bound names the setting that would have to grow.
	Bound string
	Cause error
}

func (e *BackPressureError) Error() string {
	return fmt.Sprintf("%s: no staging room for %d bytes within %s (%d bytes): %v", e.Label, e.Wanted, e.Bound, e.Max, e.Cause)
}

// Unwrap gives the context's error.
func (e *BackPressureError) Unwrap() error { return e.Cause }

// UnknownOutcomeError says that the caller stopped waiting: the append goes on
// and may succeed.
type UnknownOutcomeError struct {
	Label string
	// First and Last are the offsets the records get if it does.
	First, Last uint64
	Cause       error
}

func (e *UnknownOutcomeError) Error() string {
	return fmt.Sprintf("%s: stopped waiting for offsets %d to %d, which may still become durable: %v",
		e.Label, e.First, e.Last, e.Cause)
}

// Unwrap gives the context's error.
func (e *UnknownOutcomeError) Unwrap() error { return e.Cause }

// ShardMismatchError says that two keys map to one directory.
type ShardMismatchError struct{ Dir, Expected, Found string }

func (e *ShardMismatchError) Error() string {
	return fmt.Sprintf("directory %s belongs to %s and was asked for by %s", e.Dir, e.Expected, e.Found)
}

// AlreadyOpenError says that this store has the log open already.
type AlreadyOpenError struct{ Label string }

func (e *AlreadyOpenError) Error() string {
	return e.Label + ": already open in this store; share the handle or close it first"
}

// DeletingError says that the shard is being deleted.
type DeletingError struct{ Label string }

func (e *DeletingError) Error() string {
	return e.Label + ": is being deleted; try again when that is done"
}

// LogError is any other failure of a log operation, with the log's label.
type LogError struct {
	Label, Op string
	Err       error
}

func (e *LogError) Error() string { return fmt.Sprintf("%s: %s: %v", e.Label, e.Op, e.Err) }

// Unwrap gives the cause.
func (e *LogError) Unwrap() error { return e.Err }

// BackendLostError says that the ring broke while operations were under way. What
// they did is unknown, so the root stays locked until this process ends; a new
// process recovers what the device holds.
type BackendLostError struct {
	Root  string
	Cause error
}

func (e *BackendLostError) Error() string {
	return fmt.Sprintf("%s: the I/O backend was lost and outcomes are unknown; restart the process to open it again: %v", e.Root, e.Cause)
}

// Unwrap gives what broke the backend.
func (e *BackendLostError) Unwrap() error { return e.Cause }
