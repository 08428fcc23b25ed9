package segment

import (
	"errors"
	"hash/crc32"
	"io"
)

// FindPosition gives the position of the record at offset, walking headers from
// pos to end. The offset one past the last record is found at end.
//
// As with ReadRecords, pos is a place to start looking and end a record
// boundary. An offset that is not in between is OffsetOutOfOrder.
func FindPosition(r io.ReaderAt, pos, end int64, offset uint64) (int64, error) {
	pos = startAt(pos, end)
	at, err := findFrom(r, pos, end, offset)
	var c *Corruption
	if errors.As(err, &c) && pos > HeaderSize {
		return findFrom(r, HeaderSize, end, offset)
	}
	return at, err
}

func findFrom(r io.ReaderAt, pos, end int64, offset uint64) (int64, error) {
	w := walker{w: newWindow(r, end, nil), pos: pos}
	for w.pos < end {
		at := w.pos
		h, err := w.step()
		if err != nil {
			return 0, err
		}
		if h.Offset == offset {
			return at, nil
		}
		if h.Offset > offset {
			return 0, corruptionAt(at, OffsetOutOfOrder, offset, h.Offset)
		}
	}
	if w.walked && w.next != offset {
		return 0, corruptionAt(end, OffsetOutOfOrder, offset, w.next)
	}
	return end, nil
}

// LastTimestamp gives the timestamp of a segment's last record, walking headers
// from an index entry to size. The zero entry walks from the first record. ok
// is false when there is no record.
func LastTimestamp(r io.ReaderAt, from IndexEntry, size int64) (timestampMicros uint64, ok bool, err error) {
	if from.Position > HeaderSize {
		w := walker{w: newWindow(r, size, nil), pos: from.Position, next: from.Offset, walked: true}
		last, any, err := w.last(size)
		if err == nil && any {
			return last.TimestampMicros, true, nil
		}
		var c *Corruption
		if err != nil && !errors.As(err, &c) {
			return 0, false, err
		}
	}
	w := walker{w: newWindow(r, size, nil), pos: HeaderSize}
	last, ok, err := w.last(size)
	return last.TimestampMicros, ok, err
}

// walker steps from header to header without looking at payloads.
type walker struct {
	w   *window
	pos int64
	// next is the offset that belongs at pos, if walked.
	next   uint64
	walked bool
}

// step verifies the header at pos and moves to the record after it.
func (w *walker) step() (RecordHeader, error) {
	h, _, damage, err := w.w.header(w.pos)
	if err != nil {
		return h, err
	}
	if !w.walked {
		w.next, w.walked = h.Offset, true
	}
	if damage == nil {
		damage = checkOffset(w.pos, w.next, h.Offset)
	}
	if damage != nil {
		return h, damage
	}
	w.next, w.pos = h.Offset+1, w.pos+h.Size()
	return h, nil
}

// last steps to the end and gives the last header.
func (w *walker) last(end int64) (last RecordHeader, any bool, err error) {
	for w.pos < end {
		if last, err = w.step(); err != nil {
			return RecordHeader{}, false, err
		}
		any = true
	}
	return last, any, nil
}

// Checksum is the CRC-32 over the first size bytes of a file, which is what
// sealing a segment reports.
func Checksum(r io.ReaderAt, size int64) (uint32, error) {
	w := newWindow(r, size, nil)
	var sum uint32
	for pos := int64(0); pos < size; {
		b, err := w.need(pos, 1)
		if err != nil {
			return 0, err
		}
		sum = crc32.Update(sum, crc32.IEEETable, b)
		pos += int64(len(b))
	}
	return sum, nil
}
