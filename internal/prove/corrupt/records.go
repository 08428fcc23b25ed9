package corrupt

import (
	"bytes"
	"fmt"

	"felix.local/felix/engine"
	"felix.local/felix/segment"
)

// zerosBytes is longer than a sector, so that a record of it could be taken for
// blocks that were never written.
const zerosBytes = 600

// payloadOf gives payloads of all the shapes that a reader of damaged bytes could
// stumble over.
func payloadOf(offset uint64) []byte {
	switch offset % 9 {
	case 1:
		return nil
	case 2:
		return make([]byte, 40)
	case 4: // a record in a record
		inner := []byte("inner")
		b := make([]byte, segment.EncodedSize(segment.Mark{}, len(inner)))
		segment.EncodeRecord(b, 0, 1, segment.Mark{}, inner)
		return b
	case 5:
		return append(fmt.Appendf(nil, "zeros behind %d", offset), make([]byte, 20)...)
	case 6:
		return bytes.Repeat([]byte{0xff}, 33)
	case 8:
		if offset%27 == 8 {
			return make([]byte, zerosBytes)
		}
		return segment.Header{Version: segment.VersionDefault, BaseOffset: offset}.AppendTo(nil)
	default:
		return fmt.Appendf(nil, "record %d of the log", offset)
	}
}

// recordOf gives the record for an offset in a segment of a version: every third
// one opens a batch of two, and every seventh starts a generation, where the
// version knows them.
func recordOf(version uint16, offset uint64) engine.Record {
	r := engine.Record{Payload: payloadOf(offset), TimestampMicros: 1_700_000_000_000_000 + offset}
	switch {
	case version >= segment.RequiredVersion(segment.GenerationStart) && offset%7 == 0:
		r.Mark.Kind = segment.GenerationStart
		r.Payload = segment.GenerationStartPayload(offset)
	case version < segment.RequiredVersion(segment.BatchOpen):
	case offset%3 == 1:
		r.Mark = segment.Mark{Kind: segment.BatchOpen, Producer: 7, Sequence: offset, Len: 2}
	case offset%3 == 2:
		r.Mark.Kind = segment.BatchContinue
	}
	return r
}

// version is that of a segment of the log, counted from zero.
func (f Format) version(place int) uint16 {
	switch f {
	case V2:
		return 2
	case V3:
		return 3
	case V4:
		return 4
	default:
		return uint16(segment.VersionOldest + place)
	}
}
