package bench

import (
	"bytes"
	"fmt"
)

// PayloadBytesMin is the length of the text every payload starts with.
const PayloadBytesMin = len(payloadPrefix) + 20 + 1

const payloadPrefix = "felix-record-"

// AppendPayload appends the n-byte payload of the record at offset: the offset
// in text, then bytes that depend on the offset and their place. It panics when
// n is below PayloadBytesMin.
func AppendPayload(dst []byte, offset uint64, n int) []byte {
	if n < PayloadBytesMin {
		panic(fmt.Sprintf("bench: a payload of %d bytes does not hold its offset", n))
	}
	dst = fmt.Appendf(dst, "%s%020d-", payloadPrefix, offset)
	for i := PayloadBytesMin; i < n; i++ {
		dst = append(dst, payloadByte(offset, i))
	}
	return dst
}

func payloadByte(offset uint64, i int) byte {
	return byte((offset%251 + uint64(i)) % 256)
}

// PayloadError says that a record does not hold what its offset demands.
type PayloadError struct {
	Offset uint64
	Reason string
}

// Error names the offset.
func (e *PayloadError) Error() string {
	return fmt.Sprintf("record at offset %d: %s", e.Offset, e.Reason)
}

// CheckPayload compares a payload with the rule, in its length too. It returns
// nil or a *PayloadError.
func CheckPayload(payload []byte, offset uint64, n int) error {
	if len(payload) != n {
		return &PayloadError{offset, fmt.Sprintf("payload has %d bytes, want %d", len(payload), n)}
	}
	var head [PayloadBytesMin]byte
	text := fmt.Appendf(head[:0], "%s%020d-", payloadPrefix, offset)
	if !bytes.HasPrefix(payload, text) {
		return &PayloadError{offset, fmt.Sprintf("payload starts with %q, want %q", payload[:PayloadBytesMin], text)}
	}
	for i := PayloadBytesMin; i < n; i++ {
		if want := payloadByte(offset, i); payload[i] != want {
			return &PayloadError{offset, fmt.Sprintf("payload byte %d is %#02x, want %#02x", i, payload[i], want)}
		}
	}
	return nil
}
