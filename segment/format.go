package segment

// Sizes of the fixed parts, in bytes.
const (
	HeaderSize       = 32
	RecordHeaderSize = 28
	TagSize          = 20
	IndexHeaderSize  = 24
	IndexEntrySize   = 16
)

// MaxPayloadBytes is the largest payload a record may have. Equal is allowed.
const MaxPayloadBytes = 64 << 20

// MaxRecordBytes is the largest a record may be on disk.
const MaxRecordBytes = RecordHeaderSize + TagSize + MaxPayloadBytes

// Versions of the format. Segments from VersionOldest to VersionNewest are read.
const (
	VersionOldest = 2
	// VersionDefault is what a new segment is written at unless a record it is
	// to hold needs more.
	VersionDefault = 3
	VersionNewest  = 4
	// VersionIndex is the version written into every index, whatever the
	// version of its segment.
	VersionIndex = 3
)

const (
	magicSegment = 0x464C5347 // "FLSG"
	magicIndex   = 0x464C5349 // "FLSI"
)
