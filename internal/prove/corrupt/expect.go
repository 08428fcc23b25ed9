package corrupt

import (
	"bytes"
	"slices"

	"felix.local/felix/segment"
)

// expectation is what has to become of an image.
type expectation struct {
	want Verdict
	// place and position are what an error has to name; hit are the positions of
	// all records that were hit, which an error about one of them may name.
	place    int
	position int64
	hit      []int64
	// kept is the number of records that a log opened short has left, the first
	// of which is number from.
	kept, from int
	// cut is the position from which the segment at place is cut off, -1 when
	// nothing is; dropped is the number of intact records in what goes. Where
	// records were moved about, a search cannot find them all, and droppedLeast is
	// lower.
	cut                   int64
	dropped, droppedLeast int
}

func (e expectation) with(v Verdict) expectation {
	e.want = v
	return e
}

// drops notes how many intact records go.
func (e expectation) drops(least, most int) expectation {
	e.droppedLeast, e.dropped = least, most
	return e
}

// expect says what has to become of a damage, from the rules in docs/recovery.md.
func (w *world) expect(f *fileTruth, d Damage) expectation {
	e := expectation{place: f.place, kept: len(w.records), cut: -1}
	switch {
	case d.Kind.ofFiles():
		return w.expectFiles(e, f, d)
	case f.kind != segmentFile:
		// An index is rebuilt, and a damaged mark is none, which an undamaged
		// log does not need.
		return e.with(Whole)
	case d.Kind == Cut:
		return w.expectCut(e, &w.logs[f.place], d.Position)
	default:
		return w.expectAltered(e, &w.logs[f.place], d)
	}
}

// reservedAt is where the header's last four bytes are, which nothing checks.
const reservedAt = 28

// expectAltered is for a segment of its length with other bytes in it.
func (w *world) expectAltered(e expectation, t *segmentTruth, d Damage) expectation {
	got := d.altered(t.content)
	if !bytes.Equal(got[:reservedAt], t.content[:reservedAt]) {
		return w.expectHeader(e, t, got)
	}
	hit := t.hit(got)
	if len(hit) == 0 {
		return e.with(Whole)
	}
	for _, n := range hit {
		e.hit = append(e.hit, t.starts[n])
	}
	n, newest := hit[0], len(w.logs)-1
	e.position = t.starts[n]
	past := w.mark != nil && e.position >= w.vouched(e.place)
	switch {
	case e.place == newest:
		return w.expectTail(e, t, n, got, d, past)
	case past:
		least, most := t.intactBehind(n, got, d)
		return w.retired(e, t, n, least, most)
	case w.o.VerifyAll, w.readWhole(e.place), e.hit[len(hit)-1] >= t.resumed:
		return e.with(RefusedAtOpen)
	default:
		// A sealed segment is walked from its last index entry on.
		return e.with(RefusedAtRead)
	}
}

// readWhole says that a segment was not known to be synced whole and may have
// lost any block.
func (w *world) readWhole(place int) bool {
	return w.mark != nil && w.vouched(place) < w.logs[place].size()
}

// expectTail is for the newest segment, in which record n is the first one hit.
func (w *world) expectTail(e expectation, t *segmentTruth, n int, got []byte, d Damage, past bool) expectation {
	end, trusted := claimed(got, e.position)
	e.kept, e.cut = t.first+n, e.position
	switch {
	case trusted && end > t.size():
		// Only a record that came there from elsewhere in the file.
		if e.position < w.vouched(e.place) {
			return e.with(CutBelowMark)
		}
		return e.with(CutUnfinished)
	case past:
		return e.with(CutPastMark).drops(t.intactBehind(n, got, d))
	case w.mark == nil && zerosBehind(got, e.position, end):
		return e.with(CutZeros).drops(t.intactBehind(n, got, d))
	default:
		return e.with(RefusedAtOpen)
	}
}

// expectHeader is for a segment whose header is another one.
func (w *world) expectHeader(e expectation, t *segmentTruth, got []byte) expectation {
	blank := allZero(got[:segment.HeaderSize])
	if !blank || e.place != len(w.logs)-1 || w.vouched(e.place) > segment.HeaderSize {
		return e.with(RefusedAtOpen)
	}
	e.kept = t.first
	switch {
	case allZero(got):
		return e.with(DroppedBlank)
	case w.mark != nil && w.vouched(e.place) < segment.HeaderSize:
		return e.with(SetAsideBlank)
	default:
		return e.with(RefusedAtOpen)
	}
}

// expectCut is for a segment that ends early.
func (w *world) expectCut(e expectation, t *segmentTruth, length int64) expectation {
	newest := len(w.logs) - 1
	vouched := w.vouched(e.place)
	if length < segment.HeaderSize {
		if e.place == newest && vouched <= segment.HeaderSize {
			e.kept = t.first
			return e.with(DroppedBlank)
		}
		return e.with(RefusedAtOpen)
	}
	n := t.holding(length)
	e.position = t.starts[n]
	between := e.position == length
	switch {
	case e.place == newest:
		e.kept = t.first + n
		switch below := e.position < vouched; {
		case between && below:
			return e.with(EndsBelowMark)
		case between:
			return e.with(EndsUnvouched)
		case below:
			e.cut = e.position
			return e.with(CutBelowMark)
		default:
			e.cut = e.position
			return e.with(CutUnfinished)
		}
	case e.position >= vouched && w.mark != nil:
		e = w.retired(e, t, n, 0, 0)
		if between {
			e.cut = -1
		}
		return e
	case between:
		// The next segment does not begin where this one ends now.
		e.place, e.position = e.place+1, 0
	}
	return e.with(RefusedAtOpen)
}

// retired is for damage past the mark in the segment before the newest: record n
// and all behind it go, with at least and at most so many intact ones, and all in
// the newest.
func (w *world) retired(e expectation, t *segmentTruth, n, least, most int) expectation {
	e.kept, e.cut = t.first+n, t.starts[n]
	newest := len(w.logs[len(w.logs)-1].records)
	return e.with(CutRetired).drops(least+newest, most+newest)
}

// expectFiles is for whole files that are missing, or hold what another one does.
func (w *world) expectFiles(e expectation, f *fileTruth, d Damage) expectation {
	if d.Kind == RemoveFile {
		return w.expectRemoved(e, f)
	}
	// holds is which segment's content each segment file has; none is what a file
	// has that is no segment.
	holds, none := []int{0, 1, 2}, -1
	other, _ := w.file(d.Other)
	put := func(into, from *fileTruth) {
		switch {
		case into.kind != segmentFile:
		case from.kind != segmentFile:
			holds[into.place] = none
		default:
			holds[into.place] = from.place
		}
	}
	put(f, other)
	if d.Kind == SwapFiles {
		put(other, f)
	}
	newest := len(w.logs) - 1
	for place, content := range holds {
		// A file that is shorter than a header is what an unfinished roll leaves.
		if short := w.shortInto(f, other, d); content == none && place == newest && short >= 0 {
			return w.expectCut(e, &w.logs[place], short)
		}
		if content == none || place > 0 && content != holds[place-1]+1 {
			e.place = place
			return e.with(RefusedAtOpen)
		}
	}
	return e.with(Whole)
}

// shortInto gives the size of what took a segment's place, if it is less than a header
// has; else -1.
func (w *world) shortInto(f, other *fileTruth, d Damage) int64 {
	from := other
	if f.kind != segmentFile && d.Kind == SwapFiles {
		from = f
	}
	if from.kind == segmentFile || from.size >= segment.HeaderSize {
		return -1
	}
	return from.size
}

// expectRemoved is for a file that is missing.
func (w *world) expectRemoved(e expectation, f *fileTruth) expectation {
	newest := len(w.logs) - 1
	switch {
	case f.kind != segmentFile:
		return e.with(Whole)
	case f.place == 0:
		e.from = w.logs[1].first
		e.kept = len(w.records) - e.from
		return e.with(StartsLater)
	case f.place < newest:
		// The next segment does not begin where the one before ends.
		e.place++
		return e.with(RefusedAtOpen)
	}
	e.kept = w.logs[newest].first
	if w.vouched(newest) > 0 {
		return e.with(EndsBelowMark)
	}
	return e.with(EndsUnvouched)
}

func allZero(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c != 0 })
}
