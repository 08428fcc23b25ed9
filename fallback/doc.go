// Package fallback carries data-path operations to a disk with blocking system
// calls, on a bounded pool of goroutines. It stands in where the kernel or the
// container forbids io_uring, and leaves the same bytes on disk.
//
// It owns the line of waiting operations and the workers. It never decides what
// an error means, never repeats an operation (device.File.Perform does what
// repeating is allowed), never takes a log's lock, runs a caller's code or waits
// for another operation.
//
// # Invariants
//
//   - An operation waits in line only while every worker the bound allows is
//     busy or on its way to the line. Operations start in the order they were
//     submitted in; nothing is promised about the order they end in.
//   - Counters are brought up to date before an operation is completed, so a
//     caller that saw a completion finds it counted. After completing it, the
//     pool never touches the operation again.
//   - Workers start on demand. One that was idle for a whole idle period ends,
//     so an idle store keeps no thread.
//   - Close returns when every submitted operation was completed and every
//     worker has ended.
//
// # Locks
//
// Pool.mu is a leaf: no system call, completion or wait happens while it is held.
//
// Where this document and the code disagree, the change that made them disagree
// is wrong. The contract of a queue is in package device.
package fallback
