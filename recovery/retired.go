package recovery

import (
	"felix.local/felix/segment"
)

// repairRetired handles the one way in which a crash leaves the segment before
// the newest one short. A background roll installs a new active segment and only
// then flushes and seals the retired one; every flush in between syncs the
// retired segment first, so what follows the loss was never durable either.
//
// It takes the mark to prove that: without one, or when the mark vouches for
// what is missing, the refusal stands.
func (d *decision) repairRetired() {
	if d.s.Mark == nil || d.asking() || len(d.live) < 2 || len(d.plan.Refusals) != 1 {
		return
	}
	retired, active := d.live[len(d.live)-2], d.live[len(d.live)-1]
	if retired.Blank {
		d.dropBlankRetired(retired, active)
		return
	}
	if !d.blamesRetired(retired, active) {
		return
	}
	if retired.Full == nil {
		d.ask(retired)
		return
	}
	if active.Full == nil {
		d.ask(active) // for the number of records set aside
		return
	}
	if retired.Full.ValidEnd < d.marks.syncedThrough(retired.ID) {
		return
	}
	var v verdict
	if retired.Full.Damage != nil {
		if v = d.tail(retired, false); !v.cut {
			return
		}
	}
	d.plan.Refusals = nil
	// The later segment goes before the earlier one is shortened, so that no
	// crash leaves both with a hole between them.
	if active.Header.BaseOffset != retired.Full.NextOffset {
		d.dropActive(active)
	}
	if retired.Full.Damage != nil {
		d.cut(retired, v)
	}
}

// dropBlankRetired is the repair of a retired segment that lost everything, its
// header included: one made ahead of its use has none on the disk before its first
// flush, and that may come as late as its seal. The log ends at the segment in
// front of it; without one, nothing says at which offset.
func (d *decision) dropBlankRetired(retired, active *Facts) {
	if len(d.live) < 3 || d.plan.Refusals[0].Segment != retired.ID || active.HeaderProblem != nil || !d.marks.nothingSynced(retired.ID) {
		return
	}
	if active.Full == nil {
		d.ask(active)
		return
	}
	d.plan.Refusals = nil
	d.dropActive(active)
	d.dropBlank(retired)
	d.live = d.live[:len(d.live)-1]
}

// blamesRetired says whether the refusal at hand is one this repair is for:
// damage in the retired segment, or records missing between it and the active
// one, when the loss fell on a record boundary.
func (d *decision) blamesRetired(retired, active *Facts) bool {
	r := d.plan.Refusals[0]
	if retired.HeaderProblem != nil || active.HeaderProblem != nil {
		return false
	}
	if r.Segment == retired.ID {
		return retired.Full != nil && retired.Full.Damage != nil
	}
	return r.Segment == active.ID && r.Cause != nil &&
		r.Cause.Kind == segment.OffsetOutOfOrder && r.Cause.Found > r.Cause.Expected
}

// dropActive plans the end of the segment behind the loss.
func (d *decision) dropActive(active *Facts) {
	reason := "the segment before it lost records in a crash, and nothing past that loss was ever durable"
	if active.Size > segment.HeaderSize {
		d.setAside(active, reason)
	} else {
		d.drop(active, reason)
	}
	d.live = d.live[:len(d.live)-1]
}
