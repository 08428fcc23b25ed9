package engine

import (
	"context"
	"time"

	"felix.local/felix/device"
)

// flushPass is one flush of a log under way. At most one exists per log
// (Log.mu.flushing).
//
// A log with a retired segment takes two rounds: the active segment's flush is
// submitted only after the retired one's completion, so that no record is
// reported durable while one before it is not.
type flushPass struct {
	log     *Log
	started time.Time
	op      device.Op
	// retired is what the first round covers, nil without a retired segment.
	retired     *writer
	retiredFile *openFile
	retiredSize int64
	// What the round over the active segment covers: bytes whose write had
	// completed when the pass began.
	id      uint64
	file    *openFile
	size    int64
	next    uint64
	appends uint64
	pending bool // the active segment's round is still to come
}

// beginFlush captures what a flush covers. nil means that there is nothing to
// flush, or that a flush or exclusive work is under way, or that the log is
// closed or poisoned.
func (l *Log) beginFlush() *flushPass {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &l.mu.active
	if l.mu.flushing || l.mu.gate != nil || l.mu.poison != nil || l.mu.closed || !l.unflushedLocked() {
		return nil
	}
	p := &flushPass{log: l, started: time.Now(), appends: l.mu.appendsWritten}
	if r := l.mu.retired; r != nil && r.synced < r.size {
		p.retired, p.retiredFile, p.retiredSize = r, r.file.hold(), r.size
		p.op = device.Op{Kind: device.Flush, File: p.retiredFile}
	}
	if w.synced < w.filed() {
		// Unsynced bytes keep the descriptor, so file is there.
		p.id, p.file, p.size, p.next = w.id, w.file.hold(), w.filed(), w.next
		p.pending = p.retired != nil
		if !p.pending {
			p.op = device.Op{Kind: device.Flush, File: p.file}
		}
	}
	l.mu.flushing = true
	return p
}

// round takes note of the flush that completed and says whether another is to be
// submitted.
func (p *flushPass) round() (again bool) {
	l := p.log
	err := p.op.Err
	l.store.keepIfUnknown(&p.op)
	if err == nil {
		err = p.op.File.TakesWrites()
	}
	id, file, size := p.id, p.file, p.size
	if p.pending || file == nil {
		id, file, size = p.retired.id, p.retiredFile, p.retiredSize
	}
	var unnamed error
	if err == nil {
		unnamed = stillNamed(file, size)
	}
	l.mu.Lock()
	if err == nil && l.writesLocked(id) {
		// A segment that was sealed meanwhile was judged by its seal, and may
		// have been trimmed since.
		err = unnamed
	}
	if err == nil && l.mu.poison == nil && p.pending {
		p.pending = false
		p.retired.synced = max(p.retired.synced, p.retiredSize)
		l.advanceDurableLocked()
		l.notifyLocked()
		l.mu.Unlock()
		p.op.File = p.file
		return true
	}
	before := l.mu.appendsSynced
	switch {
	case err != nil:
		_ = l.poisonLocked(err)
	case l.mu.poison != nil:
		// Another part failed meanwhile, and nothing is reported over that.
	default:
		p.coverLocked()
	}
	l.mu.Unlock()
	l.endFlush(p.release)
	switch {
	case err != nil:
		l.store.counters.syncFailures.Add(1)
		l.store.observer.Synced(0, time.Since(p.started), err)
	case p.appends > before:
		l.store.counters.syncs.Add(1)
		l.store.observer.Synced(p.appends-before, time.Since(p.started), nil)
	}
	return false
}

// endFlush ends the flush under way. Its files are let go of before, so that closing
// the log leaves nothing open.
func (l *Log) endFlush(release func()) {
	release()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.flushing = false
	l.notifyLocked()
}

// writesLocked says whether a segment is the active or the retired one.
func (l *Log) writesLocked(id uint64) bool {
	return l.mu.active.id == id || l.mu.retired != nil && l.mu.retired.id == id
}

// coverLocked moves the bounds to what the last round covers. The segment that
// was active when the pass began may be the retired one by now, or sealed.
func (p *flushPass) coverLocked() {
	l := p.log
	switch r := l.mu.retired; {
	case p.file == nil:
		p.retired.synced = max(p.retired.synced, p.retiredSize)
	case l.mu.active.id == p.id:
		l.mu.active.synced = max(l.mu.active.synced, p.size)
	case r != nil && r.id == p.id:
		r.synced = max(r.synced, p.size)
	}
	if p.file != nil {
		l.mu.durable = max(l.mu.durable, p.next)
		l.mu.appendsSynced = max(l.mu.appendsSynced, p.appends)
	}
	l.advanceDurableLocked()
}

// release lets go of the files. It may be the last to hold one that was removed,
// and closing that one takes time, so no lock is held.
func (p *flushPass) release() {
	if p.retiredFile != nil {
		p.retiredFile.release()
	}
	if p.file != nil {
		p.file.release()
	}
}

// flushLogs flushes every log that needs it, all of them in one submission and,
// for logs with a retired segment, a second one. Each log is judged as its flush
// completes, told to judged if that is set, and back on the timer's list if it has
// more to flush: one that hangs keeps no other log waiting.
func (s *Store) flushLogs(logs []*Log, judged func(*Log)) {
	passes := make(map[*device.Op]*flushPass)
	ops := make([]*device.Op, 0, len(logs))
	results := make(chan *device.Op, len(logs))
	over := func(l *Log) {
		s.becameDirty(l, l.needsFlush())
		if judged != nil {
			judged(l)
		}
	}
	for _, l := range logs {
		p := l.beginFlush()
		if p == nil {
			over(l) // it may have a flush under way that covers only a part
			continue
		}
		p.op.Results = results
		passes[&p.op] = p
		ops = append(ops, &p.op)
	}
	for len(passes) > 0 {
		if len(ops) > 0 {
			s.queue.Submit(ops...)
			ops = ops[:0]
		}
		// One is waited for; what has completed beside it goes on together.
		for op := <-results; op != nil; op = received(results) {
			p := passes[op]
			if p.round() {
				ops = append(ops, op)
				continue
			}
			delete(passes, op)
			over(p.log)
		}
	}
}

// received is a result that is there already, or nil.
func received(results <-chan *device.Op) *device.Op {
	select {
	case op := <-results:
		return op
	default:
		return nil
	}
}

func (l *Log) needsFlush() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unflushedLocked() && l.mu.poison == nil && !l.mu.closed
}

// unflushedLocked says that a segment file holds bytes that were not flushed. What the
// commit journal made durable may be among them; what lags behind it is not.
func (l *Log) unflushedLocked() bool {
	r := l.mu.retired
	return l.mu.active.synced < l.mu.active.filed() || r != nil && r.synced < r.size
}

// Sync makes everything acknowledged before the call durable, whatever the mode.
// Concurrent calls share flushes.
func (l *Log) Sync(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	target := l.tailLocked()
	for {
		switch {
		case l.mu.poison != nil:
			return l.mu.poison
		case l.mu.closed:
			return &ClosedError{Label: l.label}
		case l.mu.durable >= min(target, l.mu.written):
			return nil
		}
		if !l.mu.flushing && l.mu.gate == nil {
			go l.flushFn()
		}
		if err := l.waitLocked(ctx); err != nil {
			return &LogError{Label: l.label, Op: "sync", Err: err}
		}
	}
}
