package kafka

import (
	"encoding/binary"
	"math"

	"felix.local/felix/broker"
)

// appendBatch appends one uncompressed record batch with as many of records as fit
// in budget bytes, and the first of them in any case if must is set. taken is how
// many it holds; with none, dst is as it was.
//
// The batch's offsets are those of the records: its base offset is the first one's.
func appendBatch(dst []byte, records []broker.Record, budget int, must bool) (out []byte, taken int) {
	if len(records) == 0 {
		return dst, 0
	}
	start := len(dst)
	base := records[0].Offset
	baseTime := timestampMillis(records[0].TimestampMicros)
	maxTime := baseTime
	out = append(dst, make([]byte, batchHeaderSize)...)
	for i := range records {
		r := &records[i]
		delta := int64(r.Offset - base)
		if delta > math.MaxInt32 {
			break
		}
		ms := timestampMillis(r.TimestampMicros)
		body := recordBodySize(r, ms-baseTime, delta)
		size := varintSize(int64(body)) + body
		if len(out)-start+size > budget && (taken > 0 || !must) {
			break
		}
		out = appendRecord(out, r, body, ms-baseTime, delta)
		maxTime = max(maxTime, ms)
		taken++
	}
	if taken == 0 {
		return dst[:start], 0
	}
	sealBatch(out[start:], base, records[taken-1].Offset, baseTime, maxTime, taken)
	return out, taken
}

// appendEmptyBatch appends a batch without records for the offsets first to last:
// clients go on behind it, as they do behind what compaction leaves of a batch.
func appendEmptyBatch(dst []byte, first, last uint64) []byte {
	out := append(dst, make([]byte, batchHeaderSize)...)
	sealBatch(out[len(dst):], first, last, -1, -1, 0)
	return out
}

// sealBatch fills the head of a batch whose records are there.
func sealBatch(batch []byte, base, last uint64, baseTime, maxTime int64, count int) {
	binary.BigEndian.PutUint64(batch, base)
	binary.BigEndian.PutUint32(batch[batchLengthAt:], uint32(len(batch)-batchEpochAt))
	batch[batchMagicAt] = 2
	binary.BigEndian.PutUint32(batch[batchLastDeltaAt:], uint32(last-base))
	binary.BigEndian.PutUint64(batch[batchBaseTimeAt:], uint64(baseTime))
	binary.BigEndian.PutUint64(batch[batchMaxTimeAt:], uint64(maxTime))
	binary.BigEndian.PutUint64(batch[batchProducerAt:], math.MaxUint64)
	binary.BigEndian.PutUint16(batch[batchProducerEpoch:], math.MaxUint16)
	binary.BigEndian.PutUint32(batch[batchSequenceAt:], math.MaxUint32)
	binary.BigEndian.PutUint32(batch[batchCountAt:], uint32(count))
	binary.BigEndian.PutUint32(batch[batchCRCAt:], checksum(batch[batchAttributesAt:]))
}

// recordBodySize is what a record's length field says.
func recordBodySize(r *broker.Record, timeDelta, offsetDelta int64) int {
	size := 1 + varintSize(timeDelta) + varintSize(offsetDelta) +
		nullableSize(r.Key) + nullableSize(r.Value) + varintSize(int64(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		size += varintSize(int64(len(h.Key))) + len(h.Key) + nullableSize(h.Value)
	}
	return size
}

func appendRecord(dst []byte, r *broker.Record, body int, timeDelta, offsetDelta int64) []byte {
	dst = appendVarint(dst, int64(body))
	dst = append(dst, 0)
	dst = appendVarint(dst, timeDelta)
	dst = appendVarint(dst, offsetDelta)
	dst = appendNullable(dst, r.Key)
	dst = appendNullable(dst, r.Value)
	dst = appendVarint(dst, int64(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		dst = appendVarint(dst, int64(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = appendNullable(dst, h.Value)
	}
	return dst
}

func nullableSize(b []byte) int {
	if b == nil {
		return varintSize(-1)
	}
	return varintSize(int64(len(b))) + len(b)
}

func appendNullable(dst, b []byte) []byte {
	if b == nil {
		return appendVarint(dst, -1)
	}
	dst = appendVarint(dst, int64(len(b)))
	return append(dst, b...)
}
