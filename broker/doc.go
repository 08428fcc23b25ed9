// Package broker is streams: names, shards, the order in which records are
// committed, replayed and delivered, and subscriptions that resume.
//
// It never decides what is on disk (package engine) and knows no protocol
// (packages httpapi and kafka).
//
// # One order
//
// A shard of a durable stream is one engine.Log. The log's commit loop hands every
// batch that became visible under the stream's fsync mode to the shard, in the order
// on disk, before any append in it is acknowledged. There is no second order to
// keep in step:
//
//	publish ─ Log.Append ─ [bytes on disk, durable under on_commit]
//	commit loop ─ Committed: ring, then wake subscribers ─ acknowledge
//
// A shard of an in-memory stream has no log; offsets are assigned, the ring is
// filled and subscribers are woken under shard.mu.
//
// # Reading and resuming
//
// A shard's view is [base, next): next rises in Committed alone, so what the ring
// holds, what a range read may return and what a subscriber gets all end at the
// same offset. The ring holds the newest records, bounded in number and bytes. A
// subscription is a position: it takes a page from the ring when its position is
// there, and from disk otherwise, so that a slow one costs one page of memory, and
// history needs no second path. It is registered for wake-ups before it looks at
// the bounds; a record published meanwhile is either seen or wakes it.
//
// The ring is the bounded queue of every subscription to a durable stream. One that
// falls behind it reads from disk again (WhenFullDisk), or holds publishers
// back (WhenFullBlock). A subscription to an in-memory stream has a queue of
// its own; what does not fit is dropped, counted, and told as the offsets missed.
//
// # Definitions
//
// <root>/.felixd/streams/ holds one file per stream, written under a temporary
// name, flushed, renamed, and the directory flushed, before a change is answered.
// A file that cannot be read makes its stream unavailable and no other.
// A durable stream has an incarnation, which the names of its shards' directories carry
// and which the store settles, in the stream's marker: creation asks for it first, then
// opens the shards, then writes the file.
//
// Deletion is recorded in the file first, then in the marker, so that no shard is opened
// any more; then the shards are renamed into .deleted/, then the marker has the
// incarnation as gone, then the file goes. A crash in between ends with the deletion
// carried out, and a stream of the same name never opens the old shards. Where the file
// and the marker disagree at a start, definition_agree.go says what comes of it.
//
// # Locks, in order
//
//	Broker.changing    definitions: one change at a time; held across disk work
//	Broker.mu          the table of streams; never held across disk work
//	engine.Log's own   Committed and Poisoned are called by the log
//	Watch.mu           what it watches
//	shard.mu           ring, bounds, subscribers
//	rings.mu           the shards whose rings share a bound; calls nothing
package broker
