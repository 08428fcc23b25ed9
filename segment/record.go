package segment

import (
	"encoding/binary"
	"fmt"
)

// Where the fields of a record header stand.
const (
	recordAtWord      = 0
	recordAtOffset    = 4
	recordAtTimestamp = 12
	recordAtHeaderCRC = 20
	recordAtChecksum  = 24
)

// Record is one record as a log holds it.
type Record struct {
	// Offset is the record's place in the log.
	Offset uint64
	// TimestampMicros is the publish time, in microseconds since 1970.
	TimestampMicros uint64
	// Mark is the record's kind and tag.
	Mark Mark
	// Checksum is the stored CRC-32 over header, tag and payload.
	Checksum uint32
	// Payload may alias the buffer the record was decoded from.
	Payload []byte
}

// RecordHeader is the first 28 bytes of a record, enough to find the next one.
type RecordHeader struct {
	PayloadLen      uint32
	Kind            Kind
	Offset          uint64
	TimestampMicros uint64
	// Checksum is the stored CRC-32 over header, tag and payload, not verified
	// by decoding the header.
	Checksum uint32
}

// Size is the number of bytes the whole record takes on disk.
func (h RecordHeader) Size() int64 {
	if h.Kind == BatchOpen {
		return RecordHeaderSize + TagSize + int64(h.PayloadLen)
	}
	return RecordHeaderSize + int64(h.PayloadLen)
}

// DecodeRecordHeader reads the record header that b starts with. The error is a
// *Corruption; checks run in the order length, header CRC, kind bits, size
// limit, so no field is acted on before the CRC vouched for it.
func DecodeRecordHeader(b []byte) (RecordHeader, error) {
	if len(b) < RecordHeaderSize {
		return RecordHeader{}, &Corruption{Kind: Truncated, Expected: RecordHeaderSize, Found: uint64(len(b))}
	}
	h, verdict := parseRecordHeader(b)
	if verdict != 0 {
		return RecordHeader{}, headerCorruption(b, verdict)
	}
	return h, nil
}

// parseRecordHeader decodes 28 bytes and gives the first check that fails, or
// zero. The fields are filled in either way; whether they mean anything is for
// the verdict to say. It makes no error value, because a search for records
// calls it on bytes that are mostly none.
func parseRecordHeader(b []byte) (RecordHeader, CorruptionKind) {
	_ = b[RecordHeaderSize-1]
	word := binary.BigEndian.Uint32(b[recordAtWord:])
	kind, oneKind := kindOf(word)
	h := RecordHeader{
		PayloadLen:      word & maskLen,
		Kind:            kind,
		Offset:          binary.BigEndian.Uint64(b[recordAtOffset:]),
		TimestampMicros: binary.BigEndian.Uint64(b[recordAtTimestamp:]),
		Checksum:        binary.BigEndian.Uint32(b[recordAtChecksum:]),
	}
	switch {
	case headerChecksum(b) != binary.BigEndian.Uint32(b[recordAtHeaderCRC:]):
		return h, RecordHeaderChecksum
	case !oneKind:
		return h, RecordFlags
	case h.PayloadLen > MaxPayloadBytes:
		return h, RecordTooLarge
	}
	return h, 0
}

// headerCorruption puts a verdict of parseRecordHeader about b into words.
func headerCorruption(b []byte, verdict CorruptionKind) *Corruption {
	word := binary.BigEndian.Uint32(b[recordAtWord:])
	c := &Corruption{Kind: verdict}
	switch verdict {
	case RecordHeaderChecksum:
		c.Expected = uint64(binary.BigEndian.Uint32(b[recordAtHeaderCRC:]))
		c.Found = uint64(headerChecksum(b))
	case RecordFlags:
		c.Found = uint64(word)
	case RecordTooLarge:
		c.Expected, c.Found = MaxPayloadBytes, uint64(word&maskLen)
	}
	return c
}

// DecodeRecord reads the record that b starts with and says how many bytes it
// takes. The payload aliases b. The error is a *Corruption; after the checks of
// the header come the available bytes and the record's checksum.
func DecodeRecord(b []byte) (Record, int, error) {
	h, err := DecodeRecordHeader(b)
	if err != nil {
		return Record{}, 0, err
	}
	if size := h.Size(); size > int64(len(b)) {
		return Record{}, 0, &Corruption{Kind: Truncated, Expected: uint64(size), Found: uint64(len(b))}
	}
	b = b[:h.Size()]
	if computed := recordChecksum(b); computed != h.Checksum {
		return Record{}, 0, &Corruption{Kind: RecordChecksum, Expected: uint64(h.Checksum), Found: uint64(computed)}
	}
	return assemble(h, b), len(b), nil
}

// DecodeOwn gives the record that b starts with, and how many bytes it takes, out
// of bytes that EncodeRecord wrote and nobody changed since: nothing is verified.
// The payload aliases b. A b that does not start with a whole record is a bug of
// the caller and panics.
func DecodeOwn(b []byte) (Record, int) {
	if len(b) < RecordHeaderSize {
		panic(fmt.Sprintf("segment: %d bytes hold no record", len(b)))
	}
	word := binary.BigEndian.Uint32(b[recordAtWord:])
	kind, ok := kindOf(word)
	if !ok {
		panic(fmt.Sprintf("segment: no record begins with the word %#x", word))
	}
	h := RecordHeader{
		PayloadLen:      word & maskLen,
		Kind:            kind,
		Offset:          binary.BigEndian.Uint64(b[recordAtOffset:]),
		TimestampMicros: binary.BigEndian.Uint64(b[recordAtTimestamp:]),
		Checksum:        binary.BigEndian.Uint32(b[recordAtChecksum:]),
	}
	size := h.Size()
	if size > int64(len(b)) {
		panic(fmt.Sprintf("segment: a record of %d bytes in %d", size, len(b)))
	}
	return assemble(h, b[:size]), int(size)
}

// assemble makes the record out of its header and its bytes, which were
// verified. The payload aliases b and has no room to grow into what follows.
func assemble(h RecordHeader, b []byte) Record {
	r := Record{
		Offset:          h.Offset,
		TimestampMicros: h.TimestampMicros,
		Mark:            Mark{Kind: h.Kind},
		Checksum:        h.Checksum,
	}
	body := b[RecordHeaderSize:]
	if h.Kind == BatchOpen {
		r.Mark.Producer = binary.BigEndian.Uint64(body)
		r.Mark.Sequence = binary.BigEndian.Uint64(body[8:])
		r.Mark.Len = binary.BigEndian.Uint32(body[16:])
		body = body[TagSize:]
	}
	r.Payload = body[:h.PayloadLen:h.PayloadLen]
	return r
}
