// Package enumerate runs every short workload of a log, takes the power away in
// front of every change it makes to the disk, opens every disk that may then be
// left, and holds that no durable record is lost. It is for tests and for proofs
// alone.
//
// It owns the workloads, the order in which a disk completes what is under way,
// and the expectation: what an image has to hold follows from what was appended,
// from what was acknowledged and from the durable bound the log gave before the
// power went. It never decides what a power loss may leave (package simdisk), and
// repairs nothing itself.
//
// # What is enumerated
//
//   - Workloads: every sequence of up to Options.OpsMax operations, the empty one
//     included, which only opens the log for the first time.
//   - Crash points: in front of every change, and after the last. A workload's own
//     are those of its last operation, with what goes on in the background
//     afterwards; the earlier ones are those of the workload without its last
//     operation, and are visited there.
//   - States: all that the bound tells apart, or, where those are too many, the
//     corners and a sample. Such crash points are counted.
//
// A disk that was judged already under the same expectation and configuration is
// counted again and not opened again.
//
// One caller does one thing after the other. What several callers at a time do to
// each other, writes that fail, and a process that is killed are for other proofs.
//
// # Invariants
//
//   - A run follows from its options: whatever two goroutines submit at a time is
//     put in order, and nothing on disk moves before every goroutine waits. Time
//     passes within the operation Sync and nowhere else. What is left to chance is
//     which of two goroutines of the log is first at a lock both were woken for:
//     with late background rolls, two runs over all workloads of four operations
//     differed in 22 of 280,000 states.
//   - Every state gets exactly one verdict. A state that opens is read whole and
//     gets a record; what is left when the power goes then is read whole as well;
//     and the log is closed, opened, read and gets another record.
//
// # Locks
//
// heldQueue.mu and cache.mu are leaves. Everything of a workload is changed by the
// goroutine that drives it, while all others of its bubble wait.
package enumerate
