// Package recovery turns a shard directory, in whatever state a crash left it,
// into a log that may be appended to, or refuses loudly.
//
// It is the only code that may cut or delete anything at open, and it works in
// four strokes:
//
//	Settle   what the kernel still holds goes to the device, and the cache is
//	         dropped, so that what follows judges bytes that survive a power cut
//	Inspect  reads the directory into a Snapshot and changes nothing
//	Decide   a pure function from Snapshot and Policy to a Plan: ordered steps,
//	         each with its reason, or refusals that name shard, segment, file
//	         and position
//	Apply    carries the plan out in an order that is safe at every crash point
//
// The inspection tool prints the plan of Inspect and Decide; Open runs all four,
// so the two can never disagree.
//
// # Invariants
//
//   - A refusal applies nothing. Steps planned before the check that refused
//     would be harmless on their own, but a directory somebody has to look at is
//     worth more untouched: the evidence stays as the crash left it, and a
//     second tool, or an older build, sees the same thing.
//   - No byte is cut unless it provably belongs to an unfinished write: the
//     record runs past the end of the file, or it lies at or past what
//     durable.mark vouches for, or the blocks were never written (zeros to the
//     end of the file, only without a mark), or the operator opted in.
//   - Cut bytes are copied beside the segment first, with the copy and its name
//     durable before the cut. A file that holds records is renamed, never
//     deleted, but for segments in front of a gap that offload.manifest names
//     copies of.
//   - Nothing is reported as recovered before every touched segment, then the
//     directory, then durable.mark is on the device.
//   - Opening a recovered directory again changes no byte.
//   - Memory is bounded by one read buffer, one record and the index entries of
//     the newest segment, whatever the number of segments; one segment and its
//     index are open at a time.
//   - Names that are not ours are listed and left alone. Sidecars of the layers
//     above (epochs, replica, ballot, producers, offload.manifest, keys.idx) are
//     known by name, and left to their owners. Of them offload.manifest is read,
//     and refuses when it is damaged; it is never changed here.
//
// # Locks
//
// None: a directory is recovered by one goroutine, which holds the root's lock
// through its caller.
//
// docs/recovery.md describes the same for an operator.
package recovery
