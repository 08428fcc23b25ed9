package recovery

import (
	"fmt"

	"felix.local/felix/segment"
)

// checkSealed judges all segments but the newest, and the chain of offsets over
// all of them. A sealed segment was synced and trimmed, so any damage in it
// refuses, and so does an overlap between two segments, and a gap that is not copied.
func (d *decision) checkSealed() {
	newest, begins := len(d.live)-1, 0
	for i, f := range d.live[:newest] {
		if f.HeaderProblem != nil {
			d.refuseHeader(f)
			continue
		}
		if i == newest-1 && d.mayBeUnsealed(f) && f.Full == nil {
			d.ask(f)
			continue
		}
		next, ok := f.intact()
		if ok && d.gapIsCopied(i+1, next) {
			begins = i + 1
			continue
		}
		if ok {
			d.checkChain(f, d.live[i+1], next)
			continue
		}
		if f.Full == nil {
			// Asking goes on, so that one round reads all that is needed.
			d.ask(f)
			continue
		}
		d.refuse(f, f.Full.Damage.Cause, d.whyNotSealed(f), remedyRestore)
	}
	d.dropCopied(begins)
}

// mayBeUnsealed says that a background roll may have left the segment before the
// newest one to be synced. A crash can then have lost any block of it and kept its
// index and its end, so it is read whole: what was lost has to be cut now, before
// anything is appended behind a hole that no reader could get past.
func (d *decision) mayBeUnsealed(f *Facts) bool {
	return d.s.Mark != nil && d.marks.syncedThrough(f.ID) < f.Size
}

func (d *decision) whyNotSealed(f *Facts) string {
	why := fmt.Sprintf("%v in a sealed segment, which was on the disk whole", f.Full.Damage.Cause.Kind)
	if n := f.Full.Damage.IntactAfter; n > 0 {
		why += fmt.Sprintf("; intact records that follow: %d", n)
	}
	return why
}

func (d *decision) refuseHeader(f *Facts) {
	reason := "the segment's header is damaged, and it was on the disk before any record"
	switch {
	case f.Blank && f.Size < segment.HeaderSize:
		reason = "the file is shorter than a segment header, and nothing shows that it held no record"
	case f.Blank:
		reason = "the segment's header reads as zeros, and nothing shows that the segment held no record"
	case f.HeaderProblem.Kind == segment.SegmentVersion:
		reason = "the segment was written by another version of the format"
	}
	d.refuse(f, f.HeaderProblem, reason, remedyRestore)
}

// checkChain refuses when later does not begin where f ends.
func (d *decision) checkChain(f, later *Facts, next uint64) {
	if later.HeaderProblem != nil || later.Header.BaseOffset == next {
		return
	}
	base := later.Header.BaseOffset
	what := "records are missing between the two"
	if base < next {
		what = "the two overlap"
	}
	cause := &segment.Corruption{Kind: segment.OffsetOutOfOrder, Expected: next, Found: base}
	d.refuse(later, cause.At("", later.ID, 0),
		fmt.Sprintf("%s ends before offset %d and %s begins at %d: %s",
			segment.LogName(f.ID), next, segment.LogName(later.ID), base, what),
		"bring missing segment files back, or move the file that does not belong here out of the directory")
}

// checkActive judges the newest segment.
func (d *decision) checkActive() {
	active := d.live[len(d.live)-1]
	if active.HeaderProblem != nil {
		d.refuseHeader(active)
		return
	}
	if active.Full == nil {
		d.ask(active)
		return
	}
	if d.asking() || d.plan.Refused() {
		// Whether the tail may be cut depends on this being the newest segment
		// of a sound log.
		if active.Full.Damage != nil && !d.tail(active, d.p.RepairChecksumTail).cut {
			d.refuseTail(active)
		}
		return
	}
	if active.Full.Damage == nil {
		d.warnMissing(active)
		return
	}
	v := d.tail(active, d.p.RepairChecksumTail)
	if !v.cut {
		d.refuseTail(active)
		return
	}
	d.cut(active, v)
}

func (d *decision) refuseTail(f *Facts) {
	damage := f.Full.Damage
	d.refuse(f, damage.Cause, d.whyNot(f, damage), remedyForTail(damage, f.Size))
}

// cut plans to cut a segment at its damage, unless that is planned already.
func (d *decision) cut(f *Facts, v verdict) {
	for _, s := range d.plan.Steps {
		if s.Action == CutTail && s.Segment == f.ID {
			return
		}
	}
	d.add(Step{
		Action: CutTail, File: segment.LogName(f.ID), Segment: f.ID,
		Position: f.Full.Damage.Position, Size: f.Size, Reason: v.reason,
		RecordsDropped: f.Full.Damage.IntactAfter, BelowMark: v.belowMark, CopyOptional: v.copyOptional,
	})
}

// warnMissing speaks up when the log ends before what the mark vouches for. That
// alone is no damage: a crash during a truncation leaves it, because the mark is
// moved back after the cut.
func (d *decision) warnMissing(active *Facts) {
	m := d.s.Mark
	switch {
	case m == nil:
	case m.Segment == active.ID+1 && d.marks.nothingSynced(m.Segment):
		// The segment it names went, and held nothing that was synced.
	case m.Segment > active.ID:
		d.warn("%s names segment %d, and the newest one is %d: unless a truncation was interrupted, records are missing", MarkName, m.Segment, active.ID)
	case m.Segment == active.ID && active.Full.ValidEnd < m.Synced:
		d.warn("%s vouches for %d bytes of segment %d, and its records end at %d: unless a truncation was interrupted, records are missing",
			MarkName, m.Synced, m.Segment, active.Full.ValidEnd)
	}
}
