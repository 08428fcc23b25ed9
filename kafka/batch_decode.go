package kafka

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"felix.local/felix/broker"
)

// decoder turns record batches into messages whose bytes alias the batches, or the
// buffers that compressed ones were inflated into, until release.
type decoder struct {
	messages []broker.Message
	headers  []broker.Header
	// batches are those of idempotent producers.
	batches []producedBatch
	// recordsMax bounds messages.
	recordsMax int
	inflate    *inflater
	// inflated holds what the messages of compressed batches alias.
	inflated     []*buffer
	inflatedSize int64
	// charge accounts for memory beyond the request itself, before it is
	// allocated.
	charge func(bytes int64) error
	// charged is how many messages, headers and batches are paid for.
	charged int
}

const (
	messageSize = int64(unsafe.Sizeof(broker.Message{}))
	headerSize  = int64(unsafe.Sizeof(broker.Header{}))
	// chargeEvery is how many messages or headers are accounted for at a time.
	chargeEvery = 64
	// keptMessages bounds the slices that a released decoder keeps.
	keptMessages = 16 << 10
)

// decode appends the messages of all batches in records. On an error nothing of
// records may be used. Batches are either all of idempotent producers or none is: a
// client that tries them again must not double the others.
func (d *decoder) decode(records []byte) error {
	if len(records) == 0 {
		return refuse(codeInvalidRecord, "there is no record batch")
	}
	first, count := len(d.batches), 0
	for ; len(records) > 0; count++ {
		rest, err := d.batch(records)
		if err != nil {
			return err
		}
		records = rest
	}
	if produced := len(d.batches) - first; produced > 0 && produced < count {
		return refuse(codeInvalidRecord, "record batches with a producer id and without one, for the same partition; send them apart")
	}
	return nil
}

// release gives the buffers back and forgets the messages.
func (d *decoder) release(pool *buffers) {
	for i, b := range d.inflated {
		pool.put(b)
		d.inflated[i] = nil
	}
	d.inflated, d.inflatedSize, d.charged = d.inflated[:0], 0, 0
	clear(d.messages)
	clear(d.headers)
	d.messages, d.headers, d.batches = d.messages[:0], d.headers[:0], d.batches[:0]
	if cap(d.messages) > keptMessages {
		d.messages = nil
	}
	if cap(d.headers) > keptMessages {
		d.headers = nil
	}
	if cap(d.batches) > keptMessages {
		d.batches = nil
	}
}

// batch decodes the first batch of src and gives what follows it.
func (d *decoder) batch(src []byte) (rest []byte, err error) {
	if len(src) <= batchMagicAt {
		return nil, corrupt("a record batch of %d bytes has no header", len(src))
	}
	if magic := int8(src[batchMagicAt]); magic != 2 {
		return nil, refuse(codeUnsupportedForMessageFormat,
			fmt.Sprintf("record format %d is not supported; format 2 is (clients of Kafka 0.11 and later)", magic))
	}
	length := int64(int32(binary.BigEndian.Uint32(src[batchLengthAt:])))
	if length < batchLengthMin || length > int64(len(src)-batchEpochAt) {
		return nil, corrupt("a record batch says it has %d bytes; there are %d", length, len(src)-batchEpochAt)
	}
	size := int(length) + batchEpochAt
	batch, rest := src[:size], src[size:]
	if want, got := binary.BigEndian.Uint32(batch[batchCRCAt:]), checksum(batch[batchAttributesAt:]); want != got {
		return nil, corrupt("a record batch has the checksum %#08x and its bytes give %#08x", want, got)
	}
	attributes := binary.BigEndian.Uint16(batch[batchAttributesAt:])
	if err := checkAttributes(attributes); err != nil {
		return nil, err
	}
	count := int64(int32(binary.BigEndian.Uint32(batch[batchCountAt:])))
	if last := int64(int32(binary.BigEndian.Uint32(batch[batchLastDeltaAt:]))); count < 1 || last != count-1 {
		return nil, refuse(codeInvalidRecord,
			fmt.Sprintf("a record batch says it has %d records, and its last offset is %d past its first", count, last))
	}
	if count > int64(d.recordsMax-len(d.messages)) {
		return nil, refuse(codeMessageTooLarge,
			fmt.Sprintf("a request with more than %d records; send fewer at a time", d.recordsMax))
	}
	payload := batch[batchHeaderSize:]
	if codec := codec(attributes & attributeCodec); codec != codecNone {
		if payload, err = d.inflatePayload(codec, payload); err != nil {
			return nil, err
		}
	}
	if count > int64(len(payload)/recordSizeMin) {
		return nil, corrupt("a record batch says it has %d records in %d bytes", count, len(payload))
	}
	produced, ok, err := identify(batch, int(count))
	if err != nil {
		return nil, err
	}
	if ok {
		d.batches = append(d.batches, produced)
	}
	baseTime := int64(binary.BigEndian.Uint64(batch[batchBaseTimeAt:]))
	return rest, d.records(payload, int(count), baseTime)
}

// checkAttributes refuses what this server cannot keep the promise of.
func checkAttributes(attributes uint16) error {
	switch {
	case attributes&attributeControl != 0:
		return refuse(codeInvalidRecord, "control batches are the server's to write")
	case attributes&attributeTransactional != 0:
		return refuse(codeInvalidRecord, "transactions are not supported; produce without transactional.id")
	case attributes&attributeLogAppendTime != 0:
		return refuse(codeInvalidTimestamp, "a producer's timestamps are create times; log append time is the server's to set")
	}
	return nil
}

func (d *decoder) inflatePayload(codec codec, payload []byte) ([]byte, error) {
	buf, err := d.inflate.inflate(codec, payload, d.inflate.max-d.inflatedSize, d.charge)
	if err != nil {
		return nil, err
	}
	d.inflated = append(d.inflated, buf)
	d.inflatedSize += int64(len(buf.b))
	return buf.b, nil
}

// records decodes count records that fill src exactly.
func (d *decoder) records(src []byte, count int, baseTime int64) error {
	for i := range count {
		if len(d.messages)+len(d.headers)+len(d.batches) >= d.charged {
			if err := d.charge(chargeEvery * max(messageSize, headerSize)); err != nil {
				return err
			}
			d.charged += chargeEvery
		}
		rest, err := d.record(src, i, baseTime)
		if err != nil {
			return err
		}
		src = rest
	}
	if len(src) > 0 {
		return corrupt("%d bytes follow the %d records of a batch", len(src), count)
	}
	return nil
}

// record decodes the record with this index within its batch.
func (d *decoder) record(src []byte, index int, baseTime int64) (rest []byte, err error) {
	length, width := varint(src)
	if width == 0 || length < recordSizeMin-1 || length > int64(len(src)-width) {
		return nil, corrupt("record %d of a batch has a length that does not fit", index)
	}
	r := recordReader{src: src[width : width+int(length)]}
	rest = src[width+int(length):]
	r.src = r.src[1:] // attributes, of which none is defined
	timeDelta := r.varint()
	offsetDelta := r.varint()
	var m broker.Message
	m.Key = r.bytes()
	m.Value = r.bytes()
	headers := r.varint()
	if r.bad || headers < 0 || headers > int64(len(r.src)/headerSizeMin) {
		return nil, corrupt("record %d of a batch ends before what it announces", index)
	}
	if offsetDelta != int64(index) {
		return nil, refuse(codeInvalidRecord, fmt.Sprintf("record %d of a batch says it is number %d", index, offsetDelta))
	}
	if headers > 0 {
		if m.Headers, err = d.recordHeaders(&r, int(headers), index); err != nil {
			return nil, err
		}
	}
	if len(r.src) > 0 {
		return nil, corrupt("record %d of a batch is shorter than it says", index)
	}
	if m.TimestampMicros, err = timestampMicros(baseTime, timeDelta); err != nil {
		return nil, err
	}
	d.messages = append(d.messages, m)
	return rest, nil
}

func (d *decoder) recordHeaders(r *recordReader, count, index int) ([]broker.Header, error) {
	if over := len(d.messages) + len(d.headers) + len(d.batches) + count - d.charged; over > 0 {
		if err := d.charge(int64(over) * headerSize); err != nil {
			return nil, err
		}
		d.charged += over
	}
	first := len(d.headers)
	for range count {
		key := r.bytes()
		value := r.bytes()
		if r.bad || key == nil {
			return nil, corrupt("record %d of a batch has a header without a key, or cut short", index)
		}
		d.headers = append(d.headers, broker.Header{Key: string(key), Value: value})
	}
	return d.headers[first:len(d.headers):len(d.headers)], nil
}

// noTimestamp is what a producer sends that leaves the time to the server.
const noTimestamp = -1

// timestampMicros is the time of a record. 0, the start of 1970, becomes one
// microsecond, since 0 leaves the time to the server; readers see 0 ms again.
func timestampMicros(base, delta int64) (uint64, error) {
	if base == noTimestamp && delta == 0 {
		return 0, nil
	}
	ms := base + delta
	overflow := delta > 0 && ms < base || delta < 0 && ms > base
	if overflow || ms < 0 || ms > math.MaxInt64/1000 {
		return 0, refuse(codeInvalidTimestamp,
			fmt.Sprintf("a record's time is %d ms and %d ms after it, which is no time after 1970 that fits", base, delta))
	}
	return max(uint64(ms)*1000, 1), nil
}

// timestampMillis is the time that readers see.
func timestampMillis(micros uint64) int64 { return int64(micros / 1000) }

// recordReader reads the fields of one record.
type recordReader struct {
	src []byte
	bad bool
}

func (r *recordReader) varint() int64 {
	v, width := varint(r.src)
	if width == 0 {
		r.bad = true
		r.src = nil
		return 0
	}
	r.src = r.src[width:]
	return v
}

// bytes takes a length and as many bytes; nil for a negative length.
func (r *recordReader) bytes() []byte {
	n := r.varint()
	if n > int64(len(r.src)) {
		r.bad = true
		r.src = nil
	}
	if n < 0 || r.bad {
		return nil
	}
	s := r.src[:n:n]
	r.src = r.src[n:]
	return s
}

func corrupt(format string, args ...any) error {
	return refuse(codeCorruptMessage, fmt.Sprintf(format, args...))
}
