package segment

import (
	"fmt"
	"strings"
)

// CorruptionKind says what is wrong with bytes that were read.
type CorruptionKind uint8

// The kinds. Beside each stands what Expected and Found of a Corruption hold; a
// field that is not named is zero.
const (
	// SegmentMagic: found magic.
	SegmentMagic CorruptionKind = iota + 1
	// SegmentVersion: found version.
	SegmentVersion
	// SegmentFlags: found flags.
	SegmentFlags
	// SegmentHeaderChecksum: expected is stored, found is computed.
	SegmentHeaderChecksum
	// IndexMagic: found magic.
	IndexMagic
	// IndexVersion: found version.
	IndexVersion
	// Truncated: expected bytes are needed, found bytes are available.
	Truncated
	// RecordChecksum: expected is stored, found is computed.
	RecordChecksum
	// RecordHeaderChecksum: expected is stored, found is computed.
	RecordHeaderChecksum
	// RecordTooLarge: expected is the limit, found the payload length.
	RecordTooLarge
	// RecordFlags: found is the whole word with the kind bits and the length.
	RecordFlags
	// OffsetOutOfOrder: expected is the offset that belongs there, found the
	// one that is there. Both are equal only for the last 64-bit offset.
	OffsetOutOfOrder
)

var kindNames = [...]string{
	"none", "segment magic", "segment version", "segment flags", "segment header checksum",
	"index magic", "index version", "truncated", "record checksum", "record header checksum",
	"record too large", "record flags", "offset out of order",
}

// String gives the kind's name.
func (k CorruptionKind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("corruption kind %d", uint8(k))
}

// Site is where bytes were found wrong, as far as it is known.
type Site struct {
	// Shard is the log's label; empty when unknown.
	Shard string
	// Segment is the segment's id, if HasSegment.
	Segment    uint64
	HasSegment bool
	// Position is a byte position in the file, if HasPosition.
	Position    int64
	HasPosition bool
}

// String renders the known parts in the order shard, segment, position.
func (s Site) String() string {
	var parts []string
	if s.Shard != "" {
		parts = append(parts, "shard "+s.Shard)
	}
	if s.HasSegment {
		parts = append(parts, fmt.Sprintf("segment %d", s.Segment))
	}
	if s.HasPosition {
		parts = append(parts, fmt.Sprintf("position %d", s.Position))
	}
	return strings.Join(parts, ", ")
}

// Corruption is bytes that are not what they have to be. Find one in an error
// with errors.As.
type Corruption struct {
	Kind            CorruptionKind
	Expected, Found uint64
	Site            Site
}

// Error renders the kind with its values, then the known parts of the site in
// parentheses.
func (c *Corruption) Error() string {
	text := c.text()
	if site := c.Site.String(); site != "" {
		return text + " (" + site + ")"
	}
	return text
}

func (c *Corruption) text() string {
	switch c.Kind {
	case SegmentMagic:
		return fmt.Sprintf("not a segment file: magic 0x%08x", c.Found)
	case SegmentVersion:
		return fmt.Sprintf("segment version %d is not supported, %d to %d are", c.Found, VersionOldest, VersionNewest)
	case SegmentFlags:
		return fmt.Sprintf("unknown segment flags 0x%04x", c.Found)
	case SegmentHeaderChecksum:
		return fmt.Sprintf("segment header checksum mismatch: stored 0x%08x, computed 0x%08x", c.Expected, c.Found)
	case IndexMagic:
		return fmt.Sprintf("not an index file: magic 0x%08x", c.Found)
	case IndexVersion:
		return fmt.Sprintf("index version %d is not supported, %d to %d are", c.Found, VersionOldest, VersionNewest)
	case Truncated:
		return fmt.Sprintf("truncated: %d bytes needed, %d available", c.Expected, c.Found)
	case RecordChecksum:
		return fmt.Sprintf("record checksum mismatch: stored 0x%08x, computed 0x%08x", c.Expected, c.Found)
	case RecordHeaderChecksum:
		return fmt.Sprintf("record header checksum mismatch: stored 0x%08x, computed 0x%08x", c.Expected, c.Found)
	case RecordTooLarge:
		return fmt.Sprintf("record too large: payload of %d bytes, the limit is %d", c.Found, c.Expected)
	case RecordFlags:
		return fmt.Sprintf("record carries more than one kind: length word 0x%08x", c.Found)
	case OffsetOutOfOrder:
		if c.Expected == c.Found {
			return fmt.Sprintf("offset out of order: found %d, which nothing could follow", c.Found)
		}
		return fmt.Sprintf("offset out of order: expected %d, found %d", c.Expected, c.Found)
	default:
		return c.Kind.String()
	}
}

// At gives a copy with the site filled in where it is unknown: what was set
// closer to the damage wins. An empty shard and a negative position stand for
// unknown.
func (c *Corruption) At(shard string, segment uint64, position int64) *Corruption {
	filled := *c
	if filled.Site.Shard == "" {
		filled.Site.Shard = shard
	}
	if !filled.Site.HasSegment {
		filled.Site.Segment, filled.Site.HasSegment = segment, true
	}
	filled.setPosition(position)
	return &filled
}

func (c *Corruption) setPosition(position int64) {
	if !c.Site.HasPosition && position >= 0 {
		c.Site.Position, c.Site.HasPosition = position, true
	}
}
