package segment

import (
	"encoding/binary"
	"fmt"
	"io"
	"sort"
)

// IndexEntry says at which byte of a segment a record starts.
type IndexEntry struct {
	Offset   uint64
	Position int64
}

// IndexBuilder decides which records get an index entry. Append and rebuild use
// the same one, so both make the same index.
//
// The state is Since alone and may be carried across a reopen: with the value
// a scan ended with, the builder goes on as if the segment had never been
// closed.
type IndexBuilder struct {
	// Spacing is the number of segment bytes between entries.
	Spacing int64
	// Since is the number of bytes since the last indexed record started, that
	// record included. Zero says that there is no entry yet: once there is
	// one, Since is at least the size of a record.
	Since int64
}

// Observe takes note of the next record, size bytes long, and gives the entry
// to add for it, if it gets one.
func (b *IndexBuilder) Observe(offset uint64, position, size int64) (IndexEntry, bool) {
	emit := b.Since == 0 || b.Since >= b.Spacing
	if emit {
		b.Since = 0
	}
	b.Since += size
	return IndexEntry{Offset: offset, Position: position}, emit
}

// AppendIndexHeader appends the 24-byte header of the index of a segment that
// starts at base.
func AppendIndexHeader(dst []byte, base uint64) []byte {
	dst = binary.BigEndian.AppendUint32(dst, magicIndex)
	dst = binary.BigEndian.AppendUint16(dst, VersionIndex)
	dst = binary.BigEndian.AppendUint16(dst, 0)
	dst = binary.BigEndian.AppendUint64(dst, base)
	return binary.BigEndian.AppendUint64(dst, 0)
}

// AppendIndexEntry appends the 16 bytes of an entry.
func AppendIndexEntry(dst []byte, e IndexEntry) []byte {
	dst = binary.BigEndian.AppendUint64(dst, e.Offset)
	return binary.BigEndian.AppendUint64(dst, uint64(e.Position))
}

// EncodeIndex gives the bytes of a whole index file.
func EncodeIndex(base uint64, entries []IndexEntry) []byte {
	b := AppendIndexHeader(make([]byte, 0, IndexHeaderSize+IndexEntrySize*len(entries)), base)
	for _, e := range entries {
		b = AppendIndexEntry(b, e)
	}
	return b
}

// IndexBaseError says that an index belongs to another segment. Rebuild it.
type IndexBaseError struct {
	// Expected is the segment's base offset, Found the one in the index.
	Expected, Found uint64
}

// Error names both bases.
func (e *IndexBaseError) Error() string {
	return fmt.Sprintf("index belongs to a segment with base offset %d, not %d", e.Found, e.Expected)
}

// DecodeIndex reads the index of the segment that starts at base. A torn last
// entry is dropped, and so is every entry that points into the segment's header
// or does not ascend. The error is a *Corruption or an *IndexBaseError, and the
// answer to it is to rebuild the index from its segment.
func DecodeIndex(b []byte, base uint64) ([]IndexEntry, error) {
	if err := checkIndexHeader(b, base); err != nil {
		return nil, err
	}
	b = b[IndexHeaderSize:]
	entries := make([]IndexEntry, 0, len(b)/IndexEntrySize)
	for ; len(b) >= IndexEntrySize; b = b[IndexEntrySize:] {
		e := decodeIndexEntry(b)
		if e.Position < HeaderSize {
			continue
		}
		if n := len(entries); n > 0 && (e.Offset <= entries[n-1].Offset || e.Position <= entries[n-1].Position) {
			continue
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// checkIndexHeader leaves flags alone: nothing has ever been stored there.
func checkIndexHeader(b []byte, base uint64) error {
	if len(b) < IndexHeaderSize {
		return &Corruption{Kind: Truncated, Expected: IndexHeaderSize, Found: uint64(len(b))}
	}
	if magic := binary.BigEndian.Uint32(b); magic != magicIndex {
		return &Corruption{Kind: IndexMagic, Found: uint64(magic)}
	}
	if version := binary.BigEndian.Uint16(b[4:]); version < VersionOldest || version > VersionNewest {
		return &Corruption{Kind: IndexVersion, Found: uint64(version)}
	}
	if found := binary.BigEndian.Uint64(b[8:]); found != base {
		return &IndexBaseError{Expected: base, Found: found}
	}
	return nil
}

// decodeIndexEntry lets a position of 2^63 and more come out negative, which
// every reader drops as lying inside the header.
func decodeIndexEntry(b []byte) IndexEntry {
	return IndexEntry{Offset: binary.BigEndian.Uint64(b), Position: int64(binary.BigEndian.Uint64(b[8:]))}
}

// Seek gives the position to start looking for offset: that of the last entry
// at or before it, or of the segment's first record.
func Seek(entries []IndexEntry, offset uint64) int64 {
	after := sort.Search(len(entries), func(i int) bool { return entries[i].Offset > offset })
	if after == 0 {
		return HeaderSize
	}
	return entries[after-1].Position
}

// ReadLastIndexEntry reads only the last whole entry of an index file of size
// bytes. ok is false when there is none, the index is not one of the segment
// that starts at base, or the entry points into the segment's header.
func ReadLastIndexEntry(r io.ReaderAt, size int64, base uint64) (e IndexEntry, ok bool) {
	whole := (size - IndexHeaderSize) / IndexEntrySize
	if whole < 1 {
		return IndexEntry{}, false
	}
	var b [IndexHeaderSize]byte
	if readFull(r, b[:], 0) != nil || checkIndexHeader(b[:], base) != nil {
		return IndexEntry{}, false
	}
	last := b[:IndexEntrySize]
	if readFull(r, last, IndexHeaderSize+(whole-1)*IndexEntrySize) != nil {
		return IndexEntry{}, false
	}
	e = decodeIndexEntry(last)
	return e, e.Position >= HeaderSize
}
