// Package corrupt damages logs in every way that one bit or one lost end of a
// file can, opens each through the engine, and holds that no record is lost
// without a word. It is for tests and for proofs alone.
//
// It owns the logs it damages, the list of damages, and a second opinion: what
// has to happen to an image follows from which record was hit and from what
// durable.mark vouches for, worked out here from the bytes that were written and
// not from anything package recovery says. It never repairs anything itself.
//
// # Invariants
//
//   - An image is a copy: damage done to one is in no other.
//   - Every image gets exactly one verdict. What is not among the verdicts
//     expected of it is Lost, whatever it looks like.
//   - A verdict other than Whole is checked to its end: a refusal names the file
//     and the position of the damaged record and changes nothing; a cut leaves
//     every record in front of the damage, has its side copy and counts the intact
//     records it took along; and a log that was opened short takes another record
//     and is opened again.
//   - The images of a run follow from its options, without chance.
//
// # Locks
//
// None is held across a call. Workers share the worlds they read and hand their
// results over a channel.
package corrupt
