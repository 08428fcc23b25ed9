package engine

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"

	"felix.local/felix/device"
	"felix.local/felix/producer"
	"felix.local/felix/segment"
)

// backgroundRoll prepares the next segment before the active one is full, and
// seals the former one after the switch, so that no append waits for either:
//
//	idle ─ preparing ─ prepared ─ (switch, in the commit loop) ─ sealing ─ idle
//
// A prepared segment is a file without a header: its base offset is only known
// at the switch. The header that the switch writes is durable with the next flush
// of the log, which covers the retired segment first; so no record in the new
// segment is reported durable while one before it is not.
type backgroundRoll struct {
	// preparing: a goroutine makes the file. prepared: it is there. sealing: a
	// goroutine seals the retired segment.
	preparing, sealing bool
	prepared           *preparedSegment
	// claimed: the append that switches to the prepared segment is staged.
	claimed bool
	// failed: preparing the successor of this active segment failed; the roll
	// will be inline.
	failed bool
}

type preparedSegment struct {
	id       uint64
	file     *openFile
	reserved int64
}

func (r *backgroundRoll) readyLocked() bool { return r.prepared != nil && !r.claimed }

// maybePrepareRoll starts the preparation once the active segment has passed the
// threshold. The commit loop calls it.
func (l *Log) maybePrepareRoll() {
	if l.cfg.RolloverThresholdPercent >= 100 {
		return
	}
	if l.mu.active.size < l.cfg.SegmentBytes*int64(l.cfg.RolloverThresholdPercent)/100 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.mu.roll
	if l.mu.active.id == math.MaxUint64 {
		return // the roll will say so
	}
	if r.preparing || r.prepared != nil || r.failed || l.mu.retired != nil || l.mu.gate != nil || l.mu.poison != nil {
		return
	}
	r.preparing = true
	go l.prepareRoll(l.mu.active.id + 1)
}

func (l *Log) prepareRoll(id uint64) {
	prepared, err := l.createPrepared(id)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.roll.preparing = false
	l.notifyLocked()
	if err != nil {
		l.mu.roll.failed = true
		l.store.counters.rollsFailed.Add(1)
		l.store.logger.Warn("a background roll could not be prepared; the roll will be inline", "log", l.label, "error", err)
		return
	}
	l.mu.roll.prepared = prepared
}

// createPrepared makes the file and its name durable. What failed is removed.
func (l *Log) createPrepared(id uint64) (*preparedSegment, error) {
	s := l.store
	path := filepath.Join(l.dir, segment.LogName(id))
	s.makeRoom(l)
	f, err := s.fs.OpenFile(path, device.CreateNew, l.cfg.FileMode)
	if errors.Is(err, fs.ErrExist) && l.removeBlank(id) {
		f, err = s.fs.OpenFile(path, device.CreateNew, l.cfg.FileMode)
	}
	if err != nil {
		return nil, err
	}
	p := &preparedSegment{id: id, file: newOpenFile(f)}
	if size := min(reserveFirstMax, l.cfg.SegmentBytes/16); l.cfg.Preallocate && size > 0 && !s.allocateOff.Load() {
		if err := s.do(&device.Op{Kind: device.Allocate, File: p.file, Len: size}); err != nil {
			if device.ClassOf(err) != device.ClassUnsupported {
				l.removePrepared(p)
				return nil, err
			}
			s.allocateOff.Store(true)
		} else {
			p.reserved = size
		}
	}
	if err := s.flushDir(l.dir); err != nil {
		// The name may or may not be on the device; the file is empty either
		// way, and recovery removes an empty newest file. But a directory that
		// cannot be flushed promises nothing any more.
		l.removePrepared(p)
		if neverSubmitted(err) {
			return nil, err
		}
		return nil, l.poisonWith(err)
	}
	return p, nil
}

// removePrepared throws a prepared segment away. Its name may come back after a
// crash; recovery drops a newest file without a header.
func (l *Log) removePrepared(p *preparedSegment) {
	p.file.release()
	if err := l.store.fs.Remove(filepath.Join(l.dir, segment.LogName(p.id))); err != nil && !device.IsNotExist(err) {
		l.store.logger.Warn("a prepared segment could not be removed", "log", l.label, "error", err)
	}
}

// installPrepared switches to a prepared segment: header, then swap. The seal of
// the former one goes on in the background.
func (l *Log) installPrepared(b *batch, p *preparedSegment) error {
	if p.id != l.mu.active.id+1 || !l.mu.active.hasRecords() {
		panic("engine: a prepared segment does not follow the active one")
	}
	if _, err := l.writerFile(); err != nil {
		l.keepPrepared(p)
		return l.openFailed(err)
	}
	l.awaitReservation()
	if err := l.settleLag(); err != nil {
		l.keepPrepared(p)
		return err
	}
	header := segment.Header{Version: b.version, BaseOffset: b.first, CreatedAtMicros: l.store.nowMicros()}
	op := &device.Op{Kind: device.Write, File: p.file, Buf: header.AppendTo(nil)}
	if err := l.perform(op); err != nil {
		l.removePrepared(p)
		l.store.counters.rollsDiscarded.Add(1)
		return l.createFailed(err)
	}
	next := l.emptyWriter(p.id, header, p.file)
	next.synced = 0 // the header is durable with the next flush
	// An index that a crash left under this id must not shine through.
	next.indexStale = true
	next.reserve = reservation{bytes: p.reserved, backed: p.reserved}
	l.swap(next, true)
	l.store.counters.rolls.Add(1)
	l.store.counters.rollsBackground.Add(1)
	l.mu.Lock()
	l.mu.roll.sealing = true
	retired := l.mu.retired
	l.mu.Unlock()
	go l.sealRetired(retired, b.first, b.takeProducers())
	return nil
}

func (l *Log) keepPrepared(p *preparedSegment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.roll.prepared = p
}

// sealRetired seals the former active segment, moves durable.mark past it and has
// the snapshot of producers saved as of the active one's base. Until that is done
// the roll counts as sealing: whoever waits for the log to be idle must not find
// the mark still being written.
func (l *Log) sealRetired(w *writer, asOf uint64, producers *producer.View) {
	err := l.sealSegment(w)
	if err == nil {
		l.store.sealed.adopt(l, w) // before it is listed as sealed
	}
	l.mu.Lock()
	if err == nil {
		err = l.mu.poison
	} else {
		l.store.counters.rollsFailed.Add(1)
		l.store.counters.syncFailures.Add(1)
	}
	if err != nil {
		_ = l.poisonLocked(err)
		l.endSealingLocked()
		l.mu.Unlock()
		return
	}
	w.synced = w.size
	l.mu.sealed = appendDescriptor(l.mu.sealed, w.descriptor())
	l.mu.retired = nil
	l.advanceDurableLocked()
	l.notifyLocked()
	l.mu.Unlock()
	w.file.release() // the cache has its own reference
	if err := l.saveMark(true); err != nil {
		l.markFailed(err)
	}
	l.saveProducers(asOf, producers)
	l.mu.Lock()
	l.endSealingLocked()
	l.mu.Unlock()
}

func (l *Log) endSealingLocked() {
	l.mu.roll.sealing = false
	l.notifyLocked()
}

// discardPrepared drops a prepared segment before exclusive work. The caller has
// closed the gate and waited for the preparation to end.
func (l *Log) discardPrepared() error {
	l.mu.Lock()
	p := l.mu.roll.prepared
	l.mu.roll.prepared = nil
	l.mu.Unlock()
	if p == nil {
		return nil
	}
	l.removePrepared(p)
	l.store.counters.rollsDiscarded.Add(1)
	err := l.store.flushDir(l.dir)
	switch {
	case err == nil:
		return nil
	case neverSubmitted(err):
		return l.usable("open directory", err)
	default:
		return l.poisonWith(err)
	}
}
