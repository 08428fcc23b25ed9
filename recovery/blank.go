package recovery

import (
	"fmt"

	"felix.local/felix/segment"
)

// This file judges files that never held a record: a crash between making a
// segment and its first record leaves them, and so does an unlink that did not
// reach the disk.

// dropBlankRuns deletes runs of files shorter than a header that lie between two
// segments which follow each other without them. A prepared segment that was not
// needed is unlinked, and the unlink may be lost in a power cut.
func (d *decision) dropBlankRuns() {
	for i := 1; i < len(d.live); i++ {
		if d.live[i].Size >= segment.HeaderSize {
			continue
		}
		after := i
		for after < len(d.live) && d.live[after].Size < segment.HeaderSize {
			after++
		}
		if after == len(d.live) {
			return // the newest files are another rule's business
		}
		next, known := d.endOf(d.live[i-1])
		if d.asking() {
			return
		}
		if follower := d.live[after]; !known || follower.HeaderProblem != nil || follower.Header.BaseOffset != next {
			i = after // the chain check will refuse
			continue
		}
		for at := after - 1; at >= i; at-- {
			d.drop(d.live[at], "it is shorter than a header, and the segments around it follow each other without it")
		}
		d.live = append(d.live[:i:i], d.live[after:]...)
	}
}

// dropAbandoned removes prepared segments from the end of the log: those that
// hold no record and do not begin where the log ends.
func (d *decision) dropAbandoned() {
	for len(d.live) > 1 {
		newest := d.live[len(d.live)-1]
		var goes bool
		switch {
		case newest.Blank:
			goes = d.dropBlankNewest(newest)
		case newest.HeaderProblem != nil:
		case newest.Full == nil:
			d.ask(newest)
		case newest.Full.Records == 0:
			goes = d.dropEmptyNewest(newest)
		}
		if !goes {
			return
		}
		d.live = d.live[:len(d.live)-1]
	}
}

// dropBlankNewest plans the end of a newest segment whose header was never
// written, and reports whether it goes. Only a segment made ahead of its use has
// a header that is not durable before its first record, so what decides is
// whether the mark vouches for anything in it.
func (d *decision) dropBlankNewest(f *Facts) bool {
	if d.marks.syncedThrough(f.ID) > segment.HeaderSize {
		return false // acknowledged records were in it
	}
	if f.Size > segment.HeaderSize && !f.RestZero && !d.marks.nothingSynced(f.ID) {
		return false // a header that was there is gone
	}
	d.dropBlank(f)
	return true
}

// dropBlank plans the end of a segment whose header was never written. What is
// behind that is no record, since nothing says where it would belong; it is kept.
func (d *decision) dropBlank(f *Facts) {
	switch {
	case f.Size <= segment.HeaderSize:
		d.drop(f, "its header was never written, so it holds no record")
	case f.RestZero:
		d.drop(f, "neither its header nor anything behind it reached the disk, so it holds no record")
	default:
		d.setAside(f, "its header was never written, and "+MarkName+" shows that nothing in it was known to be on the disk")
	}
}

// dropEmptyNewest plans the end of a newest segment without records, and reports
// whether it goes. It stays when it begins where the log ends: that is what a
// roll leaves.
func (d *decision) dropEmptyNewest(f *Facts) bool {
	if f.Full.Damage != nil && !d.tail(f, false).cut {
		return false // its first record is damaged, which is for the tail check to judge
	}
	end := d.endBefore(f)
	base := f.Header.BaseOffset
	switch {
	case d.asking(), end.known && end.next == base && end.agrees:
		return false
	case !end.known && !end.blank:
		return false // the damage in front of it has to be judged first
	case d.wasActive(f) && (!end.known || end.next < base):
		// It was in use, so the log did reach its base, and the segment in
		// front is short: records are missing, and this is the witness.
		return false
	}
	reason := "it holds no record and does not begin where the log ends: a preparation that was abandoned"
	if f.Size > segment.HeaderSize {
		d.setAside(f, reason)
	} else {
		d.drop(f, reason)
	}
	return true
}

// logEnd is where the log stands in front of a segment.
type logEnd struct {
	next  uint64
	known bool
	// blank says that it is unknown for want of a header that was ever written.
	blank bool
	// agrees says that all segments without records on the way there begin at
	// the same offset as the one asked about.
	agrees bool
}

// endBefore finds where the log stands in front of the newest segment f. Other
// segments without records say nothing about it: they may be preparations
// abandoned just like f, and two of those agree with each other.
func (d *decision) endBefore(f *Facts) logEnd {
	end := logEnd{agrees: true}
	for i := len(d.live) - 2; i >= 0; i-- {
		earlier := d.live[i]
		end.next, end.known = d.endOf(earlier)
		end.blank = earlier.Blank
		if !end.known || earlier.Full == nil || earlier.Full.Records > 0 {
			return end
		}
		end.agrees = end.agrees && earlier.Header.BaseOffset == f.Header.BaseOffset
	}
	return end
}

// wasActive reports whether the mark proves that the log once continued in f.
func (d *decision) wasActive(f *Facts) bool {
	m := d.s.Mark
	return m != nil && (m.Segment > f.ID || m.Segment == f.ID && m.Synced >= segment.HeaderSize)
}

// dropBlankFirst lets a log begin again whose first segment never got a header.
// The header is durable before the first record may be written, so a file no
// longer than a header held none. A longer file with a zeroed header held
// records, and stays.
func (d *decision) dropBlankFirst() {
	if len(d.live) != 1 {
		return
	}
	only := d.live[0]
	if only.ID != 0 || !only.Blank || only.Size > segment.HeaderSize || d.marks.syncedThrough(0) > segment.HeaderSize {
		return
	}
	d.drop(only, "it is the only segment and its creation failed before it could hold a record")
	d.live = nil
}

// endOf gives the offset that follows a segment, with damage at its end cut off
// where the mark allows it. known is false when it cannot be told.
func (d *decision) endOf(f *Facts) (next uint64, known bool) {
	if f.HeaderProblem != nil {
		return 0, false
	}
	if next, ok := f.intact(); ok {
		return next, true
	}
	if f.Full == nil {
		d.ask(f)
		return 0, false
	}
	// A segment that lost bytes the mark vouches for ended elsewhere.
	if f.Full.ValidEnd < d.marks.syncedThrough(f.ID) || !d.tail(f, false).cut {
		return 0, false
	}
	return f.Full.NextOffset, true
}

func (d *decision) drop(f *Facts, reason string) {
	d.add(Step{Action: DeleteSegment, File: segment.LogName(f.ID), Segment: f.ID, Size: f.Size, Reason: reason})
}

func (d *decision) setAside(f *Facts, reason string) {
	step := Step{
		Action: SetAside, File: segment.LogName(f.ID), Segment: f.ID, Size: f.Size,
		Reason: fmt.Sprintf("%s; its %d bytes are kept as a side copy", reason, f.Size),
	}
	if f.Full != nil {
		step.RecordsDropped = f.Full.Records
		if f.Full.Damage != nil {
			step.RecordsDropped += f.Full.Damage.IntactAfter
		}
	}
	d.add(step)
}
