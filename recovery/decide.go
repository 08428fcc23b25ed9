package recovery

import (
	"fmt"
	"path/filepath"

	"felix.local/felix/segment"
)

// Decide says what opening the directory would do. It does no I/O: what it needs
// was read by Inspect, under the same policy.
func Decide(s *Snapshot, p Policy) *Plan {
	plan := decide(s, p.withDefaults())
	if len(plan.questions) > 0 {
		// Only a snapshot that was not taken for this policy leaves something
		// unread.
		plan.Refusals = append(plan.Refusals, Refusal{
			Label: s.Label, Segment: plan.questions[0],
			File:   filepath.Join(s.Dir, segment.LogName(plan.questions[0])),
			Reason: "the segment was not read whole, because the directory was inspected under another policy",
			Remedy: "inspect the directory again",
		})
	}
	return plan
}

// decision is a plan in the making.
type decision struct {
	s     *Snapshot
	p     Policy
	marks evidence
	plan  *Plan
	// live are the segments that remain after the steps planned so far,
	// ascending.
	live []*Facts
}

// decide plans, or asks for segments to be read whole. The order of the checks
// is part of the rules: files that never held a record go first, so that the
// chain of offsets is judged over real segments only.
func decide(s *Snapshot, p Policy) *Plan {
	d := &decision{s: s, p: p, marks: evidence{s.Mark}, plan: &Plan{
		Dir: s.Dir, Label: s.Label, policy: p, snapshot: s,
	}}
	for i := range s.Segments {
		d.live = append(d.live, &s.Segments[i])
	}
	if s.OffloadProblem != nil {
		d.refuseOffload()
		return d.plan
	}
	for _, check := range []func(){
		d.housekeeping,
		d.dropBlankRuns,
		d.dropAbandoned,
		d.dropBlankFirst,
		d.judge,
		d.pruneSideCopies,
	} {
		check()
		if len(d.plan.questions) > 0 {
			break
		}
	}
	return d.plan
}

// ask wants a segment read whole before the decision goes on.
func (d *decision) ask(f *Facts) { d.plan.questions = append(d.plan.questions, f.ID) }

func (d *decision) asking() bool { return len(d.plan.questions) > 0 }

func (d *decision) add(s Step) { d.plan.Steps = append(d.plan.Steps, s) }

func (d *decision) warn(format string, args ...any) {
	d.plan.Warnings = append(d.plan.Warnings, fmt.Sprintf(format, args...))
}

// housekeeping removes what is never read.
func (d *decision) housekeeping() {
	if d.s.DirMissing {
		d.add(Step{Action: MakeDirectory, Reason: "the directory does not exist"})
	}
	for _, name := range d.s.Leftovers {
		d.add(Step{Action: RemoveLeftover, File: name, Reason: "a crash left this temporary; it is never read"})
	}
	for _, name := range d.s.OrphanIndexes {
		id, _ := segment.ParseIndexName(name)
		d.add(Step{Action: RemoveIndex, File: name, Segment: id, Reason: "its segment does not exist, and an index alone says nothing"})
	}
}

// pruneSideCopies makes room for the copies that the plan adds.
func (d *decision) pruneSideCopies() {
	added := 0
	for _, s := range d.plan.Steps {
		if s.Action == CutTail || s.Action == SetAside {
			added++
		}
	}
	for _, name := range oldestSideCopies(d.s.SideCopies, max(0, d.p.SideCopiesKept-added)) {
		d.add(Step{Action: PruneSideCopy, File: name, Reason: fmt.Sprintf("the newest %d side copies are kept", d.p.SideCopiesKept)})
	}
}

// judge plans the rest for the segments that hold, or may hold, records.
func (d *decision) judge() {
	if len(d.live) == 0 {
		d.startEmpty()
		return
	}
	d.checkSealed()
	d.repairRetired()
	d.checkActive()
	if d.asking() || d.plan.Refused() {
		return
	}
	d.describe()
	d.planIndexes()
	d.warnPastTail()
}

// startEmpty plans the first segment of a log, unless the mark says that there
// was a log here.
func (d *decision) startEmpty() {
	if m := d.s.Mark; m != nil && (m.Segment > 0 || m.Synced > segment.HeaderSize) {
		d.plan.Refusals = append(d.plan.Refusals, Refusal{
			Label: d.s.Label, Segment: m.Segment, Position: m.Synced, File: filepath.Join(d.s.Dir, MarkName),
			Reason: fmt.Sprintf("%s vouches for %d bytes of segment %d, and the directory holds no segment at all: every record is missing",
				MarkName, m.Synced, m.Segment),
			Remedy: "bring the segment files back; if the log is meant to start over, remove " + MarkName,
		})
		return
	}
	d.add(Step{Action: MakeSegment, File: segment.LogName(0), Reason: fmt.Sprintf("the log is empty and begins at offset %d", d.p.PlacedBase)})
	d.plan.Active = segment.Descriptor{
		BaseOffset: d.p.PlacedBase, NextOffset: d.p.PlacedBase,
		Size: segment.HeaderSize, Version: segment.VersionDefault,
	}
	d.plan.Mark = Mark{Synced: segment.HeaderSize}
	d.warnPastTail()
}

// describe notes the log as it will be after the steps.
func (d *decision) describe() {
	newest := len(d.live) - 1
	for _, f := range d.live[:newest] {
		d.plan.Sealed = append(d.plan.Sealed, describe(f))
	}
	d.plan.Active = describe(d.live[newest])
	d.plan.activeWalk = d.live[newest].Full
	d.plan.Mark = Mark{Segment: d.plan.Active.ID, Synced: d.plan.Active.Size}
}

// describe gives a segment up to its last intact record: whatever lies behind is
// cut by the plan.
func describe(f *Facts) segment.Descriptor {
	walk := f.Full
	if walk == nil {
		walk = f.End
	}
	return segment.Descriptor{
		ID: f.ID, BaseOffset: f.Header.BaseOffset, NextOffset: walk.NextOffset,
		Size: walk.ValidEnd, Version: f.Header.Version, CreatedAtMicros: f.Header.CreatedAtMicros,
	}
}

// planIndexes plans the indexes that are not what appending would have left. A
// sealed segment whose index leads to its end keeps it, whatever spacing it was
// written with.
func (d *decision) planIndexes() {
	newest := len(d.live) - 1
	for i, f := range d.live {
		if f.Full == nil || f.Full.IndexSame || (i < newest && f.End.reachesEnd()) {
			continue
		}
		step := Step{
			Action: RebuildIndex, File: segment.IndexName(f.ID), Segment: f.ID, base: f.Header.BaseOffset, walk: f.Full,
			Reason: "the index is missing or does not lead to the end of its segment",
		}
		switch {
		case i == newest:
			step.Action, step.Reason = RefreshIndex, "the index of the active segment is not what its records make it"
		case d.p.VerifyAllOnOpen:
			step.Reason = "the index is not what the segment's records make it"
		}
		d.add(step)
	}
}

// refuse notes damage in a segment as a reason not to open.
func (d *decision) refuse(f *Facts, cause *segment.Corruption, reason, remedy string) {
	cause = cause.At(d.s.Label, f.ID, -1)
	d.plan.Refusals = append(d.plan.Refusals, Refusal{
		Label: d.s.Label, Segment: f.ID, File: filepath.Join(d.s.Dir, segment.LogName(f.ID)),
		Position: cause.Site.Position, Reason: reason, Remedy: remedy, Cause: cause,
	})
}
