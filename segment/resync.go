package segment

import "encoding/binary"

// countIntact counts the intact records from pos to the window's end with
// offsets of at least minOffset, each higher than the one before. pos lies past
// the place where minOffset would belong.
//
// Where a record header verifies, the next record is expected at its end;
// where none does, the search goes on byte by byte. Every byte is so looked at
// once as a possible start and checksummed at most once as part of a record,
// beside 20 bytes for each position that holds a plausible offset: the work is
// proportional to the bytes, whatever they are.
func countIntact(w *window, pos int64, minOffset uint64) (intact uint64, err error) {
	// Where records were lost, each took up some of the bytes.
	maxOffset := minOffset + uint64(max(w.end-pos, 0))/RecordHeaderSize
	for pos < w.end {
		h, _, damage, err := w.header(pos)
		if err != nil {
			return intact, err
		}
		if damage != nil {
			if damage.Kind == Truncated {
				return intact, nil
			}
			var found bool
			if pos, h, found, err = seekRecord(w, pos+1, minOffset, maxOffset); err != nil || !found {
				return intact, err
			}
		}
		sum, err := w.checksum(pos, h)
		if err != nil {
			return intact, err
		}
		if sum == h.Checksum && h.Offset >= minOffset {
			intact++
			if minOffset = h.Offset + 1; minOffset == 0 {
				return intact, nil
			}
		}
		pos += h.Size()
	}
	return intact, nil
}

// seekRecord looks byte by byte, from pos on, for a record header that verifies,
// whose record ends before the window does, and whose offset lies between
// minOffset and maxOffset: the closer they are, the fewer places need a
// checksum. The payload is not checked.
func seekRecord(w *window, pos int64, minOffset, maxOffset uint64) (int64, RecordHeader, bool, error) {
	for pos <= w.end-RecordHeaderSize {
		b, err := w.need(pos, RecordHeaderSize)
		if err != nil {
			return 0, RecordHeader{}, false, err
		}
		for i := 0; i+RecordHeaderSize <= len(b); i++ {
			if binary.BigEndian.Uint64(b[i+recordAtOffset:])-minOffset > maxOffset-minOffset {
				continue
			}
			h, verdict := parseRecordHeader(b[i:])
			if at := pos + int64(i); verdict == 0 && h.Size() <= w.end-at {
				return at, h, true, nil
			}
		}
		pos += int64(len(b) - RecordHeaderSize + 1)
	}
	return 0, RecordHeader{}, false, nil
}
