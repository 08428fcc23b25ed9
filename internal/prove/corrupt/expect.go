package corrupt

import (
	"slices"

	"felix.local/felix/segment"
)

// expectation is what has to become of an image.
type expectation struct {
	verdicts []Verdict
	// place and position are what an error has to name.
	place    int
	position int64
	// kept is the number of records that a log opened short has left.
	kept int
	// cut is the position from which the segment at place is cut off, -1 when
	// nothing is; dropped is the number of intact records in what goes, of which
	// setAside are in the newest segment.
	cut               int64
	dropped, setAside int
}

func (e expectation) allows(v Verdict) bool { return slices.Contains(e.verdicts, v) }

// expect says what has to become of a damage, from the rules in docs/recovery.md.
func (w *world) expect(f *fileTruth, d Damage) expectation {
	e := expectation{place: f.place, kept: len(w.records), cut: -1}
	t := &w.logs[f.place]
	switch {
	case f.kind != segmentFile:
		// An index is rebuilt, and a damaged mark is none, which an undamaged
		// log does not need.
		return e.with(Whole)
	case d.cuts():
		return w.expectCut(e, t, d.Position)
	case d.Position >= reservedAt && d.Position < segment.HeaderSize:
		return e.with(Whole)
	case d.Position < segment.HeaderSize:
		return e.with(RefusedAtOpen)
	default:
		return w.expectFlip(e, t, d)
	}
}

// reservedAt is where the header's last four bytes are, which nothing checks.
const reservedAt = 28

func (e expectation) with(v ...Verdict) expectation {
	e.verdicts = v
	return e
}

// expectFlip is for a bit of a record.
func (w *world) expectFlip(e expectation, t *segmentTruth, d Damage) expectation {
	n := t.holding(d.Position)
	e.position = t.starts[n]
	newest := len(w.logs) - 1
	past := w.mark != nil && e.position >= w.vouched(e.place)
	switch {
	case e.place == newest && (past || w.mark == nil && zerosBehind(t, n, d)):
		e.kept, e.cut, e.dropped = t.first+n, e.position, len(t.records)-n-1
		if past {
			return e.with(CutPastMark)
		}
		return e.with(CutZeros)
	case e.place == newest:
		return e.with(RefusedAtOpen)
	case past:
		return w.retired(e, t, n, len(t.records)-n-1)
	case w.o.VerifyAll:
		return e.with(RefusedAtOpen)
	default:
		return e.with(RefusedAtOpen, RefusedAtRead)
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
		e = w.retired(e, t, n, 0)
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
// and all behind it go, with after intact ones in the same segment and all in
// the newest.
func (w *world) retired(e expectation, t *segmentTruth, n, after int) expectation {
	e.kept, e.cut = t.first+n, t.starts[n]
	e.setAside = len(w.logs[len(w.logs)-1].records)
	e.dropped = after + e.setAside
	return e.with(CutRetired)
}

// zerosBehind says whether a segment whose record n has a bit flipped reads, from
// that record on, as blocks that were never written: zeros from a boundary of 512
// bytes within the record on to the end of the file. How long the record is, is
// known as long as its header is intact.
func zerosBehind(t *segmentTruth, n int, d Damage) bool {
	at := func(i int64) byte {
		if i == d.Position {
			return t.content[i] ^ 1<<d.Bit
		}
		return t.content[i]
	}
	zero := t.size()
	for zero > t.starts[n] && at(zero-1) == 0 {
		zero--
	}
	if zero == t.size() {
		return false
	}
	const sector = 512
	boundary := (zero + sector - 1) / sector * sector
	end := t.starts[n] + segment.RecordHeaderSize
	if d.Position >= t.starts[n]+checksumAt {
		end = t.starts[n+1]
	}
	return boundary < min(end, t.size())
}

// checksumAt is where the record's own checksum begins, behind what the header's
// covers and its checksum itself.
const checksumAt = 24
