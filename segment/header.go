package segment

import (
	"encoding/binary"
	"hash/crc32"
)

// Where the fields of a segment header stand.
const (
	headerAtVersion = 4
	headerAtFlags   = 6
	headerAtBase    = 8
	headerAtCreated = 16
	headerAtCRC     = 24
)

// Header is the start of a segment file.
type Header struct {
	// Version is the format version, which says what records may follow.
	Version uint16
	// BaseOffset is the offset of the first record, present or to come.
	BaseOffset uint64
	// CreatedAtMicros is wall clock at creation, in microseconds since 1970.
	CreatedAtMicros uint64
}

// AppendTo appends the header's 32 bytes to dst.
func (h Header) AppendTo(dst []byte) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, magicSegment)
	dst = binary.BigEndian.AppendUint16(dst, h.Version)
	dst = binary.BigEndian.AppendUint16(dst, 0)
	dst = binary.BigEndian.AppendUint64(dst, h.BaseOffset)
	dst = binary.BigEndian.AppendUint64(dst, h.CreatedAtMicros)
	dst = binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[start:start+headerAtCRC]))
	return binary.BigEndian.AppendUint32(dst, 0)
}

// DecodeHeader reads the header that b starts with. The error is a *Corruption;
// checks run in the order length, magic, version, flags, CRC, so that a file of
// another version says so even though its checksum is unknown territory.
func DecodeHeader(b []byte) (Header, error) {
	if len(b) < HeaderSize {
		return Header{}, &Corruption{Kind: Truncated, Expected: HeaderSize, Found: uint64(len(b))}
	}
	if magic := binary.BigEndian.Uint32(b); magic != magicSegment {
		return Header{}, &Corruption{Kind: SegmentMagic, Found: uint64(magic)}
	}
	version := binary.BigEndian.Uint16(b[headerAtVersion:])
	if version < VersionOldest || version > VersionNewest {
		return Header{}, &Corruption{Kind: SegmentVersion, Found: uint64(version)}
	}
	if flags := binary.BigEndian.Uint16(b[headerAtFlags:]); flags != 0 {
		return Header{}, &Corruption{Kind: SegmentFlags, Found: uint64(flags)}
	}
	stored, computed := binary.BigEndian.Uint32(b[headerAtCRC:]), crc32.ChecksumIEEE(b[:headerAtCRC])
	if stored != computed {
		return Header{}, &Corruption{Kind: SegmentHeaderChecksum, Expected: uint64(stored), Found: uint64(computed)}
	}
	return Header{
		Version:         version,
		BaseOffset:      binary.BigEndian.Uint64(b[headerAtBase:]),
		CreatedAtMicros: binary.BigEndian.Uint64(b[headerAtCreated:]),
	}, nil
}

// HeaderBlank says whether a file that starts with b never got a header: it is
// shorter than one, or its first 32 bytes are all zero.
func HeaderBlank(b []byte) bool {
	return len(b) < HeaderSize || zeroTail(b[:HeaderSize]) == 0
}

// zeroTail gives the index at which the run of zero bytes ending b starts;
// len(b) when b does not end in zero.
func zeroTail(b []byte) int {
	n := len(b)
	for n >= 8 && binary.LittleEndian.Uint64(b[n-8:]) == 0 {
		n -= 8
	}
	for n > 0 && b[n-1] == 0 {
		n--
	}
	return n
}
