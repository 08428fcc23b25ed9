package journal

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"felix.local/felix/segment"
)

// Where the fields of an entry stand. The shard's name and the record bytes
// follow.
const (
	entryAtKind       = 0
	entryAtReserved   = 1
	entryAtShardBytes = 2
	entryAtBytes      = 4
	entryAtSegment    = 8
	entryAtBase       = 16
	entryAtPosition   = 24
	entryAtFirst      = 32
	entryAtLast       = 40
	entryAtHeaderCRC  = 48
)

// Kind says what an entry is.
type Kind uint8

// The kinds.
const (
	// Data is records of a shard.
	Data Kind = iota + 1
	// Fence says that nothing in older frames, nor earlier in its own frame, is
	// for the segments of this shard up to one.
	Fence
)

// AllSegments in a fence is every segment of the shard, those to come included.
const AllSegments = math.MaxUint64

// String gives the kind's name.
func (k Kind) String() string {
	switch k {
	case Data:
		return "data"
	case Fence:
		return "fence"
	default:
		return fmt.Sprintf("kind %d", uint8(k))
	}
}

// Entry is what a frame holds for one shard. A fence has a shard and a segment
// and nothing else.
type Entry struct {
	Kind Kind
	// Shard is the shard's directory below the root.
	Shard string
	// Segment is the id of the segment that the bytes belong into; in a fence that
	// of the last segment it is about, or AllSegments. BaseOffset is the segment's
	// base offset and HeaderCRC the Checksum of its segment.HeaderSize header
	// bytes: a segment that was made anew under the same id is another one.
	Segment    uint64
	BaseOffset uint64
	HeaderCRC  uint32
	// Position is where Bytes go in the segment.
	Position int64
	// First and Last are the offsets of the first and the last record in Bytes.
	First, Last uint64
	// Bytes are whole records, exactly as the segment is to hold them.
	Bytes []byte
}

// End is the position one past Bytes in the segment.
func (e *Entry) End() int64 { return e.Position + int64(len(e.Bytes)) }

// EncodedBytes is the number of bytes that AppendEntry appends.
func (e *Entry) EncodedBytes() int { return EntryHeaderBytes + len(e.Shard) + len(e.Bytes) }

// AppendEntry appends an entry to a frame that is being built. An entry that
// Decode would not take is a bug of the caller and panics.
func AppendEntry(dst []byte, e *Entry) []byte {
	if err := e.validate(); err != nil {
		panic("journal: " + err.Error())
	}
	dst = append(dst, byte(e.Kind), 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(e.Shard)))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(e.Bytes)))
	dst = binary.BigEndian.AppendUint64(dst, e.Segment)
	dst = binary.BigEndian.AppendUint64(dst, e.BaseOffset)
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.Position))
	dst = binary.BigEndian.AppendUint64(dst, e.First)
	dst = binary.BigEndian.AppendUint64(dst, e.Last)
	dst = binary.BigEndian.AppendUint32(dst, e.HeaderCRC)
	dst = append(dst, e.Shard...)
	return append(dst, e.Bytes...)
}

// decodeEntry reads the entry that b starts with and gives what follows it. Its
// bytes are shared with b.
func decodeEntry(b []byte) (Entry, []byte, error) {
	if len(b) < EntryHeaderBytes {
		return Entry{}, nil, impossible("%d bytes are left, an entry takes %d", len(b), EntryHeaderBytes)
	}
	shard := int(binary.BigEndian.Uint16(b[entryAtShardBytes:]))
	// Compared as 64 bits: a length of 32 may be negative as an int.
	bytes := int64(binary.BigEndian.Uint32(b[entryAtBytes:]))
	rest := b[EntryHeaderBytes:]
	if int64(shard)+bytes > int64(len(rest)) {
		return Entry{}, nil, impossible("an entry of %d bytes, %d are left", int64(shard)+bytes, len(rest))
	}
	if b[entryAtReserved] != 0 {
		return Entry{}, nil, impossible("the reserved byte of an entry is %d", b[entryAtReserved])
	}
	e := Entry{
		Kind:       Kind(b[entryAtKind]),
		Shard:      string(rest[:min(shard, ShardBytesMax+1)]),
		Segment:    binary.BigEndian.Uint64(b[entryAtSegment:]),
		BaseOffset: binary.BigEndian.Uint64(b[entryAtBase:]),
		HeaderCRC:  binary.BigEndian.Uint32(b[entryAtHeaderCRC:]),
		Position:   int64(binary.BigEndian.Uint64(b[entryAtPosition:])),
		First:      binary.BigEndian.Uint64(b[entryAtFirst:]),
		Last:       binary.BigEndian.Uint64(b[entryAtLast:]),
	}
	rest = rest[shard:]
	if bytes > 0 {
		e.Bytes = rest[:bytes:bytes]
	}
	if err := e.validate(); err != nil {
		return Entry{}, nil, err
	}
	return e, rest[bytes:], nil
}

// validate gives the first field that means nothing, as a *Corruption.
func (e *Entry) validate() error {
	if !possibleShard(e.Shard) {
		return impossible("%q is no name of a shard's directory", e.Shard)
	}
	switch e.Kind {
	case Data:
		return e.validateData()
	case Fence:
		if e.BaseOffset != 0 || e.HeaderCRC != 0 || e.Position != 0 || e.First != 0 || e.Last != 0 || len(e.Bytes) != 0 {
			return impossible("a fence of shard %s with more than a segment", e.Shard)
		}
		return nil
	default:
		return impossible("entry kind %d", uint8(e.Kind))
	}
}

func (e *Entry) validateData() error {
	n := int64(len(e.Bytes))
	switch {
	case n == 0:
		return impossible("an entry of shard %s without bytes", e.Shard)
	case n > FrameBytesMax:
		return impossible("an entry of shard %s with %d bytes", e.Shard, n)
	case e.Position < segment.HeaderSize || e.Position > math.MaxInt64-n:
		return impossible("an entry of shard %s at position %d", e.Shard, e.Position)
	case e.First < e.BaseOffset || e.Last < e.First || e.Last == math.MaxUint64:
		return impossible("an entry of shard %s with offsets %d to %d in a segment that begins at %d", e.Shard, e.First, e.Last, e.BaseOffset)
	case e.Last-e.First >= uint64(n)/segment.RecordHeaderSize:
		return impossible("an entry of shard %s with offsets %d to %d in %d bytes", e.Shard, e.First, e.Last, n)
	}
	return nil
}

// possibleShard holds names to one element of a path: they are joined with the
// root, and what they lead to is written.
func possibleShard(name string) bool {
	return name != "" && len(name) <= ShardBytesMax && name != "." && name != ".." && name != DirName && !strings.ContainsAny(name, "/\x00")
}
