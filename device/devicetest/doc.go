// Package devicetest is the conformance suite of a disk: every promise that
// package device makes to the packages above, as a named test. Each
// implementation of device.FS and device.Queue runs it, and one that passes may
// stand in for any other.
//
// It owns no promise of its own: what it checks is written in package device, and
// where the two disagree the suite is wrong. It never looks at how a disk works;
// what only a kernel can offer (FIFOs, a filesystem that is really full) is
// skipped, with the reason, on a disk whose files have no descriptor.
//
// What power loss leaves behind is not checked here: only a simulated disk can
// show it.
package devicetest
