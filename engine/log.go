package engine

import (
	"context"
	"sync"
	"sync/atomic"

	"felix.local/felix/device"
	"felix.local/felix/internal/budget"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// Log is one shard: an append-only sequence of records in one directory. All
// methods may be called from any goroutine.
type Log struct {
	store *Store
	cfg   Config
	dir   string
	// name is the key in the store's table.
	name  string
	label string

	// commitFn and flushFn are the loops as function values, made once so that
	// starting one allocates nothing.
	commitFn, flushFn func()
	stagedBytes       *budget.Bytes
	report            recovery.Report
	follower          Follower // nil for none
	// maintenance, sidecars and applying are locks that a context can give up on
	// (takeTurn). sidecars is the turn of writing replica, ballot, epochs and
	// offload.manifest; applying that of applying a shipment, or of dropping records
	// that one may be compared with.
	maintenance, sidecars, applying chan struct{}
	// stagedAppends mirrors the number of appends staged, for the gathering
	// pause to watch without the lock.
	stagedAppends atomic.Int64
	// recent says that the writer was used since eviction last looked.
	recent atomic.Bool
	// flushListed, markListed and commitListed say that a timer has the log on its list.
	flushListed, markListed, commitListed atomic.Bool
	// markFailing says that the last lazy mark failed and was reported.
	markFailing atomic.Bool

	mu struct {
		sync.Mutex
		// closing refuses new appends, closed everything.
		closing, closed bool
		// closeJob is the last part of closing, once it began.
		closeJob *closeJob
		poison   error
		// gate is non-nil while exclusive work keeps new appends outside; it is
		// closed when they may try again.
		gate chan struct{}
		// changed is closed and dropped whenever tail, durable, poison or a
		// role changes; nil while nobody waits.
		changed chan struct{}

		// staged are the batches not yet taken by the commit loop, in order.
		staged []*batch
		// plan is where the next append goes, all staged ones considered.
		plan plan
		// inFlight is the batch that the commit loop took last, nil when it failed
		// or the loop looked for the next one.
		inFlight *batch
		// produced is what is known of idempotent producers, staged records
		// included.
		produced produced
		// committing: somebody has the commit role: a commit loop, the journal with a
		// batch, or exclusive work. flushing: a flush is in flight.
		// marking: a write of durable.mark is in flight.
		committing, flushing, marking bool

		// sealed segments, oldest first; replaced, never changed in place.
		sealed []segment.Descriptor
		active writer
		// retired is the former active segment while a background seal runs.
		retired   *writer
		roll      backgroundRoll
		retention retention
		// written is one past the last offset whose bytes were written, durable
		// one past the last known to be on the device.
		written, durable uint64
		// appendsWritten and appendsSynced count the appends below the two
		// bounds since the log was opened; their distance is a flush's fan-in.
		appendsWritten, appendsSynced uint64
		// viewVersion rises when records that a reader may have planned for
		// disappear: it plans again then.
		viewVersion uint64
		replication replication
		// marked and markSynced are what durable.mark says and what of it is
		// itself on the device.
		marked, markSynced recovery.Mark
	}
	// journaled is the log's entry in the next frame of the commit journal, the commit
	// loop's own; pins are the journal's.
	journaled journalEntry
	pins      pins
	// bypassing is a batch that was taken and that the commit journal does not take, the
	// commit loop's own.
	bypassing *batch
	// writeOp belongs to the commit loop, flushOp to whoever has the flush's role.
	writeOp, flushOp device.Op
	// last is the commit loop's own.
	last cohort
}

// writer is the active segment. The holder of the commit role owns it; synced is also
// raised by flushes, and readers look at it, so what they see changes under Log.mu
// alone. How much of the index file is written, the reservation and headerSum nobody
// else looks at: the role changes them without the lock, and after a background roll
// so does the seal, to which the retired segment belongs.
type writer struct {
	id, base, createdAt uint64
	version             uint16
	// file is nil while the log gave its descriptor up.
	file *openFile
	// size is what was written, synced what is known to be on the device, both
	// positions in the file.
	size, synced int64
	// lag is what the commit journal holds of the segment and the file does not yet,
	// journaled how far the journal made it durable; 0 when it never did.
	lag       lag
	journaled int64
	headerSum uint32
	next      uint64
	newest    uint64
	// entries is the index; the first indexed of them are in the index file.
	entries []segment.IndexEntry
	indexed int
	// indexTried is the number of entries when writing them last failed.
	indexTried int
	// indexStale says that the index file may hold entries of other records; it
	// is emptied before the next entry is written.
	indexStale bool
	builder    segment.IndexBuilder
	reserve    reservation
}

func (w *writer) hasRecords() bool { return w.next > w.base }

func (w *writer) descriptor() segment.Descriptor {
	return segment.Descriptor{
		ID: w.id, BaseOffset: w.base, NextOffset: w.next, Size: w.size,
		Version: w.version, CreatedAtMicros: w.createdAt,
	}
}

// plan is the state of the log as it will be when everything staged is written.
type plan struct {
	next    uint64
	size    int64
	version uint16
	records bool
	builder segment.IndexBuilder
}

// replanLocked forgets what was staged: the next append follows what is written.
func (l *Log) replanLocked() {
	w := &l.mu.active
	l.mu.roll.claimed = false
	l.mu.plan = plan{next: w.next, size: w.size, version: w.version, records: w.hasRecords(), builder: w.builder}
}

// Label names the log in errors, "tenant/namespace/stream/shard".
func (l *Log) Label() string { return l.label }

// Dir is the shard's directory.
func (l *Log) Dir() string { return l.dir }

// FsyncMode is what an acknowledgement by this log means.
func (l *Log) FsyncMode() FsyncMode { return l.cfg.FsyncMode }

// Recovery is what opening the log found and did.
func (l *Log) Recovery() recovery.Report { return l.report }

// BaseOffset is the oldest offset still held.
func (l *Log) BaseOffset() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.baseLocked()
}

func (l *Log) baseLocked() uint64 {
	if len(l.mu.sealed) > 0 {
		return l.mu.sealed[0].BaseOffset
	}
	if l.mu.retired != nil {
		return l.mu.retired.base
	}
	return l.mu.active.base
}

// TailOffset is one past the last record a reader can see and an append was
// acknowledged for: the durable bound under FsyncOnCommit, what was written
// otherwise.
func (l *Log) TailOffset() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tailLocked()
}

func (l *Log) tailLocked() uint64 {
	if l.cfg.FsyncMode == FsyncOnCommit || l.mu.poison != nil {
		return l.mu.durable
	}
	return l.mu.written
}

// DurableOffset is one past the last record known to be on the device.
func (l *Log) DurableOffset() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.durable
}

// UnsyncedBytes is what a power loss could take now.
func (l *Log) UnsyncedBytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unsyncedBytesLocked()
}

func (l *Log) unsyncedBytesLocked() int64 {
	n := l.mu.active.size - l.mu.active.durableSize()
	if l.mu.retired != nil {
		n += l.mu.retired.size - l.mu.retired.synced
	}
	return n
}

// advanceDurableLocked moves the durable bound to what the positions synced
// prove. It stays while a retired segment has unsynced bytes: nothing past a
// loss may be reported durable. The mark is due whenever they moved.
func (l *Log) advanceDurableLocked() {
	l.store.listMark(l)
	if r := l.mu.retired; r != nil && r.synced < r.size {
		return
	}
	w := &l.mu.active
	bound := w.base
	if w.synced == w.size {
		bound = w.next
		l.mu.appendsSynced = l.mu.appendsWritten
	}
	l.mu.durable = max(l.mu.durable, bound)
}

// Segments describes the log's files, oldest first; the last is the active one.
func (l *Log) Segments() []segment.Descriptor {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]segment.Descriptor, 0, len(l.mu.sealed)+2)
	out = append(out, l.mu.sealed...)
	if l.mu.retired != nil {
		out = append(out, l.mu.retired.descriptor())
	}
	return append(out, l.mu.active.descriptor())
}

// Poisoned returns the *PoisonedError that appends get, or nil.
func (l *Log) Poisoned() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.poison
}

// poisonWith makes the log refuse every further append; the first reason wins.
func (l *Log) poisonWith(cause error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.poisonLocked(cause)
}

func (l *Log) poisonLocked(cause error) error {
	if l.mu.poison == nil {
		l.mu.poison = &PoisonedError{Label: l.label, Cause: cause}
		l.mu.viewVersion++ // readers that planned past the durable bound plan again
		l.store.unclean.Store(true)
		l.store.logger.Error("log poisoned", "log", l.label, "cause", cause,
			"durable_offset", l.mu.durable, "written_offset", l.mu.written)
		l.tellPoisonedLocked(cause)
		l.notifyLocked()
	}
	return l.mu.poison
}

// notifyLocked wakes everybody who waits for a change.
func (l *Log) notifyLocked() {
	if l.mu.changed != nil {
		close(l.mu.changed)
		l.mu.changed = nil
	}
}

// changedLocked is closed at the next change.
func (l *Log) changedLocked() <-chan struct{} {
	if l.mu.changed == nil {
		l.mu.changed = make(chan struct{})
	}
	return l.mu.changed
}

// waitLocked unlocks until the next change, or until ctx ends, and locks again.
func (l *Log) waitLocked(ctx context.Context) error {
	ch := l.changedLocked()
	l.mu.Unlock()
	defer l.mu.Lock()
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
