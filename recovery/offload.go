package recovery

import (
	"errors"
	"fmt"
	"path/filepath"

	"felix.local/felix/device"
	"felix.local/felix/segment"
	"felix.local/felix/sidecar"
)

// This file is what offload.manifest means for an open: which segments have a copy
// in the object store. Nothing can make it again once those segments are gone, so a
// damaged one refuses; and a gap between two segments that is all copies is none.

// readOffload reads the manifest. What is wrong with its bytes is for Decide to say.
func (s *Snapshot) readOffload(disk device.FS) error {
	manifest, err := sidecar.LoadOffload(disk, s.Dir)
	var damaged *sidecar.DecodeError
	switch {
	case errors.As(err, &damaged):
		named := *damaged
		named.Path = "" // the refusal says where it lies
		s.OffloadProblem = &named
	case err != nil:
		return err
	case manifest != nil:
		s.Offload = *manifest
	}
	return nil
}

// refuseOffload refuses a directory whose manifest cannot be read as it is.
func (d *decision) refuseOffload() {
	d.plan.Refusals = append(d.plan.Refusals, Refusal{
		Label: d.s.Label, File: filepath.Join(d.s.Dir, sidecar.OffloadName),
		Reason: fmt.Sprintf("%v; the file is all that says which segments have a copy in the object store", d.s.OffloadProblem),
		Remedy: "bring it back from a backup of this shard, or open the log with the build that wrote it; " +
			"if no segment of the log was ever offloaded, move it away",
	})
}

// gapIsCopied says whether the records between two segments, and all in front of
// them, have copies: then the log begins behind the gap. behind is the position in
// live of the segment that follows it, next the offset that belongs there.
func (d *decision) gapIsCopied(behind int, next uint64) bool {
	base := d.live[behind].Header.BaseOffset // 0 when the header is damaged
	if base <= next || !d.s.Offload.Covers(next, base) {
		return false
	}
	for _, f := range d.live[:behind] {
		if _, intact := f.intact(); !intact {
			return false
		}
		if s := describe(f); !d.s.Offload.Describes(s.ID, s.BaseOffset, s.LastOffset(), uint64(s.Size)) {
			return false
		}
	}
	return true
}

// dropCopied plans the end of the segments in front of a gap that is copied, oldest
// first, so that what a crash leaves of them is in front of the same gap.
func (d *decision) dropCopied(behind int) {
	for _, f := range d.live[:behind] {
		d.add(Step{
			Action: DeleteCopied, File: segment.LogName(f.ID), Segment: f.ID, Size: f.Size,
			Reason: fmt.Sprintf("the object store has a copy of it, and of all that is missing up to offset %d, where the log begins now",
				d.live[behind].Header.BaseOffset),
		})
	}
	d.live = d.live[behind:]
}

// warnPastTail speaks up when there are copies of records that the log does not hold
// and is about to give their offsets to others. No crash leaves that: a truncation
// drops the copies first.
func (d *decision) warnPastTail() {
	newest, any := d.s.Offload.Newest()
	if tail := d.plan.Active.NextOffset; any && newest.Last >= tail {
		d.warn("%s names a copy of segment %d, offsets %d to %d, and the log ends at %d: records are missing, or the file is of another log",
			sidecar.OffloadName, newest.Segment, newest.First, newest.Last, tail)
	}
}
