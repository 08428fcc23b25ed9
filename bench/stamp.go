package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// LoadPayloadBytesMin is the length of the stamp that the payloads of a load begin with.
const LoadPayloadBytesMin = 16

// stampEvery is the distance between two stamps of a payload: a sector, the least
// that a device writes at once, so that no part of a record passes for that of
// another.
const stampEvery = 512

// stamp says which record of a load a payload is. A payload that says it can be
// made beforehand and changed in a few bytes for each append, and still tells,
// wherever it is found, what all of its bytes have to be.
type stamp struct {
	publisher uint32
	// index is the record's place in its append.
	index uint32
	// sequence counts the publisher's appends.
	sequence uint64
}

// blankPayload is a payload of n bytes without stamps.
func blankPayload(n int) []byte {
	payload := make([]byte, n)
	for i := range payload {
		payload[i] = byte(i % 251)
	}
	return payload
}

// mark puts the stamp at the beginning of each sector of a payload that holds it.
func (s stamp) mark(payload []byte) {
	var text [LoadPayloadBytesMin]byte
	binary.LittleEndian.PutUint32(text[0:], s.publisher)
	binary.LittleEndian.PutUint32(text[4:], s.index)
	binary.LittleEndian.PutUint64(text[8:], s.sequence)
	for at := 0; at+len(text) <= len(payload); at += stampEvery {
		copy(payload[at:], text[:])
	}
}

// readStamp reads the first stamp of a payload, which is long enough to hold one.
func readStamp(payload []byte) stamp {
	return stamp{
		publisher: binary.LittleEndian.Uint32(payload[0:]),
		index:     binary.LittleEndian.Uint32(payload[4:]),
		sequence:  binary.LittleEndian.Uint64(payload[8:]),
	}
}

// differs names the first byte in which a payload is not the one its stamp demands;
// blank is scratch space, a payload of the length that is wanted.
func (s stamp) differs(payload, blank []byte) string {
	s.mark(blank)
	if bytes.Equal(payload, blank) {
		return ""
	}
	if len(payload) != len(blank) {
		return fmt.Sprintf("payload has %d bytes, want %d", len(payload), len(blank))
	}
	at := 0
	for payload[at] == blank[at] {
		at++
	}
	return fmt.Sprintf("payload byte %d is %#02x, want %#02x", at, payload[at], blank[at])
}
