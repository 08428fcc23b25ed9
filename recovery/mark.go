package recovery

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"felix.local/felix/segment"
)

// MarkName is the file in a shard directory that says how far the log is known
// to be on the device.
const MarkName = "durable.mark"

// MarkBytes is the size of an encoded Mark.
const MarkBytes = 32

const (
	markMagic   = 0x464C534D // "FLSM"
	markVersion = 1
	markCovered = 24 // bytes in front of the checksum, which covers them
)

// Mark says: every segment with a smaller id was sealed and is wholly synced,
// Segment is synced through Synced bytes, and later segments are not known to be
// synced at all. It may lag behind the truth and never leads it.
type Mark struct {
	Segment uint64 `json:"segment"`
	// Synced is a byte position: the length of Segment known to be on the device.
	Synced int64 `json:"synced"`
}

// AppendTo appends the 32 bytes of the file.
func (m Mark) AppendTo(dst []byte) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, markMagic)
	dst = binary.BigEndian.AppendUint16(dst, markVersion)
	dst = binary.BigEndian.AppendUint16(dst, 0)
	dst = binary.BigEndian.AppendUint64(dst, m.Segment)
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.Synced))
	dst = binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[start:start+markCovered]))
	return binary.BigEndian.AppendUint32(dst, 0)
}

// DecodeMark reads a mark. Bytes past the first 32 are ignored. Anything that is
// not a whole, intact mark counts as no mark: the strict rules apply then, and
// damage to this file never fails an open.
func DecodeMark(b []byte) (Mark, bool) {
	if len(b) < MarkBytes ||
		binary.BigEndian.Uint32(b) != markMagic ||
		binary.BigEndian.Uint16(b[4:]) != markVersion ||
		binary.BigEndian.Uint32(b[markCovered:]) != crc32.ChecksumIEEE(b[:markCovered]) {
		return Mark{}, false
	}
	synced := binary.BigEndian.Uint64(b[16:])
	if synced > math.MaxInt64 {
		return Mark{}, false
	}
	return Mark{Segment: binary.BigEndian.Uint64(b[8:]), Synced: int64(synced)}, true
}

// UnsyncedFrom is the position in segment id from which damage may be an
// unfinished write. possible is false when nowhere in that segment it may.
func (m Mark) UnsyncedFrom(id uint64) (position int64, possible bool) {
	switch {
	case id < m.Segment:
		return 0, false
	case id == m.Segment:
		return max(m.Synced, segment.HeaderSize), true
	default:
		return segment.HeaderSize, true
	}
}

// SyncedThrough is how many bytes of segment id the mark vouches for;
// math.MaxInt64 stands for the whole file, however long it was.
func (m Mark) SyncedThrough(id uint64) int64 {
	switch {
	case id < m.Segment:
		return math.MaxInt64
	case id == m.Segment:
		return m.Synced
	default:
		return 0
	}
}

// evidence is what a directory's mark, if it has one, lets recovery assume.
type evidence struct{ mark *Mark }

// unsyncedFrom follows Mark.UnsyncedFrom; without a mark nothing is known to be
// unsynced.
func (e evidence) unsyncedFrom(id uint64) (position int64, possible bool) {
	if e.mark == nil {
		return 0, false
	}
	return e.mark.UnsyncedFrom(id)
}

// syncedThrough follows Mark.SyncedThrough; without a mark nothing is vouched
// for.
func (e evidence) syncedThrough(id uint64) int64 {
	if e.mark == nil {
		return 0
	}
	return e.mark.SyncedThrough(id)
}

// unsynced reports that the mark proves the bytes from position on were never
// known to be on the device.
func (e evidence) unsynced(id uint64, position int64) bool {
	from, possible := e.unsyncedFrom(id)
	return possible && position >= from
}

// nothingSynced reports that the mark proves that not even the header of segment
// id was known to be on the device.
func (e evidence) nothingSynced(id uint64) bool {
	return e.mark != nil && e.mark.SyncedThrough(id) < segment.HeaderSize
}
