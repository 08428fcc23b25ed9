package recovery

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"felix.local/felix/device"
	"felix.local/felix/segment"
)

// Apply carries a plan out. Interrupted anywhere, it leaves a directory that a
// new Inspect, Decide and Apply bring to the same log. A refused plan changes
// nothing and gives a *RefusedError. With any other error the Recovered holds
// nothing but the report of what was done until then, which no later open will
// find any more.
//
// What was cut is flushed at once; then, in this order, the directory and
// durable.mark are made durable, and only then the log may be used. Apply relies
// on Settle for what the plan left as it was.
func Apply(disk Disk, plan *Plan) (*Recovered, error) {
	if plan.Refused() {
		return nil, &RefusedError{Dir: plan.Dir, Label: plan.Label, Refusals: plan.Refusals}
	}
	a := &applier{disk: disk, dir: plan.Dir, p: plan.policy, plan: plan}
	a.report.Warnings = append(a.report.Warnings, plan.Warnings...)
	a.report.Foreign = plan.snapshot.Foreign
	active := plan.Active
	if err := MakeDirs(disk, plan.Dir, a.p.DirMode); err != nil {
		return a.failed(err)
	}
	if err := a.lowerMark(); err != nil {
		return nil, fmt.Errorf("recovering shard %s, moving %s back: %w", plan.Label, MarkName, err)
	}
	for _, step := range plan.Steps {
		var err error
		if step.Action == MakeSegment {
			active, err = a.makeSegment(step, active)
		} else {
			err = a.carryOut(step)
		}
		if err != nil {
			return a.failed(fmt.Errorf("recovering shard %s, %s: %w", plan.Label, step.Action, err))
		}
	}
	entries, since, err := a.activeIndex()
	if err == nil {
		err = a.finish()
	}
	if err != nil {
		return a.failed(fmt.Errorf("recovering shard %s: %w", plan.Label, err))
	}
	return &Recovered{
		Sealed: plan.Sealed, Active: active, ActiveEntries: entries, ActiveSince: since,
		Mark: plan.Mark, Report: a.report,
	}, nil
}

// applier carries one plan out.
type applier struct {
	disk   Disk
	dir    string
	p      Policy
	plan   *Plan
	report Report
	buffer []byte
	// copiesSkipped counts side copies that a full disk did not allow.
	copiesSkipped int
	// pruned counts the pruning steps seen.
	pruned int
}

func (a *applier) failed(err error) (*Recovered, error) { return &Recovered{Report: a.report}, err }

// lowerMark moves the mark back before bytes that it vouches for are cut. Until
// the cut is flushed, a power cut may leave zeros in its place, and with the mark
// as it was the next open would have to call them rot.
func (a *applier) lowerMark() (err error) {
	if !slices.ContainsFunc(a.plan.Steps, func(s Step) bool { return s.Action == CutTail && s.BelowMark }) {
		return nil
	}
	f, err := a.disk.FS.OpenFile(a.path(MarkName), device.ReadWrite, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return a.disk.writeDurably(f, a.plan.Mark.AppendTo(nil), 0)
}

func (a *applier) path(name string) string { return filepath.Join(a.dir, name) }

func (a *applier) readBuffer() []byte {
	if a.buffer == nil {
		a.buffer = make([]byte, bufferBytes)
	}
	return a.buffer
}

// done notes a step that was carried out.
func (a *applier) done(s Step) {
	s.walk = nil
	a.report.count(s)
}

func (a *applier) carryOut(s Step) error {
	switch s.Action {
	case MakeDirectory:
		a.done(s) // made before the first step
		return nil
	case RemoveLeftover, RemoveIndex:
		return a.remove(s)
	case DeleteSegment, DeleteCopied:
		return a.deleteSegment(s)
	case SetAside:
		return a.setAside(s)
	case CutTail:
		return a.cutTail(s)
	case RebuildIndex, RefreshIndex:
		return a.writeIndex(s)
	case PruneSideCopy:
		return a.prune(s)
	default:
		panic(fmt.Sprintf("recovery: %q is no action", s.Action))
	}
}

// remove unlinks a file that nothing depends on.
func (a *applier) remove(s Step) error {
	if err := a.disk.FS.Remove(a.path(s.File)); err != nil && !device.IsNotExist(err) {
		return err
	}
	a.done(s)
	return nil
}

// deleteSegment unlinks a segment without records, or one that is copied, and makes
// that durable before the next step: of several, newest first without records and
// oldest first of copied ones, those that a crash brings back are what the same rules
// judge again.
func (a *applier) deleteSegment(s Step) error {
	if err := a.unchanged(s); err != nil {
		return err
	}
	if err := a.disk.FS.Remove(a.path(s.File)); err != nil {
		return err
	}
	return a.segmentGone(s)
}

// setAside renames a segment that holds bytes.
func (a *applier) setAside(s Step) error {
	if err := a.unchanged(s); err != nil {
		return err
	}
	name, err := a.unusedSideCopyName(s.Segment)
	if err != nil {
		return err
	}
	if err := a.disk.FS.Rename(a.path(s.File), a.path(name)); err != nil {
		return err
	}
	s.SideCopy = name
	return a.segmentGone(s)
}

// segmentGone makes the end of a segment's name durable, then removes its index;
// an index that a crash brings back is cleared away as an orphan.
func (a *applier) segmentGone(s Step) error {
	if err := a.disk.flushDir(a.dir); err != nil {
		return err
	}
	a.done(s)
	err := a.disk.FS.Remove(a.path(segment.IndexName(s.Segment)))
	if device.IsNotExist(err) {
		return nil
	}
	return err
}

// unchanged refuses to touch a segment that is not what was inspected.
func (a *applier) unchanged(s Step) error {
	info, err := a.disk.FS.Lstat(a.path(s.File))
	if err != nil {
		return err
	}
	return a.sameSize(s, info.Size)
}

func (a *applier) sameSize(s Step, size int64) error {
	if size == s.Size {
		return nil
	}
	return fmt.Errorf("%s was %d bytes long when it was inspected and now is %d; something else writes to this directory",
		a.path(s.File), s.Size, size)
}

// cutTail copies the end of a segment aside, cuts it off and makes the cut
// durable. Until it is, nothing may be appended: a record of the same length as
// the damaged one would make what follows it valid again after a crash.
func (a *applier) cutTail(s Step) (err error) {
	f, err := a.disk.FS.OpenFile(a.path(s.File), device.ReadWrite, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return err
	}
	if err := a.sameSize(s, size); err != nil {
		return err
	}
	s.SideCopy, err = a.copyAside(f, s.Segment, s.Position, s.Size)
	if err != nil {
		if !s.CopyOptional || !errors.Is(err, device.ErrFull) {
			return err
		}
		// A log that cannot be opened on a full disk cannot be trimmed either,
		// and these bytes hold no whole record.
		a.copiesSkipped++
		a.report.warn("the disk is full: %d bytes were cut from %s without a side copy", s.Cut(), a.path(s.File))
	}
	if err := f.Truncate(s.Position); err != nil {
		return err
	}
	if err := a.disk.flush(f); err != nil {
		return err
	}
	a.done(s)
	return nil
}

// prune removes an old side copy, oldest first. Copies that were not made leave
// as many of the old ones.
func (a *applier) prune(s Step) error {
	a.pruned++
	planned := 0
	for _, other := range a.plan.Steps {
		if other.Action == PruneSideCopy {
			planned++
		}
	}
	if a.pruned > planned-a.copiesSkipped {
		return nil
	}
	return a.remove(s)
}
