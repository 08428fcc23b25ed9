package engine

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"felix.local/felix/device"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// ceilingLocked is the size an append may bring the active segment to.
func (l *Log) ceilingLocked() int64 {
	if l.mu.roll.preparing || l.mu.retired != nil {
		return l.cfg.SegmentBytes + l.cfg.SegmentBytes*int64(l.cfg.MaxOvershootPercent)/100
	}
	return l.cfg.SegmentBytes
}

// rollFor starts the segment that b opens. It runs in the commit loop, after
// everything staged before b was written.
//
// Order: an older retired segment is sealed first; the active one is sealed
// (its data, index and length durable) before its successor exists; the
// successor's header and name are durable, and durable.mark has moved to it,
// before the first record in it can be acknowledged.
func (l *Log) rollFor(b *batch) error {
	prepared, err := l.settleRolls()
	if err != nil {
		return err
	}
	if prepared != nil {
		return l.installPrepared(b, prepared)
	}
	if err := l.sealActive(); err != nil {
		return err
	}
	if err := l.openSuccessor(b.first, b.version); err != nil {
		return err
	}
	l.saveProducers(b.first, b.takeProducers())
	return nil
}

// settleRolls waits until no background roll is under way and takes what one has
// prepared.
func (l *Log) settleRolls() (*preparedSegment, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.mu.roll.preparing || l.mu.roll.sealing {
		_ = l.waitLocked(context.Background())
	}
	if l.mu.poison != nil {
		return nil, l.mu.poison
	}
	prepared := l.mu.roll.prepared
	l.mu.roll.prepared, l.mu.roll.claimed = nil, false
	return prepared, nil
}

// sealActive seals the active segment if it holds records; all that was written
// is durable afterwards. The caller holds the commit role.
func (l *Log) sealActive() error {
	w := &l.mu.active
	if !w.hasRecords() {
		return nil
	}
	if _, err := l.writerFile(); err != nil {
		return l.openFailed(err)
	}
	l.awaitReservation()
	if err := l.settleLag(); err != nil {
		return err
	}
	if err := l.sealSegment(w); err != nil {
		l.store.counters.syncFailures.Add(1)
		return l.poisonWith(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w.synced = w.size
	l.advanceDurableLocked()
	l.notifyLocked()
	return l.mu.poison
}

// openSuccessor creates the segment that follows the active one, which is sealed
// or empty, and makes it the active one.
func (l *Log) openSuccessor(base uint64, version uint16) error {
	w := &l.mu.active
	id := w.id + 1
	header := segment.Header{Version: version, BaseOffset: base, CreatedAtMicros: l.store.nowMicros()}
	l.store.makeRoom(l)
	f, err := l.createSegment(id, header)
	if err != nil {
		return l.createFailed(err)
	}
	l.swap(l.emptyWriter(id, header, newOpenFile(f)), false)
	l.store.counters.rolls.Add(1)
	// The mark moves before the first acknowledgement in the new segment: a
	// mark that stayed behind would let rot in it pass for an unfinished write.
	// One that could not be written is only stale, which the next tick mends.
	if err := l.saveMark(true); err != nil {
		l.markFailed(err)
	}
	return nil
}

// emptyWriter goes on in a segment without records, whose header is durable.
func (l *Log) emptyWriter(id uint64, h segment.Header, file *openFile) writer {
	return writer{
		id: id, base: h.BaseOffset, createdAt: h.CreatedAtMicros, version: h.Version, file: file,
		size: segment.HeaderSize, synced: segment.HeaderSize, next: h.BaseOffset,
		builder: segment.IndexBuilder{Spacing: l.cfg.IndexSpacingBytes},
	}
}

// createSegment makes the segment that follows the newest one. A file in its way
// that is too short for a record is one that an earlier attempt could not remove.
func (l *Log) createSegment(id uint64, header segment.Header) (device.File, error) {
	if id == 0 { // one past the largest
		return nil, &ExhaustedError{Label: l.label, What: "segment ids"}
	}
	f, err := recovery.CreateSegment(l.store.disk(), l.dir, id, header, l.cfg.FileMode)
	if errors.Is(err, fs.ErrExist) && l.removeBlank(id) {
		f, err = recovery.CreateSegment(l.store.disk(), l.dir, id, header, l.cfg.FileMode)
	}
	return f, err
}

// removeBlank removes a segment file that cannot hold a record.
func (l *Log) removeBlank(id uint64) bool {
	path := filepath.Join(l.dir, segment.LogName(id))
	info, err := l.store.fs.Lstat(path)
	return err == nil && info.Size <= segment.HeaderSize && l.store.fs.Remove(path) == nil
}

// neverSubmitted says of a failed directory flush that the directory could not
// be opened for it. Nothing was lost by that: a log must not be poisoned because
// the process had no descriptor left.
func neverSubmitted(err error) bool {
	var failed *device.Error
	return errors.As(err, &failed) && failed.Op == "open_dir" && failed.Class != device.ClassOutcomeUnknown
}

// createFailed says what it means that a segment could not be created: what was
// made is removed and the next append tries again, unless the directory could
// not be flushed, which leaves open which names it holds, or is gone.
func (l *Log) createFailed(err error) error {
	var create *recovery.CreateError
	unknownNames := errors.As(err, &create) && create.Stage == recovery.StageDirectory && !neverSubmitted(err)
	if unknownNames || device.IsNotExist(err) || device.ClassOf(err) == device.ClassOutcomeUnknown {
		l.store.counters.syncFailures.Add(1)
		return l.poisonWith(err)
	}
	return l.usable("create segment", err)
}

// swap makes next the active segment. The former one joins the sealed ones, or
// becomes the retired one when its seal is still to come, or is removed when it
// holds no record: an empty file must not stay in the chain.
func (l *Log) swap(next writer, retire bool) {
	l.mu.Lock()
	former := l.mu.active
	l.mu.Unlock()
	if former.hasRecords() && !retire {
		// Before it is listed: a reader that finds it listed must not find a
		// former segment of the same id in the cache.
		l.store.sealed.adopt(l, &former)
	}
	// Before it is listed: retention must not remove it unknown to the journal.
	l.store.journal.leftBehind(l, former.id)
	l.mu.Lock()
	l.mu.roll.failed = false
	switch {
	case !former.hasRecords():
	case retire:
		l.mu.retired = &former
	default:
		l.mu.sealed = appendDescriptor(l.mu.sealed, former.descriptor())
	}
	l.mu.active = next
	l.notifyLocked()
	l.mu.Unlock()
	l.store.writers.opened(l)
	switch {
	case !former.hasRecords():
		l.removeEmpty(former)
	case !retire:
		former.file.release() // the cache has its own reference
	}
}

// appendDescriptor copies: readers hold the former slice.
func appendDescriptor(sealed []segment.Descriptor, d segment.Descriptor) []segment.Descriptor {
	out := make([]segment.Descriptor, len(sealed), len(sealed)+1)
	copy(out, sealed)
	return append(out, d)
}

// removeEmpty deletes a segment that never held a record. If that fails the file
// stays as an empty link of the chain, which every reader steps over.
func (l *Log) removeEmpty(w writer) {
	if w.file != nil {
		w.file.release()
	}
	for _, name := range []string{segment.LogName(w.id), segment.IndexName(w.id)} {
		if err := l.store.fs.Remove(filepath.Join(l.dir, name)); err != nil && !device.IsNotExist(err) {
			l.store.logger.Warn("an empty segment could not be removed", "log", l.label, "error", err)
			return
		}
	}
}
