// Package faultdisk wraps a disk and makes chosen operations fail, end short or
// wait, the way a real device does, and writes down what was asked of the disk
// and in which order. It is for tests alone.
//
// It owns the decision which operation a fault hits, and the record of
// operations. It never makes an error of its own kind: what it returns is a
// *device.Error around an errno, as the wrapped disk would return it. It does
// not simulate power loss.
//
// # Invariants
//
//   - An operation is counted, recorded and matched against the faults when it is
//     submitted (data path) or called (everything else), in that order, under one
//     lock, so "the third write" means the same in every run of a sequential
//     test.
//   - An operation that no fault hits reaches the wrapped disk unchanged.
//   - Submit never waits, not even for an operation that a fault holds.
//
// # Locks
//
// Queue.mu, Disk.mu and node.mu. None is taken while another is held. node.mu is
// held across calls of the wrapped disk, the others across nothing.
package faultdisk
