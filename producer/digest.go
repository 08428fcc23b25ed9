package producer

import (
	"encoding/binary"
	"hash/crc64"
)

// Digest tells the payloads of a batch from other payloads under the same
// sequence. It guards against mistakes, not against forgery.
//
// It is a chain of CRC-64/XZ: with r the sum over a payload's length, a u64, and
// the payload, the value after a record is the sum over the value before it, a
// u64, and r. It starts at 0. Integers are big-endian.
type Digest struct {
	Value uint64
	// Known is false when the digest of some of the records is not known; then
	// Value is 0. The zero Digest is such a one.
	Known bool
}

// DigestOf is the digest of a batch with these payloads, in this order.
func DigestOf(payloads ...[]byte) Digest {
	d := Digest{Known: true}
	for _, payload := range payloads {
		d = d.With(payload)
	}
	return d
}

// With is the digest of the records of d and one more. One that is not known
// stays so.
func (d Digest) With(payload []byte) Digest {
	if !d.Known {
		return Digest{}
	}
	table := crc64.MakeTable(crc64.ECMA)
	var word [8]byte
	binary.BigEndian.PutUint64(word[:], uint64(len(payload)))
	record := crc64.Update(crc64.Update(0, table, word[:]), table, payload)
	binary.BigEndian.PutUint64(word[:], d.Value)
	chain := crc64.Update(0, table, word[:])
	binary.BigEndian.PutUint64(word[:], record)
	return Digest{Value: crc64.Update(chain, table, word[:]), Known: true}
}

// Contradicts says that the two are digests of different records. A digest that
// is not known contradicts nothing.
func (d Digest) Contradicts(other Digest) bool {
	return d.Known && other.Known && d.Value != other.Value
}
