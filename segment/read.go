package segment

import (
	"errors"
	"io"
	"slices"
)

// ReadRecords appends to dst the records at offset from and after that lie
// between pos and end, as far as the budget goes.
//
// pos is a place to start looking, usually from an index: when the bytes there
// are not a record at or before from, the walk is repeated from the segment's
// first record before anything is called damaged. end is a record boundary, the
// number of bytes published. Records before from are stepped over by their
// headers; every record returned was verified, and its offset follows the one
// before. Payloads alias pages that belong to the result alone, of at most
// 1 MiB or one record.
//
// next is the offset to go on at, full says that the budget ended the read.
// Damage is a *Corruption with its position; out and next then hold what came
// before it.
func ReadRecords(r io.ReaderAt, pos, end int64, from uint64, budget *Budget, dst []Record) (out []Record, next uint64, full bool, err error) {
	before := *budget
	rd := reader{w: window{r: r, end: end}, budget: budget, out: dst, next: from}
	full, err = rd.walk(pos, from)
	var c *Corruption
	if errors.As(err, &c) && pos > HeaderSize && len(rd.out) == len(dst) {
		*budget = before
		rd = reader{w: window{r: r, end: end}, budget: budget, out: dst, next: from}
		full, err = rd.walk(HeaderSize, from)
	}
	return rd.out, rd.next, full, err
}

type reader struct {
	w      window
	budget *Budget
	out    []Record
	next   uint64
}

// walk steps over the records before from and takes those after it.
func (rd *reader) walk(pos int64, from uint64) (full bool, err error) {
	var expected uint64
	for first := true; pos < rd.w.end; first = false {
		if rd.budget.Records <= 0 {
			return true, nil
		}
		if len(rd.w.at(pos)) < RecordHeaderSize {
			rd.turnPage(pos, RecordHeaderSize)
		}
		h, b, damage, err := rd.w.header(pos)
		if err != nil {
			return false, err
		}
		if damage != nil {
			return false, damage
		}
		if first {
			expected = min(h.Offset, from)
		}
		if h.Offset < from {
			if damage := checkOffset(pos, expected, h.Offset); damage != nil {
				return false, damage
			}
			expected, pos = h.Offset+1, pos+h.Size()
			continue
		}
		if !rd.budget.Admit(int64(h.PayloadLen)) {
			return true, nil
		}
		if err := rd.take(pos, expected, h, b); err != nil {
			return false, err
		}
		expected, pos = h.Offset+1, pos+h.Size()
	}
	return false, nil
}

// take verifies the record at pos and appends it. b is what is in memory of it.
func (rd *reader) take(pos int64, expected uint64, h RecordHeader, b []byte) error {
	size := h.Size()
	if size > int64(len(b)) {
		rd.turnPage(pos, size)
		var err error
		if b, err = rd.w.fill(pos); err != nil {
			return err
		}
	}
	b = b[:size]
	if sum := recordChecksum(b); sum != h.Checksum {
		return corruptionAt(pos, RecordChecksum, uint64(h.Checksum), uint64(sum))
	}
	if damage := checkOffset(pos, expected, h.Offset); damage != nil {
		return damage
	}
	if len(rd.out) == cap(rd.out) {
		// Records of one log are mostly alike: make room for as many as this
		// page holds of the size at hand.
		inPage := min(int64(len(rd.w.at(pos)))/size, int64(rd.budget.Records)+1)
		rd.out = slices.Grow(rd.out, int(max(inPage, 1)))
	}
	rd.out = append(rd.out, assemble(h, b))
	rd.next = h.Offset + 1
	return nil
}

// turnPage gives the window new memory for at least need bytes from pos on,
// which are known to exist. The old page belongs to the records that were taken
// out of it.
func (rd *reader) turnPage(pos, need int64) {
	size := max(need, min(rd.budget.pageBytes(), rd.w.end-pos))
	rd.w.buf = make([]byte, size)
}
