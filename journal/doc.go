// Package journal is the bytes of the commit journal: the file that names the
// epoch, the frames that a store commits through, and how the chain of frames is
// found again in files that are used over and over.
//
// It owns encoding, decoding and scanning, and the names of the files. It never
// opens, writes, renames or removes one, and it never judges whether a frame fits
// the segments it speaks of: that is the business of package recovery. Frames are
// written by the engine.
//
// The truth for the bytes is the chapter "The commit journal" of docs/format.md
// and the golden vectors in testdata. If code and document disagree, that is a
// bug in the change.
//
// # Invariants
//
//   - A frame is taken only when both of its checksums match and every field and
//     entry is possible. No length read from a file sizes an allocation: what is
//     larger than FrameBytesMax is no frame.
//   - Frames of another epoch are leftovers, whatever else is right about them.
//   - The chain has no gap: it goes on by exactly sequence + 1 from the largest
//     "oldest needed" on. It may end at a frame that was never finished; when a
//     later frame exists, a frame that was finished is gone, and that is a
//     *RottenError, never a shorter chain.
//   - Wherever a walk finds no intact frame it goes on by one block, never by a
//     length that an unverified frame claims. So a payload that holds a frame
//     hides nothing. Nor can it add anything: a copy of a frame is older than the
//     frame it is carried in, and one made up would have to guess the epoch.
//   - Memory is bounded by one frame and one reference for each block of the
//     files at most. In practice that is one for each frame.
//
// There are no locks: functions may be called by many goroutines at once as long
// as they do not share their arguments.
package journal
