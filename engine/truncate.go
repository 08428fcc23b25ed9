package engine

import (
	"context"
	"fmt"
	"path/filepath"

	"felix.local/felix/device"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// Truncate drops every record at offset and after. At or past the tail it does
// nothing; below the base it empties the log, which then begins at offset.
//
// Order, so that any crash leaves a contiguous log that holds at least
// everything below offset:
//
//  1. what was written is flushed;
//  2. segments past the survivor are removed newest first, one directory flush
//     each, and a removal is durable before anything is shortened, or a later
//     segment could come back next to a shortened predecessor;
//  3. the survivor (the newest segment that begins below offset, else the
//     oldest) is cut at the record boundary and flushed;
//  4. if the log must begin lower than the survivor does, a new segment takes
//     its place: created first, and the survivor, which is empty, removed;
//  5. durable.mark moves back, durably, before any new append: a mark left ahead
//     of the log would forbid repairing a torn tail.
//
// A failure from 2 on poisons.
func (l *Log) Truncate(ctx context.Context, offset uint64) error {
	leave, err := l.exclusive(ctx, "truncate")
	if err != nil {
		return err
	}
	defer leave()
	l.mu.Lock()
	poison, written := l.mu.poison, l.mu.written
	l.mu.Unlock()
	if poison != nil {
		return poison
	}
	if offset >= written {
		return nil
	}
	if err := l.discardPrepared(); err != nil {
		return l.poisonWith(err)
	}
	if err := l.flushActive(); err != nil {
		return err
	}
	if err := l.truncateTo(offset); err != nil {
		return l.poisonWith(err)
	}
	return nil
}

// flushActive makes everything written durable. The caller has the log to itself.
func (l *Log) flushActive() error {
	w := &l.mu.active
	if w.synced == w.size {
		return nil
	}
	if err := l.flushFile(w.file); err != nil {
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

func (l *Log) truncateTo(offset uint64) error {
	l.awaitReservation()
	segments := l.Segments()
	keep := 0
	for i, d := range segments {
		if d.BaseOffset < offset {
			keep = i
		}
	}
	l.forgetFrom(segments[keep:], offset)
	for i := len(segments) - 1; i > keep; i-- {
		if err := l.removeSegment(segments[i].ID); err != nil {
			return err
		}
	}
	w, err := l.cutSegment(segments[keep], offset)
	if err != nil {
		return err
	}
	l.installTruncated(w)
	if w.base > offset {
		if err := l.replaceEmpty(offset); err != nil {
			return err
		}
	}
	return l.saveMark(true)
}

// forgetFrom takes the records at offset and after from readers before any file
// changes.
func (l *Log) forgetFrom(dropped []segment.Descriptor, offset uint64) {
	for _, d := range dropped {
		l.store.sealed.drop(l, d.ID, false)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.generation++
	l.mu.written = min(l.mu.written, offset)
	l.mu.durable = min(l.mu.durable, offset)
}

// removeSegment removes a segment's files and makes the removal durable.
func (l *Log) removeSegment(id uint64) error {
	l.mu.Lock()
	if w := &l.mu.active; w.id == id && w.file != nil {
		w.file.release()
		w.file = nil
		l.mu.Unlock()
		l.store.writers.closed(l)
	} else {
		l.mu.Unlock()
	}
	if err := l.store.fs.Remove(filepath.Join(l.dir, segment.LogName(id))); err != nil {
		return err
	}
	if err := l.store.fs.Remove(filepath.Join(l.dir, segment.IndexName(id))); err != nil && !device.IsNotExist(err) {
		return err
	}
	return l.store.flushDir(l.dir)
}

// cutSegment shortens the survivor to the records below offset and gives the
// writer that continues it.
func (l *Log) cutSegment(d segment.Descriptor, offset uint64) (writer, error) {
	l.mu.Lock()
	file := l.mu.active.file
	if l.mu.active.id != d.ID || file == nil {
		file = nil
	} else {
		l.mu.active.file = nil // moves to the writer returned
	}
	l.mu.Unlock()
	if file == nil {
		f, err := l.store.fs.OpenFile(filepath.Join(l.dir, segment.LogName(d.ID)), device.ReadWrite, 0)
		if err != nil {
			return writer{}, err
		}
		file = newOpenFile(f)
	}
	w, err := l.cutOpened(file, d, offset)
	if err != nil {
		file.release()
	}
	return w, err
}

func (l *Log) cutOpened(file *openFile, d segment.Descriptor, offset uint64) (writer, error) {
	position := int64(segment.HeaderSize)
	if offset > d.BaseOffset {
		var err error
		position, err = segment.FindPosition(file, segment.HeaderSize, d.Size, min(offset, d.NextOffset))
		if err != nil {
			return writer{}, err
		}
	}
	if err := file.Truncate(position); err != nil {
		return writer{}, err
	}
	if err := l.flushFile(file); err != nil {
		return writer{}, err
	}
	scan, err := segment.Scan(file, position, segment.ScanOptions{Spacing: l.cfg.IndexSpacingBytes})
	if err != nil {
		return writer{}, err
	}
	if scan.Damage != nil {
		return writer{}, scan.Damage.Cause.At(l.label, d.ID, scan.Damage.Position)
	}
	if err := l.rewriteIndex(d, scan.Entries); err != nil {
		return writer{}, err
	}
	return writer{
		id: d.ID, base: d.BaseOffset, createdAt: d.CreatedAtMicros, version: d.Version, file: file,
		size: position, synced: position, next: scan.NextOffset, newest: scan.NewestTimestampMicros,
		entries: scan.Entries, indexed: len(scan.Entries),
		builder: segment.IndexBuilder{Spacing: l.cfg.IndexSpacingBytes, Since: scan.Since},
	}, nil
}

// rewriteIndex makes the index file exactly entries. An index that is ahead of
// its segment is no danger, since reads verify what they find, but it would not
// be the one that appending makes.
func (l *Log) rewriteIndex(d segment.Descriptor, entries []segment.IndexEntry) error {
	f, err := l.store.fs.OpenFile(filepath.Join(l.dir, segment.IndexName(d.ID)), device.OpenOrCreate, l.cfg.FileMode)
	if err != nil {
		return err
	}
	buf := segment.EncodeIndex(d.BaseOffset, entries)
	err = l.store.do(&device.Op{Kind: device.Write, File: f, Buf: buf})
	if err == nil {
		err = f.Truncate(int64(len(buf)))
	}
	if err == nil {
		err = l.store.do(&device.Op{Kind: device.Flush, File: f})
	}
	l.store.closeAfter(f, err)
	return err
}

// installTruncated makes the survivor the active segment.
func (l *Log) installTruncated(w writer) {
	l.mu.Lock()
	keep := l.mu.sealed[:0:0]
	for _, d := range l.mu.sealed {
		if d.ID < w.id {
			keep = append(keep, d)
		}
	}
	l.mu.sealed = keep
	l.mu.active = w
	l.mu.written, l.mu.durable = w.next, w.next
	l.notifyLocked()
	l.mu.Unlock()
	l.store.writers.opened(l)
}

// replaceEmpty gives an emptied log a segment that begins at base, below where
// the old one did.
func (l *Log) replaceEmpty(base uint64) error {
	old := l.mu.active
	if old.hasRecords() {
		panic("engine: a segment with records was to be replaced by an empty one")
	}
	header := segment.Header{Version: old.version, BaseOffset: base, CreatedAtMicros: l.store.nowMicros()}
	f, err := recovery.CreateSegment(l.store.disk(), l.dir, old.id+1, header, l.cfg.FileMode)
	if err != nil {
		return fmt.Errorf("create the segment that begins at %d: %w", base, err)
	}
	l.mu.Lock()
	l.mu.active = writer{
		id: old.id + 1, base: base, createdAt: header.CreatedAtMicros, version: old.version, file: newOpenFile(f),
		size: segment.HeaderSize, synced: segment.HeaderSize, next: base,
		builder: segment.IndexBuilder{Spacing: l.cfg.IndexSpacingBytes},
	}
	l.mu.written, l.mu.durable = base, base
	l.mu.Unlock()
	old.file.release()
	return l.removeSegment(old.id)
}
