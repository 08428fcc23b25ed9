package segment

import (
	"errors"
	"io"
	"math"
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
// before. Payloads alias pages of at most 1 MiB or one record, which belong to the
// result alone unless the budget brought them.
//
// next is the offset to go on at, full says that the budget ended the read.
// Damage is a *Corruption with its position; out and next then hold what came
// before it.
func ReadRecords(r io.ReaderAt, pos, end int64, from uint64, budget *Budget, dst []Record) (out []Record, next uint64, full bool, err error) {
	pos = startAt(pos, end)
	before := *budget
	rd := newReader(r, pos, end, from, budget, dst)
	full, err = rd.walk()
	var c *Corruption
	if errors.As(err, &c) && pos > HeaderSize && len(rd.out) == len(dst) {
		*budget = before
		rd = newReader(r, HeaderSize, end, from, budget, dst)
		full, err = rd.walk()
	}
	return rd.out, rd.next, full, err
}

// startAt takes a hint that no record can start at for no hint at all. One at
// the very end would otherwise make a read come back empty without a look at
// anything.
func startAt(pos, end int64) int64 {
	if pos < HeaderSize || pos >= end {
		return HeaderSize
	}
	return pos
}

type reader struct {
	w      window
	pos    int64
	from   uint64
	budget *Budget
	out    []Record
	// next is the offset to return next. While nothing was, it is from.
	next uint64
	// taken says that records taken alias the window's memory.
	taken bool
}

func newReader(r io.ReaderAt, pos, end int64, from uint64, budget *Budget, dst []Record) *reader {
	return &reader{w: window{r: r, end: end}, pos: pos, from: from, budget: budget, out: dst, next: from}
}

// walk steps over the records before from and takes those after it.
func (rd *reader) walk() (full bool, err error) {
	if err := rd.skip(); err != nil {
		return false, err
	}
	for rd.pos < rd.w.end {
		if full := rd.buffered(); full || rd.pos == rd.w.end {
			return full, nil
		}
		h, b, err := rd.header()
		if err != nil {
			return false, err
		}
		if !rd.budget.Admit(int64(h.PayloadLen)) {
			return true, nil
		}
		if err := rd.take(h, b); err != nil {
			return false, err
		}
	}
	return false, nil
}

// skip steps to the first record that is not before from.
func (rd *reader) skip() error {
	for first, expected := true, uint64(0); rd.pos < rd.w.end && rd.budget.Records > 0; first = false {
		h, _, err := rd.header()
		if err != nil || h.Offset >= rd.from {
			return err
		}
		if !first {
			if damage := checkOffset(rd.pos, expected, h.Offset); damage != nil {
				return damage
			}
		}
		expected = h.Offset + 1
		rd.pos += h.Size()
	}
	return nil
}

// header gives the header at pos and the bytes in memory from there on.
func (rd *reader) header() (RecordHeader, []byte, error) {
	if len(rd.w.at(rd.pos)) < RecordHeaderSize {
		rd.makeRoom(RecordHeaderSize)
	}
	h, b, damage, err := rd.w.header(rd.pos)
	if err == nil && damage != nil {
		err = damage
	}
	return h, b, err
}

// buffered takes the intact records that are in memory whole, until the budget
// ends. It judges nothing: the first record that is not is left to take.
func (rd *reader) buffered() (full bool) {
	b := rd.w.at(rd.pos)
	for len(b) >= RecordHeaderSize {
		h, verdict := parseRecordHeader(b)
		size := h.Size()
		if verdict != 0 || size > int64(len(b)) || recordChecksum(b[:size]) != h.Checksum ||
			h.Offset != rd.next || h.Offset == math.MaxUint64 {
			return false
		}
		if !rd.budget.Admit(int64(h.PayloadLen)) {
			return true
		}
		rd.append(h, b, size)
		b = b[size:]
	}
	return false
}

// take verifies the record at pos and appends it. b is what is in memory of it.
func (rd *reader) take(h RecordHeader, b []byte) error {
	size := h.Size()
	if size > int64(len(b)) {
		rd.makeRoom(size)
		var err error
		if b, err = rd.w.fill(rd.pos); err != nil {
			return err
		}
	}
	if sum := recordChecksum(b[:size]); sum != h.Checksum {
		return corruptionAt(rd.pos, RecordChecksum, uint64(h.Checksum), uint64(sum))
	}
	if damage := checkOffset(rd.pos, rd.next, h.Offset); damage != nil {
		return damage
	}
	rd.append(h, b, size)
	return nil
}

// append adds the verified record of size bytes that b starts with.
func (rd *reader) append(h RecordHeader, b []byte, size int64) {
	if len(rd.out) == cap(rd.out) {
		// Records of one log are mostly alike: make room for as many as are
		// in memory of the size at hand.
		more := min(int64(len(b))/size, int64(rd.budget.Records)+1)
		rd.out = slices.Grow(rd.out, int(more))
	}
	rd.out = append(rd.out, assemble(h, b[:size]))
	rd.next = h.Offset + 1
	rd.pos += size
	rd.taken = true
}

// makeRoom lets the window read at least need bytes from pos on, as far as they
// exist: into the memory it has, unless that is too small or belongs to records
// that were taken out of it.
func (rd *reader) makeRoom(need int64) {
	left := rd.w.end - rd.pos
	need = min(need, left)
	if rd.taken || int64(len(rd.w.buf)) < need {
		rd.w.buf, rd.taken = rd.budget.page(need, left), false
	}
}
