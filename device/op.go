package device

import (
	"fmt"
	"time"
)

// Kind says what an Op does.
type Kind uint8

// The data-path operations.
const (
	// Write writes Buf at Pos into the page cache.
	Write Kind = iota
	// WriteDsync writes Buf at Pos and returns when those bytes, and the file
	// length up to their end, are on the device.
	WriteDsync
	// Flush makes every completed write of File, and its length, durable
	// (fdatasync).
	Flush
	// FlushAll is Flush plus all metadata (fsync); for directories.
	FlushAll
	// Allocate reserves blocks for [Pos, Pos+Len) without changing the file
	// length (fallocate with KEEP_SIZE).
	Allocate

	// KindCount is the number of kinds, for tables indexed by Kind.
	KindCount
)

var kindNames = [KindCount]string{"write", "write_dsync", "flush", "flush_all", "allocate"}

// String gives the kind's name as metrics print it.
func (k Kind) String() string {
	if k < KindCount {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Op is one data-path operation. The caller fills Kind, File and, as the kind
// asks, Buf, Pos and Len; the queue fills N, Err and Pieces. An Op may be used
// again once its completion was received, and must not be copied.
type Op struct {
	Kind Kind
	File File
	// Buf is what Write and WriteDsync write. It must stay unchanged until
	// completion and should come from an Arena; a Go slice is accepted (the
	// op keeps it reachable, and the heap does not move).
	Buf []byte
	// Pos is a byte position in the file, never negative: a log never appends
	// at "the end".
	Pos int64
	// Len is the number of bytes Allocate reserves.
	Len int64

	// Results, when set, receives the op itself on completion, in place of
	// Done: one place to wait for whichever of several ops completes first. It
	// needs room for every op that names it.
	Results chan<- *Op

	// N is how many bytes were written.
	N int
	// Err is nil or an *Error.
	Err error
	// Pieces counts the transfers a write took: 1 unless the kernel
	// transferred less than asked, or the op was issued again.
	Pieces int

	// SubmittedAt is set by the queue, for op-age reporting.
	SubmittedAt time.Time

	// Link is the queue's own while the op is in its hands.
	Link *Op

	done chan struct{}
}

// Prepare readies the op for a submission. Queue implementations call it in
// Submit; nobody else does.
func (op *Op) Prepare() {
	if op.done == nil {
		op.done = make(chan struct{}, 1)
	}
	op.N, op.Err, op.Pieces, op.Link = 0, nil, 0, nil
	op.SubmittedAt = time.Now()
}

// Complete hands the result to whoever waits. Queue implementations call it once
// per submission; it never blocks.
func (op *Op) Complete(n int, err error) {
	op.N = n
	op.Err = err
	if op.Results != nil {
		select {
		case op.Results <- op:
		default:
			panic("device: no room for the result of an op")
		}
		return
	}
	select {
	case op.done <- struct{}{}:
	default:
		panic("device: an op was completed twice")
	}
}

// Done delivers one value per submission, after N, Err and Pieces were set,
// unless Results is set. It is valid after Submit.
func (op *Op) Done() <-chan struct{} { return op.done }

// Wait blocks until the op completed and returns its error. An op with Results is
// waited for there.
func (op *Op) Wait() error {
	if op.Results != nil {
		panic("device: Wait on an op whose completion goes to Results")
	}
	<-op.done
	return op.Err
}

// Do submits one op and waits for it. It must not be called with a lock held
// that an appender takes.
func Do(q Queue, op *Op) error {
	q.Submit(op)
	return op.Wait()
}

// Queue carries data-path operations to a disk.
type Queue interface {
	// Submit hands ops over and returns without waiting for them or for room:
	// ops beyond the queue's bound on work in flight stay in line. All ops of
	// one call become visible to the backend together. Submitting to a closed
	// queue completes the ops with ErrQueueClosed.
	Submit(ops ...*Op)
	// Stats returns counters since the queue was made.
	Stats() QueueStats
	// Close completes everything already submitted, then releases the
	// backend. It is an error to close twice.
	Close() error
}

// QueueStats are counters and gauges of a Queue; counters only rise.
type QueueStats struct {
	// Backend is "ring" or "pool" (or a test's own name).
	Backend string
	// Driver names the ring driver compiled in; empty for other backends.
	Driver string
	// Ops counts completed operations by kind.
	Ops [KindCount]uint64
	// Errors counts operations that completed with an error, by kind.
	Errors [KindCount]uint64
	// Enters counts io_uring_enter calls; EnterOps the submission entries they
	// took. Their ratio is ops per enter.
	Enters, EnterOps uint64
	// Resubmits counts repeated transfers, by cause.
	ResubmitShort, ResubmitAgain, ResubmitCanceled uint64
	// Wakeups counts the times a producer had to wake a backend that was
	// waiting inside the kernel.
	Wakeups uint64
	// InFlight is the number of operations handed to the kernel or a worker,
	// Queued the number waiting in line, InFlightMax the bound.
	InFlight, Queued, InFlightMax int
	// OldestAge is how long the oldest unfinished operation has been there.
	OldestAge time.Duration
	// Lost is non-nil when the backend broke and outcomes are unknown.
	Lost error
}

// Route says where an operation ran, for counters by kind and route.
type Route uint8

// The routes.
const (
	RouteRing Route = iota
	RoutePool
	RouteInline
	RouteCount
)

// String gives the route's name as metrics print it.
func (r Route) String() string { return [...]string{"ring", "pool", "inline"}[r] }
