package engine

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"felix.local/felix/device"
	"felix.local/felix/journal"
	"felix.local/felix/segment"
)

// Truncate drops every record at offset and after. At or past the tail it does
// nothing; below the base it empties the log, which then begins at offset.
//
// Order, so that any crash leaves a contiguous log that holds at least
// everything below offset, and no read ever meets a file that is being cut:
//
//  1. what was written is flushed, and the commit journal told that it holds nothing
//     of this log: a start would bring back what is cut, or find it missing;
//  2. the survivor (the newest segment that begins below offset, else the
//     oldest) is read up to the cut;
//  3. what holds records from offset on is taken out of offload.manifest, durably:
//     others will take their offsets;
//  4. readers and the log's own picture are switched to the survivor as it will be;
//     of the segments nothing was changed on disk so far. durable.mark moves back to
//     the cut, durably. Until the cut itself is flushed, a power loss may leave the
//     rest of its page as zeros, or the file at a length in between; with a mark that
//     vouches for those bytes recovery would have to call that rot;
//  5. segments past the survivor are removed newest first, one directory flush
//     each, and a removal is durable before anything is shortened, or a later
//     segment could come back next to a shortened predecessor;
//  6. the survivor is cut at the record boundary and flushed;
//  7. if the log must begin lower than the survivor does, a new segment takes
//     its place: created first, and the survivor, which is empty, removed. The
//     mark follows;
//  8. the snapshot of producers and the index of a cache's keys are removed, durably:
//     nothing may be written past the cut while they tell of what was there. Those
//     that a crash leaves are of an offset past the tail, and the next open removes
//     them;
//  9. the generations that begin at offset or behind it are dropped, durably.
//
// ctx can end 2, and a manifest that cannot be read or replaced ends 3; nothing has
// changed then. A failure to flush its name, and any from 4 on, poisons. An offset
// below the commit offset, of a log that holds a record below that, is a
// *BelowCommitError.
func (l *Log) Truncate(ctx context.Context, offset uint64) error {
	leave, err := l.alone(ctx, "truncate")
	if err != nil {
		return err
	}
	defer leave()
	l.mu.Lock()
	written, committed := l.mu.written, l.belowCommitLocked(offset)
	l.mu.Unlock()
	switch {
	case offset >= written:
		return nil
	case committed != nil:
		return committed
	default:
		return l.cutBack(ctx, offset)
	}
}

// alone gives a caller that drops records the log, its small files included, until
// leave is called. A poisoned one is not given, and none while a shipment is applied.
func (l *Log) alone(ctx context.Context, op string) (leave func(), err error) {
	done, err := l.takeTurn(ctx, l.applying, op)
	if err != nil {
		return nil, err
	}
	readmit, err := l.exclusive(ctx, op)
	if err != nil {
		done()
		return nil, err
	}
	unlock, err := l.takeTurn(ctx, l.sidecars, op)
	if err != nil {
		readmit()
		done()
		return nil, err
	}
	leave = func() {
		unlock()
		readmit()
		done()
	}
	if poison := l.Poisoned(); poison != nil {
		leave()
		return nil, poison
	}
	return leave, nil
}

// cutBack drops the records from offset on, of which there are some.
func (l *Log) cutBack(ctx context.Context, offset uint64) error {
	l.mu.Lock()
	known := &l.mu.replication.level
	known.next = min(known.next, offset)
	l.mu.Unlock()
	if err := l.discardPrepared(); err != nil {
		return err
	}
	if err := l.flushActive(); err != nil {
		return err
	}
	if err := l.store.journal.fence(l.name, journal.AllSegments); err != nil {
		return l.usable("truncate", err)
	}
	if err := l.truncateTo(ctx, offset); err != nil {
		return err
	}
	return l.cutGenerations(offset)
}

// flushActive makes everything written durable. The caller has the log to itself.
func (l *Log) flushActive() error {
	if err := l.settleLag(); err != nil {
		return err
	}
	w := &l.mu.active
	if w.synced == w.size {
		return nil
	}
	err := l.flushFile(w.file)
	if err == nil {
		err = stillNamed(w.file, w.size)
	}
	if err != nil {
		l.store.counters.syncFailures.Add(1)
		return l.poisonWith(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w.synced = w.size
	l.advanceDurableLocked()
	l.notifyLocked()
	return nil
}

func (l *Log) truncateTo(ctx context.Context, offset uint64) error {
	l.awaitReservation()
	segments := l.Segments()
	keep := 0
	for i, d := range segments {
		if d.BaseOffset < offset {
			keep = i
		}
	}
	w, err := l.survivor(segments[keep], offset)
	if err != nil {
		return l.usable("truncate", err)
	}
	producers, err := l.producersBelow(ctx, append(slices.Clone(segments[:keep]), w.descriptor()))
	if err != nil {
		err = l.usable("truncate", err)
	} else {
		err = l.dropCopies(offset)
	}
	if err != nil {
		w.file.release()
		return err
	}
	l.switchTo(w, segments[keep:], producers)
	if err := l.cutFiles(segments[keep+1:], offset); err != nil {
		return l.poisonWith(err)
	}
	return nil
}

// survivor gives the writer that will continue a segment after it was cut to the
// records below offset. It reads only.
func (l *Log) survivor(d segment.Descriptor, offset uint64) (writer, error) {
	var file *openFile
	if w := &l.mu.active; w.id == d.ID && w.file != nil {
		file = w.file.hold()
	} else {
		f, err := l.store.fs.OpenFile(filepath.Join(l.dir, segment.LogName(d.ID)), device.ReadWrite, 0)
		if err != nil {
			return writer{}, err
		}
		file = newOpenFile(f)
	}
	w, err := l.cutWriter(file, d, offset)
	if err != nil {
		file.release()
	}
	return w, err
}

func (l *Log) cutWriter(file *openFile, d segment.Descriptor, offset uint64) (writer, error) {
	position := int64(segment.HeaderSize)
	if offset > d.BaseOffset {
		var err error
		position, err = segment.FindPosition(file, segment.HeaderSize, d.Size, min(offset, d.NextOffset))
		if err != nil {
			return writer{}, err
		}
	}
	scan, err := segment.Scan(file, position, segment.ScanOptions{Spacing: l.cfg.IndexSpacingBytes})
	if err != nil {
		return writer{}, err
	}
	if scan.Damage != nil {
		return writer{}, scan.Damage.Cause.At(l.label, d.ID, scan.Damage.Position)
	}
	return writer{
		id: d.ID, base: d.BaseOffset, createdAt: d.CreatedAtMicros, version: d.Version, file: file,
		size: position, synced: position, next: scan.NextOffset, newest: scan.NewestTimestampMicros,
		entries: scan.Entries, indexStale: true,
		builder: segment.IndexBuilder{Spacing: l.cfg.IndexSpacingBytes, Since: scan.Since},
	}, nil
}

// switchTo makes w the active segment in place of the dropped ones, the first of
// which it continues. What readers see from here on is what stays.
func (l *Log) switchTo(w writer, dropped []segment.Descriptor, producers *producersWalk) {
	l.mu.Lock()
	former := l.mu.active.file
	keep := l.mu.sealed[:0:0]
	for _, d := range l.mu.sealed {
		if d.ID < w.id {
			keep = append(keep, d)
		}
	}
	l.mu.sealed = keep
	l.mu.active = w
	l.mu.written, l.mu.durable = w.next, w.next
	l.mu.produced.replace(producers)
	l.mu.retention.before = min(l.mu.retention.before, w.next)
	l.mu.roll.failed = false
	l.mu.viewVersion++
	l.tellTruncatedLocked()
	l.notifyLocked()
	l.mu.Unlock()
	if former != nil {
		former.release()
	}
	l.store.writers.opened(l)
	for _, d := range dropped {
		l.store.sealed.drop(l, d.ID, false)
	}
}

// cutFiles makes the files what the log says already: removed are the segments
// to go, the active one is longer than it should be.
func (l *Log) cutFiles(removed []segment.Descriptor, offset uint64) error {
	if err := l.saveMark(true); err != nil {
		return err
	}
	for _, d := range slices.Backward(removed) {
		if err := l.removeSegment(d.ID); err != nil {
			return err
		}
	}
	w := &l.mu.active
	if err := w.file.Truncate(w.size); err != nil {
		return err
	}
	if err := l.flushFile(w.file); err != nil {
		return err
	}
	// An index ahead of its segment would point between records to come.
	if err := l.sealIndex(w); err != nil {
		return err
	}
	if w.base > offset {
		if err := l.replaceEmpty(offset); err != nil {
			return err
		}
	}
	if err := l.saveMark(true); err != nil {
		return err
	}
	return l.dropSnapshots()
}

// removeSegment removes a segment's files and makes the removal durable. An index
// that stays is emptied when its id is used again, and cleared away at open.
func (l *Log) removeSegment(id uint64) error {
	if err := l.store.fs.Remove(filepath.Join(l.dir, segment.LogName(id))); err != nil {
		return err
	}
	if err := l.store.fs.Remove(filepath.Join(l.dir, segment.IndexName(id))); err != nil && !device.IsNotExist(err) {
		l.store.logger.Warn("the index of a removed segment could not be removed", "log", l.label, "error", err)
	}
	return l.store.flushDir(l.dir)
}

// replaceEmpty gives an emptied log a segment that begins at base, below where
// the old one did.
func (l *Log) replaceEmpty(base uint64) error {
	old := l.mu.active
	if old.hasRecords() {
		panic("engine: a segment with records was to be replaced by an empty one")
	}
	header := segment.Header{Version: old.version, BaseOffset: base, CreatedAtMicros: l.store.nowMicros()}
	f, err := l.createSegment(old.id+1, header)
	if err != nil {
		return fmt.Errorf("create the segment that begins at %d: %w", base, err)
	}
	l.mu.Lock()
	l.mu.active = l.emptyWriter(old.id+1, header, newOpenFile(f))
	l.mu.written, l.mu.durable = base, base
	l.mu.produced.replace(noProducers())
	l.mu.retention.before = min(l.mu.retention.before, base)
	l.mu.viewVersion++
	l.tellTruncatedLocked()
	l.notifyLocked()
	l.mu.Unlock()
	if old.file != nil {
		old.file.release()
	}
	l.store.writers.opened(l)
	return l.removeSegment(old.id)
}
