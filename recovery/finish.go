package recovery

import (
	"errors"
	"fmt"

	"felix.local/felix/device"
	"felix.local/felix/segment"
)

// makeSegment makes the first segment of an empty log.
func (a *applier) makeSegment(s Step, active segment.Descriptor) (segment.Descriptor, error) {
	active.CreatedAtMicros = a.p.NowMicros()
	header := segment.Header{Version: active.Version, BaseOffset: active.BaseOffset, CreatedAtMicros: active.CreatedAtMicros}
	disk := a.disk
	disk.IndexFailed = func(path string, err error) { a.indexFailed(path, err) }
	f, err := CreateSegment(disk, a.dir, active.ID, header, a.p.FileMode)
	if err != nil {
		return active, err
	}
	a.done(s)
	return active, f.Close()
}

// writeIndex writes an index anew. A failure is a warning: records are not lost
// by it, reads get slower, and the next open tries again. A full disk must not
// keep a log closed for it.
func (a *applier) writeIndex(s Step) error {
	entries, _, err := a.entries(s.Segment, s.walk)
	if err != nil {
		return err
	}
	if err := writeIndex(a.disk, a.dir, s.Segment, s.base, entries, a.p); err != nil {
		if errors.Is(err, device.ErrOutcomeUnknown) || errors.Is(err, device.ErrQueueClosed) {
			return err
		}
		a.indexFailed(a.path(s.File), err)
		return nil
	}
	a.done(s)
	return nil
}

func (a *applier) indexFailed(path string, err error) {
	a.report.IndexFailures++
	a.report.warn("%s could not be written, so reads of its segment start at its beginning: %v", path, err)
	if a.disk.IndexFailed != nil {
		a.disk.IndexFailed(path, err)
	}
}

// activeIndex gives the index of the active segment as the appender goes on with
// it.
func (a *applier) activeIndex() ([]segment.IndexEntry, int64, error) {
	if a.plan.activeWalk == nil {
		return nil, 0, nil // made just now
	}
	return a.entries(a.plan.Active.ID, a.plan.activeWalk)
}

// entries gives what a walk over a segment found, and walks again where that was
// not kept in memory.
func (a *applier) entries(id uint64, walk *Walk) ([]segment.IndexEntry, int64, error) {
	if walk.HasEntries {
		return walk.Entries, walk.Since, nil
	}
	f, err := a.disk.FS.OpenFile(a.path(segment.LogName(id)), device.ReadOnly, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	again, err := segment.Scan(f, walk.ValidEnd, segment.ScanOptions{Spacing: a.p.IndexSpacingBytes, Buffer: a.readBuffer()})
	if err != nil {
		return nil, 0, err
	}
	if again.Damage != nil {
		return nil, 0, fmt.Errorf("segment was intact when it was inspected: %w", again.Damage.Cause.At(a.plan.Label, id, -1))
	}
	return again.Entries, again.Since, nil
}

// finish makes the directory durable and then writes the mark durably. The mark
// comes last, because it may lag behind the truth and must never lead it. Its
// file is made before the directory is flushed: a mark whose name is lost in a
// power cut helps nobody.
func (a *applier) finish() (err error) {
	f, err := a.disk.FS.OpenFile(a.path(MarkName), device.OpenOrCreate, a.p.FileMode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := a.disk.flushDir(a.dir); err != nil {
		return err
	}
	if err := a.disk.writeDurably(f, a.plan.Mark.AppendTo(nil), 0); err != nil {
		return err
	}
	// What was flushed counts if the filesystem has not stopped since.
	return f.TakesWrites()
}
