package segment

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// DefaultBufferBytes is what walks over a segment read at a time: large enough
// that system calls do not count, small enough to be checksummed from cache.
const DefaultBufferBytes = 256 << 10

// window is the part of a file that is in memory: the bytes from pos on, up to
// len(buf) of them, and none at or past end.
type window struct {
	r    io.ReaderAt
	end  int64
	buf  []byte
	pos  int64
	have []byte
}

// newWindow takes buf if it has room for any header, else allocates one that is
// no larger than the file.
func newWindow(r io.ReaderAt, end int64, buf []byte) *window {
	if len(buf) < minBufferBytes {
		buf = make([]byte, max(minBufferBytes, min(DefaultBufferBytes, end)))
	}
	return &window{r: r, end: end, buf: buf}
}

// minBufferBytes is the smallest buffer that a caller's is not replaced at.
const minBufferBytes = 4 << 10

// at gives the bytes in memory from pos on, possibly none.
func (w *window) at(pos int64) []byte {
	if i := pos - w.pos; i >= 0 && i < int64(len(w.have)) {
		return w.have[i:]
	}
	return nil
}

// need gives at least n bytes from pos on, reading when they are not in memory.
// The caller made sure that they exist and that buf has room for them.
func (w *window) need(pos int64, n int) ([]byte, error) {
	if b := w.at(pos); len(b) >= n {
		return b, nil
	}
	return w.fill(pos)
}

// fill makes the window start at pos and reads as much as there is room for.
// Bytes that are in memory already are moved, not read again.
func (w *window) fill(pos int64) ([]byte, error) {
	kept := copy(w.buf, w.at(pos))
	n := int(min(int64(len(w.buf)), w.end-pos))
	w.pos, w.have = pos, nil
	if err := readFull(w.r, w.buf[kept:n], pos+int64(kept)); err != nil {
		return nil, err
	}
	w.have = w.buf[:n]
	return w.have, nil
}

// header decodes the record header at pos, checks that the whole record lies
// before end, and gives the bytes in memory from pos on. The header comes with
// the damage too: for RecordTooLarge and for a record that runs past end it is
// still the one its CRC vouched for.
func (w *window) header(pos int64) (RecordHeader, []byte, *Corruption, error) {
	b := w.at(pos)
	if len(b) < RecordHeaderSize {
		if left := w.end - pos; left < RecordHeaderSize {
			return RecordHeader{}, nil, corruptionAt(pos, Truncated, RecordHeaderSize, uint64(max(left, 0))), nil
		}
		var err error
		if b, err = w.fill(pos); err != nil {
			return RecordHeader{}, nil, nil, err
		}
	}
	h, verdict := parseRecordHeader(b)
	if verdict != 0 {
		c := headerCorruption(b, verdict)
		c.setPosition(pos)
		return h, b, c, nil
	}
	if size := h.Size(); size > w.end-pos {
		return h, b, corruptionAt(pos, Truncated, uint64(size), uint64(w.end-pos)), nil
	}
	return h, b, nil, nil
}

// checksum computes the checksum of the record at pos, whose header h was
// verified and which lies before end. A record larger than the window passes
// through it piece by piece.
func (w *window) checksum(pos int64, h RecordHeader) (uint32, error) {
	b, err := w.need(pos, RecordHeaderSize)
	if err != nil {
		return 0, err
	}
	if size := h.Size(); size <= int64(len(b)) {
		return recordChecksum(b[:size]), nil
	}
	sum := prefixChecksum(b)
	end := pos + h.Size()
	for at := pos + RecordHeaderSize; at < end; {
		if b, err = w.need(at, 1); err != nil {
			return 0, err
		}
		b = b[:min(int64(len(b)), end-at)]
		sum = crc32.Update(sum, crc32.IEEETable, b)
		at += int64(len(b))
	}
	return sum, nil
}

func corruptionAt(pos int64, kind CorruptionKind, expected, found uint64) *Corruption {
	c := &Corruption{Kind: kind, Expected: expected, Found: found}
	c.setPosition(pos)
	return c
}

// checkOffset compares the offset of the record at pos with the one that belongs
// there. The very last offset is never right: the one after it, where the log
// would go on, could not be named.
func checkOffset(pos int64, expected, found uint64) *Corruption {
	if found == expected && found != math.MaxUint64 {
		return nil
	}
	return corruptionAt(pos, OffsetOutOfOrder, expected, found)
}

// readFull reads exactly len(b) bytes at pos. A file that is shorter than its
// size said is an I/O error, not a torn record: nothing may be cut because of it.
func readFull(r io.ReaderAt, b []byte, pos int64) error {
	if len(b) == 0 {
		return nil
	}
	n, err := r.ReadAt(b, pos)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %d bytes at position %d: got %d: %w", len(b), pos, n, err)
}
