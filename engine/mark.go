package engine

import (
	"context"
	"math"
	"path/filepath"

	"felix.local/felix/device"
	"felix.local/felix/recovery"
)

// wantedMarkLocked is what durable.mark may say now. It only ever repeats what a
// flush, a dsync write or a seal has already returned, so it can lag and never
// lead. While a retired segment waits for its seal the mark stays on it.
func (l *Log) wantedMarkLocked() recovery.Mark {
	if r := l.mu.retired; r != nil {
		return recovery.Mark{Segment: r.id, Synced: r.synced}
	}
	return recovery.Mark{Segment: l.mu.active.id, Synced: l.mu.active.synced}
}

// saveMark writes durable.mark, one write in flight per log; synced makes the
// mark itself durable. It waits for a write that is under way.
func (l *Log) saveMark(synced bool) error {
	l.mu.Lock()
	for l.mu.marking {
		_ = l.waitLocked(context.Background())
	}
	w := l.beginMarkLocked(synced)
	l.mu.Unlock()
	if w == nil {
		return nil
	}
	w.open()
	if w.err == nil {
		w.log.store.queue.Submit(&w.op)
		<-w.op.Done()
	}
	return w.end()
}

// markWrite is one write of durable.mark under way.
type markWrite struct {
	log    *Log
	mark   recovery.Mark
	synced bool
	file   device.File
	op     device.Op
	err    error
}

// unknownMark is no mark that a log can have: what the file says is not known.
var unknownMark = recovery.Mark{Segment: math.MaxUint64, Synced: -1}

// beginMarkLocked takes the mark's turn; nil when the file says so already. That
// the same mark was made durable once is not enough: one written since may have
// replaced it, and after a truncation it would be ahead of the log.
func (l *Log) beginMarkLocked(synced bool) *markWrite {
	want := l.wantedMarkLocked()
	if want == l.mu.marked && (!synced || want == l.mu.markSynced) {
		return nil
	}
	l.mu.marking = true
	return &markWrite{log: l, mark: want, synced: synced}
}

func (w *markWrite) open() {
	l := w.log
	w.file, w.err = l.store.fs.OpenFile(filepath.Join(l.dir, recovery.MarkName), device.ReadWrite, l.cfg.FileMode)
	if w.err != nil {
		return
	}
	w.op = device.Op{Kind: device.Write, File: w.file, Buf: w.mark.AppendTo(nil)}
	if w.synced && l.store.backend.DsyncWrite {
		w.op.Kind = device.WriteDsync
	}
}

// end gives the turn back and returns what went wrong.
func (w *markWrite) end() error {
	l := w.log
	if w.file != nil {
		if w.err == nil {
			l.store.keepIfUnknown(&w.op)
			w.err = w.op.Err
		}
		if w.err == nil && w.synced && w.op.Kind == device.Write {
			w.err = l.store.do(&device.Op{Kind: device.Flush, File: w.file})
		}
		l.store.closeAfter(w.file, w.err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.marking = false
	switch {
	case w.err != nil && w.file != nil:
		l.mu.marked, l.mu.markSynced = unknownMark, unknownMark
	case w.err == nil:
		l.mu.marked = w.mark
		if w.synced {
			l.mu.markSynced = w.mark
		}
	}
	l.notifyLocked()
	return w.err
}

// markFailed notes a write of the mark that failed off the durability path: a
// stale mark only widens what recovery may cut. The next tick tries again.
func (l *Log) markFailed(err error) {
	l.store.counters.markWriteFailures.Add(1)
	if l.markFailing.CompareAndSwap(false, true) {
		l.store.logger.Warn("durable.mark could not be written; it is tried again", "log", l.label, "error", err)
	}
	l.store.listMark(l)
}

// markGroup bounds how many marks one tick has in flight, and so how many
// descriptors it holds.
const markGroup = 64

// saveMarks writes the marks of logs that moved, a group at a time.
func (s *Store) saveMarks(logs []*Log, synced bool) {
	for len(logs) > 0 {
		group := logs[:min(markGroup, len(logs))]
		logs = logs[len(group):]
		var writes []*markWrite
		var ops []*device.Op
		for _, l := range group {
			l.mu.Lock()
			var w *markWrite
			busy := l.mu.marking || l.mu.gate != nil
			idle := l.mu.closed || l.mu.poison != nil
			if !busy && !idle {
				w = l.beginMarkLocked(synced)
			}
			l.mu.Unlock()
			if busy && !idle {
				s.listMark(l) // its turn comes with the next tick
			}
			if w == nil {
				continue
			}
			if w.open(); w.err == nil {
				ops = append(ops, &w.op)
			}
			writes = append(writes, w)
		}
		if len(ops) > 0 {
			s.queue.Submit(ops...)
		}
		for _, w := range writes {
			if w.err == nil {
				<-w.op.Done()
			}
			if err := w.end(); err != nil {
				w.log.markFailed(err)
				continue
			}
			w.log.markFailing.Store(false)
		}
	}
}
