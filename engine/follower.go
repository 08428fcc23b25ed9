package engine

import (
	"iter"

	"felix.local/felix/segment"
)

// Follower is told of what becomes visible, in the order on disk. It may be
// called from the moment the log is opened, also before OpenLogWith returns, and
// is not called any more once Close has returned the log's last word.
//
// Its methods must be quick, must not block and must not call the log or its
// store: appenders wait for them, with the commit journal those of every log.
type Follower interface {
	// Committed is called by who has the commit role after the bounds moved past a batch
	// and before any append in it is acknowledged. The log's lock is not held, and
	// calls for one log do not overlap. The first batch begins at the tail that the
	// log was opened with; each further one where the former ended, or where
	// Truncated said that the log ends.
	//
	// A batch that was committed just before the log was poisoned may be told
	// after Poisoned. Its appends are acknowledged; of its records, those at and
	// past the readable bound are not read from this log any more.
	Committed(batch Committed)
	// Truncated is called under the log's lock when Truncate or RestoreTo lowered
	// the tail, or ResetTo moved it, up or down: next is one past the last record
	// there is now, and the next batch begins there. One call may take two steps.
	Truncated(next uint64)
	// Poisoned is called at most once, under the log's lock. readable is the
	// durable bound, where reads end from now on: under FsyncNone and
	// FsyncPeriodic it may lie below what was committed. A seal that had flushed
	// its segment by then may still bring reads some way back up.
	Poisoned(cause error, readable uint64)
}

// Committed is a batch of records that became visible together. It is valid
// during the call that brought it.
type Committed struct {
	encoded      []byte
	first, next  uint64
	payloadBytes int64
}

func (b *batch) committed() Committed {
	return Committed{encoded: b.buf, first: b.first, next: b.next, payloadBytes: b.payloadBytes}
}

// First is the offset of the first record.
func (c Committed) First() uint64 { return c.first }

// Next is one past the offset of the last record.
func (c Committed) Next() uint64 { return c.next }

// Records is how many there are, at least one.
func (c Committed) Records() int { return int(c.next - c.first) }

// PayloadBytes is the size of all payloads.
func (c Committed) PayloadBytes() int64 { return c.payloadBytes }

// All gives the records in offset order, those that start a generation included,
// which are for replication alone (Mark.Kind says so), decoded from the memory they were
// written from. Payloads lie in that memory too: who keeps one copies it.
func (c Committed) All() iter.Seq[segment.Record] {
	return func(yield func(segment.Record) bool) {
		for rest := c.encoded; len(rest) > 0; {
			r, size := segment.DecodeOwn(rest)
			if !yield(r) {
				return
			}
			rest = rest[size:]
		}
	}
}

func (l *Log) tellTruncatedLocked() {
	if l.follower != nil {
		l.follower.Truncated(l.tailLocked())
	}
}

func (l *Log) tellPoisonedLocked(cause error) {
	if l.follower != nil && !l.mu.closed {
		l.follower.Poisoned(cause, l.mu.durable)
	}
}
