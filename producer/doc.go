// Package producer is what a log knows about its idempotent producers: which
// batch of whom it holds, and where. It answers whether a batch that arrives is
// new, was stored already, was stored in part, or leaves a gap.
//
// It owns the State, the rules by which records change it, and the bytes of the
// snapshot in the file "producers". It never opens, reads, writes or deletes a
// file, and never decides what to do about an answer: that is for the packages
// above. The truth for the bytes and the rules is docs/format.md.
//
// # Invariants
//
//   - The state is a pure function of the log's records: every copy of the log
//     that observes the same records, from the same base on, knows the same.
//     A snapshot and the records from its as_of on give what all records give.
//
//   - Records are observed in offset order, each at most once. Records without a
//     mark count: they end a batch that was waiting for more.
//
//   - It is bounded: ProducersMax producers with BatchesMax batches each, and one
//     batch that waits for records. Whose newest batch ends lowest goes first.
//
//   - Bytes of a snapshot are an error or a state, never a panic, and size no
//     allocation before they were compared with the bytes that exist. A snapshot
//     is derived: the answer to any error is to drop it and read the log.
//
//   - What is observed of appends that are not known to have succeeded can be
//     undone exactly: Checkpoint, then Rollback or Forget. Undoing costs as much
//     as what is undone, and keeping the possibility 64 bytes for each batch
//     completed meanwhile.
//
//   - A View is the state at one moment and never changes: what it reads the State
//     copies before it writes there.
//
// # Locks
//
// None. A State belongs to one log and the log's lock protects it, reads and the
// taking of a View included. A View, and functions without a State, may be used from
// anywhere.
package producer
