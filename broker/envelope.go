package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A kafka stream's payload is an envelope, version 1:
//
//	u8       version, 1
//	u8       flags: bit 0 a key follows, bit 1 the value is null; the rest are 0
//	uvarint  key length, and the key       (with bit 0)
//	uvarint  number of headers, then for each:
//	           uvarint length of its key, and the key (UTF-8)
//	           uvarint 0 for a null value, else its length + 1, and the value
//	rest     value (empty with bit 1)
//
// uvarints are unsigned LEB128, as encoding/binary writes them.
const (
	envelopeVersion = 1

	envelopeKey       = 1 << 0
	envelopeNullValue = 1 << 1
)

// envelopeHead is the smallest envelope: version, flags, no headers.
const envelopeHead = 3

var errEnvelope = errors.New("no envelope of a kafka stream")

// AppendEnvelope appends m's envelope to dst.
func AppendEnvelope(dst []byte, m *Message) []byte {
	flags := byte(0)
	if m.Key != nil {
		flags |= envelopeKey
	}
	if m.Value == nil {
		flags |= envelopeNullValue
	}
	dst = append(dst, envelopeVersion, flags)
	if m.Key != nil {
		dst = appendSized(dst, m.Key)
	}
	dst = binary.AppendUvarint(dst, uint64(len(m.Headers)))
	for i := range m.Headers {
		h := &m.Headers[i]
		dst = binary.AppendUvarint(dst, uint64(len(h.Key)))
		dst = append(dst, h.Key...)
		if h.Value == nil {
			dst = append(dst, 0)
			continue
		}
		dst = binary.AppendUvarint(dst, uint64(len(h.Value))+1)
		dst = append(dst, h.Value...)
	}
	return append(dst, m.Value...)
}

func appendSized(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// envelopeSize is at least the length of m's envelope, and at most a few bytes more.
func envelopeSize(m *Message) int {
	size := envelopeHead + 2*binary.MaxVarintLen64 + len(m.Key) + len(m.Value)
	for i := range m.Headers {
		size += 2*binary.MaxVarintLen64 + len(m.Headers[i].Key) + len(m.Headers[i].Value)
	}
	return size
}

// ParseEnvelope reads an envelope. Key, value and header values alias b.
func ParseEnvelope(b []byte) (Message, error) {
	var m Message
	if len(b) < envelopeHead || b[0] != envelopeVersion {
		return m, fmt.Errorf("%w: it does not begin with version %d", errEnvelope, envelopeVersion)
	}
	flags := b[1]
	if flags&^(envelopeKey|envelopeNullValue) != 0 {
		return m, fmt.Errorf("%w: unknown flags %#02x", errEnvelope, flags)
	}
	rest := b[2:]
	if flags&envelopeKey != 0 {
		var err error
		if m.Key, rest, err = cutSized(rest, "key"); err != nil {
			return Message{}, err
		}
	}
	headers, rest, err := cutUvarint(rest, "number of headers")
	if err != nil {
		return Message{}, err
	}
	// Each header takes two bytes or more, which bounds what is made for them.
	if headers > uint64(len(rest)/2) {
		return Message{}, fmt.Errorf("%w: %d headers in %d bytes", errEnvelope, headers, len(rest))
	}
	if headers > 0 {
		m.Headers = make([]Header, headers)
	}
	for i := range m.Headers {
		if rest, err = m.Headers[i].parse(rest); err != nil {
			return Message{}, err
		}
	}
	if flags&envelopeNullValue == 0 {
		m.Value = rest[:len(rest):len(rest)]
	} else if len(rest) > 0 {
		return Message{}, fmt.Errorf("%w: %d bytes after a null value", errEnvelope, len(rest))
	}
	return m, nil
}

func (h *Header) parse(b []byte) ([]byte, error) {
	key, b, err := cutSized(b, "header key")
	if err != nil {
		return nil, err
	}
	h.Key = string(key)
	size, b, err := cutUvarint(b, "header value length")
	if err != nil || size == 0 {
		return b, err
	}
	if size-1 > uint64(len(b)) {
		return nil, fmt.Errorf("%w: a header value of %d bytes where %d are left", errEnvelope, size-1, len(b))
	}
	h.Value = b[: size-1 : size-1]
	return b[size-1:], nil
}

func cutUvarint(b []byte, what string) (uint64, []byte, error) {
	value, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, fmt.Errorf("%w: no %s", errEnvelope, what)
	}
	return value, b[n:], nil
}

// cutSized gives a part that is never nil.
func cutSized(b []byte, what string) (part, rest []byte, err error) {
	size, b, err := cutUvarint(b, what)
	if err != nil {
		return nil, nil, err
	}
	if size > uint64(len(b)) {
		return nil, nil, fmt.Errorf("%w: a %s of %d bytes where %d are left", errEnvelope, what, size, len(b))
	}
	return b[:size:size], b[size:], nil
}
