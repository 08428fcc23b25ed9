// Package segment is the bytes of a log: what a segment file, its records and
// its sparse index look like, and every verdict about whether bytes are intact.
//
// It owns encoding, decoding, scanning and reading, and the names of the two
// files a segment consists of. It never opens, creates, cuts or deletes a file,
// lists a directory, starts a goroutine or holds a lock: callers bring an
// io.ReaderAt and a size. It decides what is damaged; what to do about damage
// belongs to the packages above.
//
// The truth for the bytes is docs/format.md and the golden vectors in testdata.
// If code and document disagree, that is a bug in the change.
//
// # Invariants
//
//   - No length read from a file sizes an allocation before its header CRC was
//     verified, it was compared with the limit, and it was compared with the
//     bytes that exist.
//   - A record is returned only when both of its checksums match and its offset
//     is the one that belongs there. Bytes that fail are an error or a Damage,
//     never a shorter result.
//   - An index entry is a place to start looking, never evidence. A wrong one
//     costs a longer walk, not a wrong answer.
//   - Memory is bounded by the caller's buffer or budget plus one record.
//   - An offset is logical, a position is a byte in a file.
//
// Values of this package carry no locks; a function may be called by many
// goroutines at once as long as they do not share its arguments.
package segment
