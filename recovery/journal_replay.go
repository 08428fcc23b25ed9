package recovery

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/journal"
	"felix.local/felix/segment"
)

// JournalReport is what a replay did, for logs and counters. Its zero value is that
// of a store that had nothing to replay.
type JournalReport struct {
	// Replayed says that there was a journal which was not known to be empty.
	Replayed bool
	// Frames and Entries were needed, of which Void entries did not count any more.
	Frames        int
	Entries, Void uint64
	// Shards and Segments had entries that count.
	Shards, Segments int
	// BytesWritten were missing in segments; BytesCut are the zeros that followed.
	BytesWritten, BytesCut int64
	// Duration is how long all of it took.
	Duration time.Duration
}

// ReplayJournal brings every shard that the root's commit journal speaks of to what
// was acknowledged, and makes the journal empty under a new epoch, which is neither 0
// nor the old one. It comes before any shard of the root is opened; the caller holds
// the root's lock. A journal that must not be replayed gives a *JournalRefusedError,
// and then nothing was changed.
//
// The order is that of its crash points: all of it is judged before anything is
// written, bytes go into segments and are flushed, then the marks move, and only when
// all shards are done the journal is given up. A crash in between replays the same
// journal over segments that hold some more of it.
//
// The memory it takes is that of InspectJournal.
func ReplayJournal(d Disk, root string, p Policy, newEpoch uint64) (report JournalReport, err error) {
	start := time.Now()
	p = p.withDefaults()
	if err := p.validate(); err != nil {
		return report, err
	}
	i, err := newJournalInspector(d.FS, root, device.ReadWrite)
	if i == nil || err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, i.close()) }()
	if newEpoch == 0 || newEpoch == i.plan.Current.Epoch {
		return report, errJournalEpoch
	}
	r := &replayer{disk: d, root: root, p: p, i: i, plan: i.plan}
	for _, step := range []func() error{r.settleJournal, i.scan, r.settleShards, i.judge, i.plan.err} {
		if err := step(); err != nil {
			return report, err
		}
	}
	for _, step := range []func() error{r.write, r.flush, r.moveMarks, func() error { return r.empty(newEpoch) }} {
		if err := step(); err != nil {
			return report, fmt.Errorf("replaying the commit journal of %s: %w", root, err)
		}
	}
	r.report.Duration = time.Since(start)
	return r.report, nil
}

// replayer carries the plan of one journal out.
type replayer struct {
	disk   Disk
	root   string
	p      Policy
	i      *journalInspector
	plan   *JournalPlan
	report JournalReport
}

func (r *replayer) path(shard, name string) string { return filepath.Join(r.root, shard, name) }

// settleJournal brings the frames to the device and forgets cached copies of them: a
// store that was killed may have left one that is on neither.
func (r *replayer) settleJournal() error {
	if r.i.files == nil {
		return nil
	}
	for _, f := range r.i.files.files {
		if err := r.disk.flush(f); err != nil {
			return err
		}
		if err := f.DropCache(0); err != nil && !errors.Is(err, device.ErrUnsupported) {
			return err
		}
	}
	return nil
}

// settleShards does the same for the segments that the journal speaks of, and for
// the one before the last of them unless the mark vouches for it: the mark is going
// to. Blocks behind their ends stay: what the journal holds has been promised them.
func (r *replayer) settleShards() error {
	for shard, ids := range r.i.spokenOf {
		dir := filepath.Join(r.root, shard)
		mark, err := readMark(r.disk.FS, dir)
		if err != nil {
			return err
		}
		marks := evidence{mark}
		before, found, err := r.segmentBefore(dir, slices.Max(ids))
		if err != nil {
			return err
		}
		if found && !slices.Contains(ids, before) {
			if _, err := settleSegment(r.disk, dir, before, false, false, marks); err != nil {
				return err
			}
		}
		for _, id := range ids {
			if _, err := settleSegment(r.disk, dir, id, true, false, marks); err != nil && !device.IsNotExist(err) {
				return err
			}
		}
	}
	return nil
}

// segmentBefore finds the segment in front of another one.
func (r *replayer) segmentBefore(dir string, id uint64) (before uint64, found bool, err error) {
	entries, err := r.disk.FS.ReadDir(dir)
	if err != nil && !device.IsNotExist(err) {
		return 0, false, err
	}
	for _, e := range entries {
		if n, ok := segment.ParseLogName(e.Name); ok && e.Type.Type() == 0 && n < id {
			before, found = max(before, n), true
		}
	}
	return before, found, nil
}

// write puts into the segments what they miss.
func (r *replayer) write() error {
	r.report = JournalReport{Replayed: true, Frames: r.plan.Frames, Entries: r.plan.Entries, Void: r.plan.Void, Shards: len(r.plan.Shards)}
	return gather(r.i.chain, r.i.fences, r.i.budget, nil, func(name string, x *extent) (err error) {
		g := r.plan.shard(name).segment(x.segment)
		there := max(0, g.ValidEnd-x.position)
		if there >= int64(len(x.bytes)) {
			return nil
		}
		f, err := r.disk.FS.OpenFile(r.path(name, segment.LogName(x.segment)), device.ReadWrite, 0)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		missing := x.bytes[there:]
		r.report.BytesWritten += int64(len(missing))
		return r.disk.write(f, missing, x.position+there)
	})
}

// flushTogetherMax is how many segments are flushed in one submission: filesystems
// share one commit among flushes that wait at the same time.
const flushTogetherMax = 64

// flush makes durable what was written and cut.
func (r *replayer) flush() error {
	var files []device.File
	var failed error
	finish := func() error {
		ops := make([]*device.Op, len(files))
		for n, f := range files {
			ops[n] = &device.Op{Kind: device.Flush, File: f}
		}
		r.disk.Queue.Submit(ops...)
		for n, op := range ops {
			failed = errors.Join(failed, op.Wait(), files[n].Close())
		}
		files = files[:0]
		return failed
	}
	for n := range r.plan.Shards {
		s := &r.plan.Shards[n]
		for m := range s.Segments {
			g := &s.Segments[m]
			r.report.Segments++
			if g.Missing() == 0 && !g.Cut {
				continue
			}
			f, err := r.disk.FS.OpenFile(r.path(s.Shard, segment.LogName(g.Segment)), device.ReadWrite, 0)
			if err != nil {
				return errors.Join(err, finish())
			}
			if files = append(files, f); g.Cut {
				err = r.cut(f, g)
			}
			if err != nil || len(files) == flushTogetherMax {
				if err := errors.Join(err, finish()); err != nil {
					return err
				}
			}
		}
	}
	return finish()
}

// cut takes off the zeros behind the last entry.
func (r *replayer) cut(f device.File, g *JournalSegment) error {
	size, err := f.Size()
	if err != nil {
		return err
	}
	if size != g.Size {
		return fmt.Errorf("%s was %d bytes long when it was inspected and now is %d; something else writes to this directory", f.Name(), g.Size, size)
	}
	r.report.BytesCut += size - g.End
	return f.Truncate(g.End)
}

// moveMarks lets the marks say what is on the device now.
func (r *replayer) moveMarks() error {
	for n := range r.plan.Shards {
		s := &r.plan.Shards[n]
		if s.Mark != nil && *s.Mark == *s.MarkAfter {
			continue
		}
		if err := r.moveMark(s); err != nil {
			return err
		}
	}
	return nil
}

func (r *replayer) moveMark(s *JournalShard) (err error) {
	f, err := r.disk.FS.OpenFile(r.path(s.Shard, MarkName), device.OpenOrCreate, r.p.FileMode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if s.Mark == nil {
		if err := r.disk.flushDir(filepath.Join(r.root, s.Shard)); err != nil {
			return err
		}
	}
	return r.disk.writeDurably(f, s.MarkAfter.AppendTo(nil), 0)
}

// empty gives the journal up: every byte it holds is where it belongs.
func (r *replayer) empty(epoch uint64) error {
	c := r.plan.Current
	c.Epoch, c.Empty = epoch, true
	dir := filepath.Join(r.root, journal.DirName)
	path := filepath.Join(dir, journal.CurrentName)
	if err := r.writeFile(path+".tmp", c.AppendTo(nil)); err != nil {
		return err
	}
	if err := r.disk.FS.Rename(path+".tmp", path); err != nil {
		return err
	}
	return r.disk.flushDir(dir)
}

// writeFile writes a whole small file and flushes it, over what a crash may have
// left of it.
func (r *replayer) writeFile(path string, b []byte) (err error) {
	f, err := r.disk.FS.OpenFile(path, device.OpenOrCreate, r.p.FileMode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Truncate(0); err != nil {
		return err
	}
	return r.disk.writeAndFlush(f, b, 0)
}
