package engine

import (
	"context"
	"errors"
	"time"

	"felix.local/felix/device"
)

var errUnlinked = errors.New("the file is not under its name any more: it or a directory above it was removed, moved or replaced")

// write carries one batch to its segment and acknowledges it, or fails it and
// everything behind it. away says that the commit journal has it instead, and the
// commit loop's role with it.
func (l *Log) write(b *batch) (away bool) {
	file, ok := l.ready(b)
	if !ok {
		return false
	}
	if j := l.store.journal; j.takes(l, b) {
		j.carry(l, b, false)
		return true
	}
	l.writeSegment(b, file)
	return false
}

// ready gets the batch's segment and its blocks; otherwise the batch failed.
func (l *Log) ready(b *batch) (file device.File, ok bool) {
	if b.roll {
		if err := l.rollFor(b); err != nil {
			l.fail(b, err)
			return nil, false
		}
	}
	b.started = time.Now()
	file, err := l.writerFile()
	if err != nil {
		l.fail(b, l.openFailed(err))
		return nil, false
	}
	if err := l.reserve(file, b.end()); err != nil {
		l.fail(b, err)
		return nil, false
	}
	return file, true
}

// writeSegment is write for a batch that the commit journal does not take. The segment
// is not written before it holds all that lags behind the journal: a write past bytes
// that are not there would leave a hole.
func (l *Log) writeSegment(b *batch, file device.File) {
	if err := l.settleLag(); err != nil {
		l.fail(b, err)
		return
	}
	w := &l.mu.active
	if w.size != b.pos {
		panic("engine: a batch does not start where the segment ends")
	}
	l.mu.Lock()
	atSynced := w.synced == b.pos
	l.mu.Unlock()

	onCommit := l.cfg.FsyncMode == FsyncOnCommit
	op := &l.writeOp
	op.Kind, op.File, op.Buf, op.Pos = device.Write, file, b.buf, b.pos
	// A dsync write covers its own bytes and nothing else: it may only be the
	// commit when everything below it is on the device.
	if onCommit && atSynced && l.store.backend.DsyncWrite {
		op.Kind = device.WriteDsync
	}
	err := l.perform(op)
	op.Buf = nil
	if err != nil {
		l.writeFailed(b, file, op.Kind, err)
		return
	}
	durable := op.Kind == device.WriteDsync
	if onCommit && (!durable || op.Pieces > 1) {
		// The flush is submitted after the write's completion: in one
		// submission the two would be unordered.
		if err := l.flushFile(file); err != nil {
			l.fail(b, l.syncFailed(b, err))
			return
		}
		durable = true
		err = stillNamed(file, b.pos)
	} else if durable {
		err = kept(file, b.pos)
	}
	if err != nil {
		l.fail(b, l.syncFailed(b, err))
		return
	}
	l.publish(b, durable)
}

// framed takes the commit role back from the journal, which made the entry's batch
// durable by the frame of a sequence, or did not. The journal's leader calls it, which
// must not wait for what other than a lock can be waited for.
func (l *Log) framed(e *journalEntry, sequence uint64, err error) {
	b := e.batch
	e.batch, e.Bytes = nil, nil
	if err == nil {
		err = e.unnamed
	}
	switch {
	case err == nil:
		b.sequence = sequence
		l.publish(b, true)
	case errors.Is(err, errNoJournalRoom):
		l.store.counters.journalBypassed.Add(1)
		l.bypassing = b
	default:
		l.fail(b, l.poisonWith(err))
	}
	l.goOn(false)
}

// stillNamed fails when a file is not under its name any more: however durable the
// bytes of a record in it are, the next process does not find them.
func stillNamed(file device.File, pos int64) error {
	named, err := file.Named()
	if err != nil { // nobody said that it is not
		return hasName(file, pos)
	}
	if !named {
		err = device.NewError("commit", file.Name(), pos, errUnlinked)
	}
	return err
}

// hasName fails when a file has no name at all.
func hasName(file device.File, pos int64) error {
	linked, err := file.Linked()
	if err == nil && !linked {
		err = device.NewError("commit", file.Name(), pos, errUnlinked)
	}
	return err
}

// kept fails when what a dsync write or a flush that succeeded covered, up to pos, may
// be gone all the same: the file is elsewhere, or the filesystem stopped while the
// flush was under way. ext4 and XFS then let some flushes succeed whose metadata they
// drop. After flushFile the first alone is left to ask.
func kept(file device.File, pos int64) error {
	if err := stillNamed(file, pos); err != nil {
		return err
	}
	return file.TakesWrites()
}

// publish moves the bounds past the batch, tells the follower and acknowledges it.
func (l *Log) publish(b *batch, durable bool) {
	l.mu.Lock()
	if l.mu.poison != nil {
		// Another part of the log failed meanwhile (a seal, a flush); nothing
		// may be reported over it.
		poison := l.mu.poison
		l.mu.Unlock()
		l.fail(b, poison)
		return
	}
	w := &l.mu.active
	w.size, w.next, w.builder, w.newest = b.end(), b.next, b.builder, b.newest
	w.entries = append(w.entries, b.entries...)
	l.mu.written = b.next
	l.mu.produced.keep(b)
	l.mu.appendsWritten += uint64(b.appends)
	fanIn, waiting := uint64(0), int64(0)
	if durable {
		l.coverLocked(b)
		l.mu.durable = b.next
		fanIn = l.mu.appendsWritten - l.mu.appendsSynced
		l.mu.appendsSynced = l.mu.appendsWritten
		waiting = l.stagedAppends.Load() - int64(b.appends)
	}
	l.notifyLocked()
	l.mu.Unlock()
	took := time.Since(b.started)
	if l.follower != nil {
		l.follower.Committed(b.committed())
	}
	l.finish(b)
	l.last = cohort{released: int64(b.appends) + waiting, at: time.Now(), flush: took}
	if durable {
		l.store.counters.syncs.Add(1)
		l.store.observer.Synced(fanIn, took, nil)
	}
	l.store.becameDirty(l, !durable)
	l.maybePrepareRoll()
}

// coverLocked notes where a durable batch is durable: in its segment, or in the
// journal, behind which the segment lags from here on.
func (l *Log) coverLocked(b *batch) {
	w := &l.mu.active
	if b.sequence == 0 {
		w.synced = b.end()
		return
	}
	w.lag.add(b.buf)
	w.journaled = b.end()
	j := l.store.journal
	j.published(l)
	if j.lagBytes.Add(int64(len(b.buf))) > journalLagTotalMax/2 || len(w.lag.staged) > journalLagKick {
		j.wakeCheckpointer()
	}
}

// perform runs a data-path operation by the route the rule gives it.
func (l *Log) perform(op *device.Op) error {
	if place, ok := l.store.inline(l, op); ok {
		return l.store.performInline(op, place)
	}
	return l.store.do(op)
}

// flushFile makes every completed write of a segment durable. A failure poisons.
//
// Of one log at most one flush is in flight, and its verdict is known before the
// next begins: the kernel reports a failed write-back once per descriptor, so of
// two flushes at a time one gets the error and the other a success that proves
// nothing.
func (l *Log) flushFile(file device.File) error {
	l.mu.Lock()
	for l.mu.flushing {
		_ = l.waitLocked(context.Background())
	}
	if poison := l.mu.poison; poison != nil {
		l.mu.Unlock()
		return poison
	}
	l.mu.flushing = true
	l.mu.Unlock()
	op := &l.flushOp // the role's
	op.Kind, op.File = device.Flush, file
	err := l.store.do(op)
	if err == nil {
		err = file.TakesWrites()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.flushing = false
	if err != nil {
		_ = l.poisonLocked(err)
	}
	l.notifyLocked()
	return err
}

// syncFailed poisons the log for a flush, or a durable write, that failed.
func (l *Log) syncFailed(b *batch, err error) error {
	l.store.counters.syncFailures.Add(1)
	l.store.observer.Synced(uint64(b.appends), time.Since(b.started), err)
	return l.poisonWith(err)
}

// writeFailed decides what a failed write means.
//
// A plain write that failed, for whatever reason, and a dsync write that found
// no room did not happen as far as any promise goes: everything below it was
// durable or never promised, so the file is cut back to the last good position
// and the log stays usable. Any other failure of a dsync write leaves unknown
// what the device holds, and poisons.
func (l *Log) writeFailed(b *batch, file device.File, kind device.Kind, err error) {
	class := device.ClassOf(err)
	if class == device.ClassOutcomeUnknown {
		// The kernel may still be reading the buffer; it stays mapped until
		// the process ends.
		b.buf = nil
	}
	if class == device.ClassOutcomeUnknown || kind == device.WriteDsync && class != device.ClassFull {
		l.fail(b, l.syncFailed(b, err))
		return
	}
	if rewindErr := l.rewind(file, b.pos); rewindErr != nil {
		l.fail(b, l.poisonWith(errors.Join(err, rewindErr)))
		return
	}
	l.fail(b, l.usable("append", err))
}

// rewind cuts the active segment back to pos and makes that durable before
// anything is appended again: a later crash must not bring back bytes of a write
// that was reported as failed. Reserved blocks go with the cut.
func (l *Log) rewind(file device.File, pos int64) error {
	l.awaitReservation()
	if err := file.Truncate(pos); err != nil {
		return err
	}
	err := l.flushFile(file)
	if err == nil {
		err = stillNamed(file, pos)
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &l.mu.active
	w.reserve = reservation{}
	if r := l.mu.retired; r == nil || r.synced == r.size {
		w.synced = pos
	}
	l.advanceDurableLocked()
	return nil
}

// usable wraps an error that leaves the log usable.
func (l *Log) usable(op string, err error) error {
	if device.ClassOf(err) == device.ClassFull {
		l.store.counters.full.Add(1)
		return &FullError{Label: l.label, Cause: err}
	}
	return &LogError{Label: l.label, Op: op, Err: err}
}
