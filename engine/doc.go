// Package engine is the log: a Store (one root directory: its lock, its backend,
// its identity, its memory and descriptor bounds, its timers) and Logs (one shard
// directory each: append, group commit, roll, read, retention, truncation, deletion, batches
// of idempotent producers, and what a replica knows: which generation wrote which
// records, whom it follows, what is committed, and the shipments between replicas).
//
// One log of a store may have a mode and bounds of its own (LogOptions), and a
// Follower that is told what becomes visible.
//
// It never decides what a damaged directory means (package recovery), what bytes
// mean (package segment) or how an operation reaches the disk (packages uring and
// fallback), and knows nothing of networks or subscribers.
//
// # How a record becomes durable
//
//	Append ─ reserve staging bytes ─ lock ─ assign offsets, encode into the last
//	         staged batch ─ unlock ─ wait for the batch
//	commit   gather ─ take the first batch ─ [roll] ─ one write ─ publish ─ tell
//	         the follower ─ wake all of the batch ─ next batch
//
// At most one commit loop runs per log (Log.mu.committing); it alone appends to,
// rolls or cuts the active segment. Under on_commit the loop is a goroutine that
// lives while there is work; under none and periodic, where the write goes to the
// page cache, the appender that finds no loop running runs it itself.
// While a batch is in flight, later appends gather in the next one: that is the
// group commit. Where a segment ends is decided per append, when it is staged.
//
// Under on_commit a batch may become durable in the commit journal of its store
// instead of its segment:
//
//	commit   gather ─ take the first batch ─ [roll] ─ entry in the next frame, which
//	         batches of all logs share; the loop ends, its role goes with the entry
//	leader   one write per frame ─ for each log of it: publish, the bytes lag in
//	         memory; stage the next batch, or start a commit loop for it
//	         checkpoint, later: lag ─ one write to the segment ─ flush
//
// An appender that finds no loop stages the entry itself (Log.goOn), where nothing but
// the frame has to be waited for. One whose log has the store to itself and whose
// context cannot end writes that frame too.
//
// Whoever writes a segment in another way, or seals, cuts or closes it, brings it up
// to the journal first (settleLag).
//
// Whoever waits for a batch is woken by its lone signal (a blocking append that
// came first), by its crowd (further ones under on_commit), or by its done
// channel (handles, and whoever outlasts the crowd's patience).
//
// # Invariants
//
//   - written ≤ what write completions reported; durable ≤ what a returned flush
//     or dsync write covered; tail (what readers see and what is acknowledged)
//     is durable under on_commit and written otherwise.
//   - A dsync write covers its own bytes only: it moves the durable bound from a
//     to b only if the bound stood at a when it was submitted. Whenever something
//     below may be unsynced, or the write took several pieces, a flush is
//     submitted after its completion.
//   - No flush or dsync write moves a bound, or lets a caller go on, before the file
//     was asked after it whether its filesystem still takes writes. Asking may wait
//     for that file's lock in the kernel, or for a filesystem to thaw; limitedFS
//     bounds the threads.
//   - A segment is sealed (data, index and length on the device) before a record
//     of its successor can be acknowledged. With background rolls its data is
//     synced before a record of its successor is reported durable; index and
//     length may follow later.
//   - durable.mark is written only after the sync it describes returned, with one
//     write in flight per log.
//   - Of one log at most one flush of a segment is in flight, and its verdict is
//     known before the next begins: of two, the kernel tells only one that bytes
//     were lost.
//   - A failed flush is final: the log is poisoned until its Store is closed or
//     the shard deleted.
//   - No log waits for another's flush that hangs.
//   - Offsets of staged appends are provisional. When a batch fails, it and all
//     that is staged behind it complete with that error, in order, before any of
//     those offsets is assigned again.
//   - A follower is told every record that becomes visible, once, in offset order
//     and before its append is acknowledged; of what fails it is told nothing.
//   - What is known of idempotent producers is a function of the log's records,
//     staged ones included, and is undone with the batch that fails, in the same
//     lock section. A retry is answered once the batch that holds its records is
//     acknowledged, and fails with it: never by the bound that passes an offset.
//   - The snapshot of producers is taken at the staged tail that a roll's segment
//     begins at, and written when the records below are durable. One that tells
//     of other records is removed, durably, before the log is used or used again.
//   - No entry of offload.manifest names records whose offsets others have taken: a
//     cut takes it out, durably, before any segment is touched. An index of a cache's
//     keys goes with the snapshot of producers.
//   - What a log promised to a leader is on the device before the answer, the
//     ballot before replica. A generation is noted in epochs before its first
//     record is written and goes from there after its records did; one past the
//     tail is dropped, durably, before the log is used.
//   - The commit offset rises in memory and its file follows; nothing waits for
//     it. It is lowered by RestoreTo alone, durably before anything is cut.
//   - Records of a shipment are staged, and acknowledged to their leader, only while
//     it is the one that is followed. None is appended behind a record that is not
//     known to be the leader's too.
//   - Trimming and retention remove whole sealed segments, oldest first. What
//     TrimBefore was told never reaches past the tail: records that take the
//     offsets of truncated ones are not trimmed.
//   - A deleted shard's files are removed only when its name is durably gone from
//     the root; until then the shard is whole, and after that it cannot be opened.
//   - A log with unsynced bytes keeps its descriptor; an idle, synced one may
//     give it up.
//   - A root's storage id vouches for every record that was acknowledged under it: a
//     new one is durable before anything else of a start whose predecessor may have
//     lost some, and "stopped cleanly" is written last, when every log's last flush
//     returned and none was poisoned in the whole run.
//   - What a stream's marker says is durable before anybody acts on it; a log of
//     another incarnation than the marker's is not opened.
//   - What lags behind the journal is the end of the active segment and is durable:
//     readers have it from memory. A batch enters a frame only when its segment's
//     header is durable, its blocks are reserved, and everything below it is durable.
//   - A frame is durable before the next is begun. It is not written over before the
//     segments hold durably what it holds, and a durable frame elsewhere says so.
//   - Before records are cut or removed the journal is told, durably, that it holds
//     nothing of them; what lags is in the segment by then. durable.mark counts what
//     the segment itself holds.
//   - A frame that failed poisons every log. Lagging bytes that cannot be written
//     poison theirs: they stay readable, and their frames stay for the next start.
//   - A journal that holds something is replayed before anything of the root is served.
//
// # Locks, in order
//
//	Log.maintenance   truncation, seal, retention, close: one at a time; never
//	                  taken by an appender, held across disk work
//	Log.sidecars      the turn of writing replica, ballot, epochs and
//	                  offload.manifest; held across disk work, by exclusive work
//	                  that cuts records throughout
//	Log.mu            everything an appender touches; never held across disk work
//	commitJournal.mu  the next frame and what frames are needed for; never held
//	                  across disk work
//	leaves            Arena, byte budgets, Store.dirty, caches, the idle goroutines of
//	                  committers, the turns of producerSavers, the queue's own
//
// Store.identity and Store.markers guard the small files of the root. They are held
// across disk work, by those who open logs, register, begin or delete streams, or
// close the store; nothing else is locked while one of them is taken, and an appender
// takes neither.
//
// Store.mu guards the table of logs, who opens or deletes a shard, and which timers
// run. It is not held while a Log's lock is taken; commitJournal.mu is taken under it
// (who opens a shard asks whether the journal alone holds records of it), and leaves.
// The order in which things are waited for: staging bytes are reserved before
// Log.mu is taken; nothing waits for bytes, a slot or a disk while holding it.
// Exclusive work (truncation, seal, close) closes the log's gate, so that new
// appends wait outside, and then waits for the commit loop and the flush in
// flight to end; only then does it take Log.sidecars. Log.applying, the turn of
// applying a shipment or of dropping records, is taken before all of these. A seal
// opens the gate again before it reads what it sealed, and keeps maintenance until it
// did.
//
// Follower.Committed is called with no lock held, by who has the commit role alone;
// Truncated and Poisoned are called under Log.mu. A follower's own lock is a leaf
// below it.
//
// # Goroutines
//
// One goroutine, an appender's own where its log has the store to itself, leads the
// journal while entries are staged: it writes frames, one at a time, and has each log's
// commit role while it publishes what a frame held. It waits for the journal's own
// writes alone. The checkpointer waits for nothing that an appender can hold.
// Goroutines of commit loops and of the leader are kept for the next one (committers),
// until the store is closed.
//
// A store has its timers, those for periodic flushes and for retention from the
// first log on that needs them, the checkpointer where there may be a journal, and
// while there is work
//
//	per log     a commit loop; one that writes the commit offset; one that prepares a
//	            roll, or seals what the last one retired; one for a Sync that finds
//	            no flush under way; one that closes the log (closeJob)
//	per store   one for each tick of the flush timer and each round of the
//	            checkpointer; one that makes the journal's files, and one that settles
//	            their loss; up to producerSaversMax that write snapshots of producers;
//	            one that frees deleted shards; one that closes the journal and writes
//	            the last word of a run (stopJob)
//	beside      up to two for whoever looks for a descriptor (makeRoom), which go on
//	            when that one was found; one that poisons every log (poisonAll)
//
// Close ends all of them. Store.running counts the timers, the checkpointer and what
// those two start, who makes the journal's files, who opens or deletes a shard or works
// on the files of the root, and who frees deleted shards: of that one Close waits for
// the file that is being removed and leaves the others to the next OpenStore. When none
// is left it closes the logs, each of which waits for every role and turn of it that
// somebody has, and when no log is open the queue. That covers what is not counted: a
// pass of makeRoom's or Sync's has a log's one flush from before it submits anything
// until its last operation has completed, and begins none of a closed log. What is left
// to it then, and all that poisonAll does, is in memory. When the context of a Close
// ends first, closeJob and stopJob go on, and the next Close waits for them.
package engine
