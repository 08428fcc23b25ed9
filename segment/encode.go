package segment

import (
	"encoding/binary"
	"fmt"
)

// EncodedSize is the number of bytes EncodeRecord writes.
func EncodedSize(m Mark, payloadLen int) int {
	if m.Kind == BatchOpen {
		return RecordHeaderSize + TagSize + payloadLen
	}
	return RecordHeaderSize + payloadLen
}

// EncodeRecord writes a record to the start of dst and gives the number of
// bytes it took, which is EncodedSize. The payload is copied once and nothing
// is allocated.
//
// A payload over MaxPayloadBytes or a dst that is too short is a bug of the
// caller, who has to refuse the one and reserve the other beforehand; both
// panic before a byte is written.
func EncodeRecord(dst []byte, offset, timestampMicros uint64, m Mark, payload []byte) int {
	size := EncodedSize(m, len(payload))
	if len(payload) > MaxPayloadBytes {
		panic(fmt.Sprintf("segment: payload of %d bytes is over the limit of %d", len(payload), MaxPayloadBytes))
	}
	if len(dst) < size {
		panic(fmt.Sprintf("segment: record of %d bytes does not fit in %d", size, len(dst)))
	}
	word := m.Kind.bits() | uint32(len(payload))
	dst = dst[:size]
	binary.BigEndian.PutUint32(dst[recordAtWord:], word)
	binary.BigEndian.PutUint64(dst[recordAtOffset:], offset)
	binary.BigEndian.PutUint64(dst[recordAtTimestamp:], timestampMicros)
	binary.BigEndian.PutUint32(dst[recordAtHeaderCRC:], headerChecksum(dst))
	body := dst[RecordHeaderSize:]
	if m.Kind == BatchOpen {
		binary.BigEndian.PutUint64(body, m.Producer)
		binary.BigEndian.PutUint64(body[8:], m.Sequence)
		binary.BigEndian.PutUint32(body[16:], m.Len)
		body = body[TagSize:]
	}
	copy(body, payload)
	binary.BigEndian.PutUint32(dst[recordAtChecksum:], recordChecksum(dst))
	return size
}
