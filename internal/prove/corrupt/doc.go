// Package corrupt damages logs, opens each through the engine, and holds that no
// record is lost without a word: every bit of every file, every shorter length,
// sectors and pages that read as zeros or hold what belongs elsewhere, and files
// that are missing or hold what another one does. It is for tests and for proofs
// alone.
//
// It owns the logs it damages, the list of damages, and a second opinion: what
// has to happen to an image follows from which records were hit and from what
// durable.mark vouches for, worked out here from the bytes that were written and
// not from anything package recovery says. It never repairs anything itself, and
// never does two damages to one image.
//
// # Invariants
//
//   - An image is a copy: damage done to one is in no other.
//   - One verdict is expected of every image. Whoever gets another is Lost,
//     whatever it looks like.
//   - A verdict other than Whole is checked to its end: a refusal names the file
//     and the position of the damaged record and changes nothing; a cut leaves
//     every record in front of the damage, has its side copy and counts the intact
//     records it took along; and a log that was opened short takes another record
//     and is opened again.
//   - Where records were moved, the number of intact ones in a cut has bounds
//     instead: a search cannot tell all of them from what it passed already.
//   - The images of a run follow from its options, without chance, and a Case
//     names each.
//
// # Locks
//
// None is held across a call. Workers share the worlds they read and hand their
// results over a channel.
package corrupt
