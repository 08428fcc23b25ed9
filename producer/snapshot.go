package producer

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
)

// The versions of a snapshot. Both are read.
const (
	// SnapshotV1 is the default. It has no digests.
	SnapshotV1 uint16 = 1
	// SnapshotV2 has the digest of every batch, as far as it is known.
	SnapshotV2 uint16 = 2
)

// The layout, see docs/format.md.
const (
	snapshotMagic  = 0x464c5053 // "FLPS"
	headerSize     = 24
	atVersion      = 4
	atAsOf         = 8
	atCount        = 16
	atSum          = 20
	openSize       = 8 + 8 + 4 + 8 + 4
	producerSize   = 8 + 8 + 2
	batchSize      = 8 + 4
	digestSize     = 1 + 8
	bodyBytesMaxV2 = 1 + openSize + digestSize + ProducersMax*(producerSize+BatchesMax*(batchSize+digestSize))
)

// SnapshotBytesMax is the size of the largest snapshot there can be. A longer
// file is none and need not be read.
const SnapshotBytesMax = headerSize + bodyBytesMaxV2

// AppendTo appends the snapshot of the state to dst, as View.AppendTo does.
func (s *State) AppendTo(dst []byte, asOf uint64, version uint16) []byte {
	return s.View().AppendTo(dst, asOf, version)
}

// AppendTo appends the snapshot of the state to dst. asOf is the tail of the log,
// one past the last record observed: a state that had observed more than that, or
// a version that does not exist, is a bug of the caller and panics. Producers are
// in the order of their ids, so that equal states have equal bytes.
//
// It takes a few milliseconds for a state at its bounds.
func (v *View) AppendTo(dst []byte, asOf uint64, version uint16) []byte {
	if v.next > asOf {
		panic(fmt.Sprintf("producer: a snapshot as of %d of a state that holds everything below %d", asOf, v.next))
	}
	if version != SnapshotV1 && version != SnapshotV2 {
		panic(fmt.Sprintf("producer: no such snapshot version: %d", version))
	}
	digests := version == SnapshotV2
	start := len(dst)
	dst = slices.Grow(dst, v.snapshotSize(digests))
	dst = binary.BigEndian.AppendUint32(dst, snapshotMagic)
	dst = binary.BigEndian.AppendUint16(dst, version)
	dst = binary.BigEndian.AppendUint16(dst, 0)
	dst = binary.BigEndian.AppendUint64(dst, asOf)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(v.producers)))
	dst = binary.BigEndian.AppendUint32(dst, 0) // the sum, below
	dst = appendOpen(dst, v.open, asOf, digests)
	for _, w := range v.byID() {
		dst = appendProducer(dst, w, digests)
	}
	header := dst[start:]
	binary.BigEndian.PutUint32(header[atSum:], crc32.ChecksumIEEE(header[headerSize:]))
	return dst
}

// snapshotSize is the number of bytes AppendTo needs, or a little less than it
// has room for.
func (v *View) snapshotSize(digests bool) int {
	perBatch := batchSize
	if digests {
		perBatch += digestSize
	}
	size := headerSize + 1 + openSize + digestSize
	for i := range v.producers {
		size += producerSize + v.producers[i].n*perBatch
	}
	return size
}

// appendOpen writes the open batch. One that no record at asOf could continue was
// abandoned.
func appendOpen(dst []byte, o openBatch, asOf uint64, digests bool) []byte {
	if !o.waiting || o.end() != asOf {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	dst = binary.BigEndian.AppendUint64(dst, o.producer)
	dst = binary.BigEndian.AppendUint64(dst, o.sequence)
	dst = binary.BigEndian.AppendUint32(dst, o.len)
	dst = binary.BigEndian.AppendUint64(dst, o.first)
	dst = binary.BigEndian.AppendUint32(dst, o.held)
	if digests {
		dst = appendDigest(dst, o.digest)
	}
	return dst
}

func appendProducer(dst []byte, w *known, digests bool) []byte {
	dst = binary.BigEndian.AppendUint64(dst, w.id)
	dst = binary.BigEndian.AppendUint64(dst, w.last)
	dst = binary.BigEndian.AppendUint16(dst, uint16(w.n))
	for i := range w.n {
		b := w.at(i)
		dst = binary.BigEndian.AppendUint64(dst, b.first)
		dst = binary.BigEndian.AppendUint32(dst, b.len)
		if digests {
			dst = appendDigest(dst, b.digest)
		}
	}
	return dst
}

func appendDigest(dst []byte, d Digest) []byte {
	if !d.Known {
		return append(dst, make([]byte, digestSize)...)
	}
	return binary.BigEndian.AppendUint64(append(dst, 1), d.Value)
}

// Usable says whether a snapshot as of an offset fits a log that holds the
// offsets [base, tail): then the records from asOf on are all that is left to
// observe. One that is not usable has to be deleted durably, since a log that
// grows past asOf again would make it look usable, and describe other records.
func Usable(asOf, base, tail uint64) bool { return base <= asOf && asOf <= tail }
