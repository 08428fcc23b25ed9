// Package simdisk is a disk in memory that can lose power. It keeps what a
// program reads back (the page cache) apart from what the device holds, and
// builds the disks that a crash at any moment may leave. It is for tests alone.
//
// It owns the model of what survives. It never decides which operation a program
// issues, and it never makes a result that a real disk could not give, as far as
// package device lets a disk behave.
//
// # What a power loss may do
//
//   - A flush covers what was in the page cache when it was issued, once it
//     completed. Bytes written while it was under way may be lost.
//   - A dsync write covers its own bytes, and the length up to their end, and
//     nothing else. When it took several pieces it covers the last one only.
//   - A directory entry that changed since the directory was last flushed is old
//     or new: a new file may be gone, an unlinked one back, a renamed one under
//     either name or both. It is never under neither, unless CrashOptions say so.
//   - The length of a file is the durable one, the current one, or anything in
//     between.
//   - A page of 4096 bytes that changed since it was last made durable is lost,
//     written, or torn: its first sectors of 512 bytes are new and the rest is
//     old. Blocks that were never written read as zeros.
//   - A write under way has happened, or has not, or has in part. So has one that
//     takes several pieces. Bytes that lie in one sector are written as one.
//   - A reservation of blocks shows nowhere.
//
// # What a failed flush does
//
// The pages it was to write count as clean from then on, so that a later flush
// succeeds without them. The page cache goes on showing the new bytes, or shows
// what the device holds; a SyncFault says which. DropCache makes reads of clean
// pages come from the device.
//
// # Invariants
//
//   - A Disk that Crash returned shares no state with the one it came from, which
//     goes on. Pages are shared and copied when written, so an image costs a few
//     microseconds and one workload yields thousands.
//   - One seed decides everything that an image or a queue chooses, in an order
//     that depends on nothing but the operations that went before.
//   - No goroutine outlives the operations of a Queue.
//
// Recorder applies the same model to real files.
//
// # Locks, in order
//
//	Recorder.names, Disk.mu
//
// Queue.mu is a leaf, and so is Disk.mu. Hooks run with no lock held.
package simdisk
