// Package device is the seam between Felix and a disk.
//
// It owns what storage may ask of a disk and how a disk may answer: the
// namespace calls (FS, File), the data-path operations (Op, Queue), the classes
// an error falls into (Class), and the page-aligned memory that operations write
// from (Arena). It decides nothing: which operation is issued when, and what an
// error means for a log, belongs to the packages above.
//
// # Contracts that the packages above rely on
//
//   - An Op and everything it names (File, Buf) belong to the Queue from Submit
//     until Done delivers. A caller that gives up waiting frees nothing.
//   - Two ops in flight at once are unordered, whatever order they were
//     submitted in. A flush that must cover a write is submitted after that
//     write's completion was seen.
//   - A Write or WriteDsync completes with N == len(Buf), or with an error and
//     N bytes of progress that prove nothing about the rest. An implementation
//     repeats short transfers itself and reports that it did so in Op.Pieces,
//     because a write that took several pieces is not one atomic dsync write.
//   - WriteDsync covers its own bytes, and the file length up to their end, and
//     nothing else. Flush covers every byte whose write completed before the
//     flush was submitted, and the length. FlushAll also covers metadata that
//     reading the bytes does not need; it is the one to use on a directory.
//   - A failed flush is final. No implementation retries one. One that succeeded
//     proves nothing if its filesystem stopped while it was under way, which
//     File.TakesWrites says afterwards.
//   - Complete is called exactly once per Submit and never runs a caller's code:
//     it hands the result over and returns.
//
// # Locks
//
// Arena.mu is a leaf: nothing is called while it is held. The package starts no
// goroutine.
//
// The conformance suite is device/devicetest; every implementation (ring, pool,
// and any simulated disk) runs it.
package device
