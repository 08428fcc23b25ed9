package engine

import (
	"path/filepath"

	"felix.local/felix/device"
	"felix.local/felix/segment"
)

// indexBatch is how many index entries are gathered before they are written.
// Until the segment is sealed the index only saves time, so nothing waits for it.
const indexBatch = 256

// sealSegment makes a segment that will get no further record exactly its
// contents, and durable: data, index, then the length that drops reserved
// blocks, then data again because the length changed. The caller owns the
// writer: it is the active one and the caller holds the commit role, or it is the
// retired one and the caller is its background seal. The caller moves w.synced,
// in one step with the durable bound.
//
// Any failure poisons: a later sync of this file would prove nothing.
func (l *Log) sealSegment(w *writer) error {
	l.mu.Lock()
	synced := w.synced == w.size
	l.mu.Unlock()
	if !synced {
		if err := l.flushFile(w.file); err != nil {
			return err
		}
	}
	if err := l.sealIndex(w); err != nil {
		return err
	}
	if w.reserve.bytes > w.size {
		if err := w.file.Truncate(w.size); err != nil {
			return err
		}
		w.reserve = reservation{}
		if err := l.flushFile(w.file); err != nil {
			return err
		}
	}
	return stillNamed(w.file, w.size)
}

// sealIndex writes the rest of the index and flushes it. A write that fails is
// counted, since an index is rebuilt when it is needed; a flush that fails says
// that the device does, and is returned.
func (l *Log) sealIndex(w *writer) error {
	f, err := l.writeIndexEntries(w)
	if err != nil {
		l.store.counters.indexWriteFailures.Add(1)
		return nil
	}
	err = l.store.do(&device.Op{Kind: device.Flush, File: f})
	l.store.closeAfter(f, err)
	return err
}

// indexPending is how many index entries were gathered and not tried to be written.
func (w *writer) indexPending() int { return len(w.entries) - max(w.indexed, w.indexTried) }

// indexDue says that enough were gathered for a write.
func (l *Log) indexDue() bool { return l.mu.active.indexPending() >= indexBatch }

// writeIndex hands gathered index entries to the page cache; all is whether to
// do so when there are few.
func (l *Log) writeIndex(all bool) {
	w := &l.mu.active
	if !l.indexDue() && !(all && w.indexPending() > 0) {
		return
	}
	f, err := l.writeIndexEntries(w)
	if err != nil {
		w.indexTried = len(w.entries)
		l.store.counters.indexWriteFailures.Add(1)
		return
	}
	l.store.closeAfter(f, nil)
}

// writeIndexEntries writes the entries that are not in the index file yet, the
// header before the first of them, and returns the open file.
func (l *Log) writeIndexEntries(w *writer) (device.File, error) {
	f, err := l.store.fs.OpenFile(filepath.Join(l.dir, segment.IndexName(w.id)), device.OpenOrCreate, l.cfg.FileMode)
	if err != nil {
		return nil, err
	}
	if w.indexStale {
		if err := f.Truncate(0); err != nil {
			l.store.closeAfter(f, err)
			return nil, err
		}
		w.indexed, w.indexStale = 0, false
	}
	pos := int64(segment.IndexHeaderSize + w.indexed*segment.IndexEntrySize)
	buf := make([]byte, 0, segment.IndexHeaderSize+(len(w.entries)-w.indexed)*segment.IndexEntrySize)
	if w.indexed == 0 {
		pos = 0
		buf = segment.AppendIndexHeader(buf, w.base)
	}
	for _, e := range w.entries[w.indexed:] {
		buf = segment.AppendIndexEntry(buf, e)
	}
	if len(buf) > 0 {
		err = l.perform(&device.Op{Kind: device.Write, File: f, Buf: buf, Pos: pos})
	}
	if err != nil {
		l.store.closeAfter(f, err)
		return nil, err
	}
	w.indexed = len(w.entries)
	return f, nil
}
