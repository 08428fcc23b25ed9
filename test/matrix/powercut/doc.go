// Package powercut cuts the power of a virtual machine in which Felix appends, and looks
// at what the next start finds.
//
// Two kinds of cut:
//
//   - Cuts kills the emulator at a random acknowledgement, over and over on one disk, so
//     that damage would add up. What the guest handed to its disk is there afterwards, in
//     the host's page cache: this finds a flush of the filesystem that is missing, and
//     everything that a crash of a kernel may leave.
//   - Replay runs the program once over a disk that logs every write and flush, builds
//     what that disk may hold after a cut at many moments, with its cache kept, lost or
//     lost in part, and lets a guest recover each. This finds a flush of the disk that is
//     missing.
//
// The program in the guest is package workload's; the judge, Ledger, is here, outside of
// the machine. Either kind can be run with Options.Lie, which acknowledges what is not
// durable: the check of the checker, which has to find records lost.
//
// The numbers of acknowledgements follow from a seed, which is printed; what the guest
// does in between does not, so a run cannot be repeated exactly. The disk of a run that
// found something is kept.
package powercut
