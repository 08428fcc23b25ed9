// Package sidecar owns the bytes of the small files that lie beside segments: in
// a shard's directory epochs, replica, ballot, offload.manifest and keys.idx; in a
// root storage-id, run-state, registration and node-id; and the markers in .streams/.
//
// It turns bytes into values and back, and puts a small file in another's place
// so that a crash leaves one or the other whole. Two pure rules live here because
// they are what the files mean together: Reconcile makes one Promise of a replica
// and a ballot, and Promise.Accept says which leader may be followed and what has
// to be written first.
//
// It never decides what a damaged file means for an open. A decoder says
// *DecodeError; its caller knows that epochs then reads as empty with a warning,
// that replica, ballot and offload.manifest fail the open and storage-id the start,
// that keys.idx is removed, that run-state asks for a new storage id, and that a
// stream with an unreadable marker is not served. Segments, indexes and durable.mark are of packages segment and recovery; the snapshot of
// producers is of package producer.
//
// # Invariants
//
//   - Decoders are pure, allocate no more than the file's limit, and check in one
//     order: enough bytes to know the kind, magic, version, length, checksum,
//     content. A file of another version so says that it is one, whatever its
//     other bytes mean.
//   - Decoding what was encoded gives the same value.
//   - Absent and empty are different things: Read and the Load functions give nil
//     for a file that is not there, and an empty file does not decode (but for
//     node-id, of which the empty one is no id).
//   - All values are values: a copy is not changed through the original.
//   - A temporary file is never read. Replace makes a new one each time, so that a
//     failed flush of an earlier one cannot be taken for a good one of this.
//
// Reading goes through the page cache, and names may be there that are not yet
// durable: a former process may have died between a rename and the flush of the
// directory. Whoever acts upon what an authoritative file says calls FlushDir
// first; an open of a shard does so in any case.
//
// # Locks
//
// None. Of one name, one Replace or Remove runs at a time; its owner sees to that.
//
// docs/format.md describes the bytes.
package sidecar
