package segment

import (
	"io"
	"math"
)

// Damage is the first place at which a segment stops being a row of intact
// records, and what is known about the bytes from there on.
type Damage struct {
	// Position is where the damaged record starts.
	Position int64
	// Cause is what is wrong with it, site position included. A segment that
	// ends within a record is Truncated.
	Cause *Corruption
	// ClaimedEnd is where the damaged record claims to end, possibly past the
	// end of the file. When its header or its kind cannot be trusted it is
	// Position plus the size of a record header.
	ClaimedEnd int64
	// ZeroFrom is the start of the run of zero bytes that ends the file, but
	// no earlier than Position; the size when the file does not end in zero.
	ZeroFrom int64
	// IntactAfter is the number of intact records with higher offsets that
	// follow. A payload that itself holds records may be mistaken for some.
	IntactAfter uint64
}

// damaged records the damage at ValidEnd. h is the damaged record's header as
// far as its cause allows to trust it.
func (s *scanner) damaged(h RecordHeader, cause *Corruption) error {
	d := &Damage{Position: s.res.ValidEnd, Cause: cause, ClaimedEnd: s.res.ValidEnd + RecordHeaderSize}
	s.res.Damage = d
	resume := d.Position + 1
	switch cause.Kind {
	case RecordTooLarge:
		d.ClaimedEnd = d.Position + h.Size()
	case RecordChecksum, OffsetOutOfOrder, Truncated:
		// The length is trustworthy: everything up to there is the damaged
		// record's own. A header that is cut short claims nothing, and the
		// file has no room for another.
		if h != (RecordHeader{}) {
			d.ClaimedEnd = d.Position + h.Size()
		}
		resume = d.ClaimedEnd
	}
	if s.o.DamageOnly {
		return nil
	}
	var err error
	if d.ZeroFrom, err = zeroFrom(s.w, d.Position, s.res.Size); err != nil || s.res.NextOffset+1 == 0 {
		return err
	}
	d.IntactAfter, err = countIntact(s.w, resume, s.res.NextOffset+1)
	return err
}

// zeroFrom looks backwards from size for the last byte that is not zero. It
// reads through w's buffer, whose contents it replaces.
func zeroFrom(w *window, floor, size int64) (int64, error) {
	w.have = nil
	for end := size; end > floor; {
		start := max(floor, end-int64(len(w.buf)))
		b := w.buf[:end-start]
		if err := readFull(w.r, b, start); err != nil {
			return 0, err
		}
		if n := zeroTail(b); n > 0 {
			return start + int64(n), nil
		}
		end = start
	}
	return floor, nil
}

// Resync gives the position of the next intact record at or after from whose
// offset is at least minOffset. It is a search, not a walk: see seekRecord for
// what it takes for a record.
func Resync(r io.ReaderAt, from, size int64, minOffset uint64) (pos int64, found bool, err error) {
	return resync(r, from, size, minOffset, func(int64) uint64 { return math.MaxUint64 })
}

// ResyncNear is Resync for damage in the middle of a segment: offset next belongs
// at position damage, and every record that was lost since took up at least the
// bytes of a header. A record with a higher offset than leaves room for that is
// no record of this segment, but one that somebody keeps in a payload.
func ResyncNear(r io.ReaderAt, damage, from, size int64, next uint64) (pos int64, found bool, err error) {
	return resync(r, from, size, next, func(pos int64) uint64 {
		lost := uint64(max(0, pos-damage)) / RecordHeaderSize
		if next > math.MaxUint64-lost {
			return math.MaxUint64
		}
		return next + lost
	})
}

// resync searches; maxAt is the highest offset that a record at a position may
// have, and does not fall towards the end.
func resync(r io.ReaderAt, from, size int64, minOffset uint64, maxAt func(pos int64) uint64) (pos int64, found bool, err error) {
	w := newWindow(r, size, nil)
	for from = max(from, 0); ; {
		pos, h, found, err := seekRecord(w, from, minOffset, maxAt(size))
		if !found || err != nil {
			return 0, false, err
		}
		if h.Offset > maxAt(pos) {
			from = pos + 1
			continue
		}
		sum, err := w.checksum(pos, h)
		if err != nil {
			return 0, false, err
		}
		if sum == h.Checksum {
			return pos, true, nil
		}
		from = pos + h.Size()
	}
}
