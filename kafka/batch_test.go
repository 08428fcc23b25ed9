package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"felix.local/felix/broker"
)

// newDecoder is a decoder with bounds that tests reach.
func newDecoder(recordsMax int, inflatedMax int64) *decoder {
	pool := new(buffers)
	return &decoder{
		recordsMax: recordsMax, inflate: newInflater(inflatedMax, 1, pool),
		charge: func(int64) error { return nil },
	}
}

// sample are records of all shapes.
func sample() []broker.Record {
	message := func(m broker.Message, micros uint64) broker.Message { m.TimestampMicros = micros; return m }
	return []broker.Record{
		{Offset: 70, Message: message(broker.Message{Key: []byte("k"), Value: []byte("v")}, 5_000_000)},
		{Offset: 71, Message: message(broker.Message{Key: []byte{}, Value: []byte{}}, 4_000_000)},
		{Offset: 72, Message: message(broker.Message{Headers: []broker.Header{{Key: "a", Value: []byte("1")}, {Key: "a"}, {}}}, 6_001_000)},
		{Offset: 73, Message: message(broker.Message{Value: make([]byte, 300)}, 1<<52/1000*1000)},
	}
}

func encode(records []broker.Record) []byte {
	b, taken := appendBatch(nil, records, math.MaxInt, true)
	if taken != len(records) {
		panic(fmt.Sprintf("%d of %d records fitted", taken, len(records)))
	}
	return b
}

func messagesOf(records []broker.Record) []broker.Message {
	var out []broker.Message
	for _, r := range records {
		out = append(out, r.Message)
	}
	return out
}

func TestABatchReadsBackAsItWasWritten(t *testing.T) {
	records := sample()
	b := encode(records)
	d := newDecoder(100, 1<<20)
	if err := d.decode(append(b, b...)); err != nil {
		t.Fatal(err)
	}
	want := append(messagesOf(records), messagesOf(records)...)
	if diff := cmp.Diff(want, d.messages); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
}

func TestABatchIsWhatTheCodecOfClientsReads(t *testing.T) {
	records := sample()
	var batch kmsg.RecordBatch
	if err := batch.ReadFrom(encode(records)); err != nil {
		t.Fatal(err)
	}
	if batch.FirstOffset != 70 || batch.LastOffsetDelta != 3 || batch.NumRecords != 4 || batch.Magic != 2 ||
		batch.FirstTimestamp != 5000 || batch.MaxTimestamp != 1<<52/1000 || batch.Attributes != 0 ||
		batch.ProducerID != -1 || batch.ProducerEpoch != -1 || batch.FirstSequence != -1 || batch.PartitionLeaderEpoch != 0 {
		t.Errorf("header: %+v", batch)
	}
	src := batch.Records
	for i := range records {
		length, width := varint(src)
		var record kmsg.Record
		if err := record.ReadFrom(src[:width+int(length)]); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
		if int(record.OffsetDelta) != i || len(record.Headers) != len(records[i].Headers) {
			t.Errorf("record %d: %+v", i, record)
		}
		src = src[width+int(length):]
	}
}

func TestABatchTakesWhatFitsAndOneRecordIfItMust(t *testing.T) {
	records := sample()
	whole := len(encode(records))
	for budget := range whole + 2 {
		for _, must := range []bool{false, true} {
			b, taken := appendBatch([]byte("before"), records, budget, must)
			switch {
			case string(b[:6]) != "before":
				t.Fatal("what was there before changed")
			case taken == 0 && (must || len(b) != 6):
				t.Fatalf("budget %d, must %t: nothing taken, %d bytes", budget, must, len(b)-6)
			case taken > 1 && len(b)-6 > budget, taken == 1 && !must && len(b)-6 > budget:
				t.Fatalf("budget %d: %d bytes", budget, len(b)-6)
			case budget >= whole && taken != len(records):
				t.Fatalf("budget %d: %d records", budget, taken)
			}
			if taken > 0 {
				d := newDecoder(100, 1<<20)
				if err := d.decode(b[6:]); err != nil || len(d.messages) != taken {
					t.Fatalf("budget %d: %v", budget, err)
				}
			}
		}
	}
}

// remake changes a batch and mends its checksum.
func remake(change func(b []byte) []byte) []byte {
	b := change(encode(sample()))
	if len(b) > batchAttributesAt {
		binary.BigEndian.PutUint32(b[batchCRCAt:], checksum(b[batchAttributesAt:]))
	}
	return b
}

func put16(at int, v uint16) func([]byte) []byte {
	return func(b []byte) []byte { binary.BigEndian.PutUint16(b[at:], v); return b }
}

func put32(at int, v uint32) func([]byte) []byte {
	return func(b []byte) []byte { binary.BigEndian.PutUint32(b[at:], v); return b }
}

func put64(at int, v uint64) func([]byte) []byte {
	return func(b []byte) []byte { binary.BigEndian.PutUint64(b[at:], v); return b }
}

func TestBatchesThatAreRefused(t *testing.T) {
	flipped := encode(sample())
	flipped[len(flipped)-1]++
	for name, test := range map[string]struct {
		batch []byte
		want  code
	}{
		"nothing":            {nil, codeInvalidRecord},
		"no header":          {make([]byte, 16), codeCorruptMessage},
		"format 1":           {remake(func(b []byte) []byte { b[batchMagicAt] = 1; return b }), codeUnsupportedForMessageFormat},
		"format 3":           {remake(func(b []byte) []byte { b[batchMagicAt] = 3; return b }), codeUnsupportedForMessageFormat},
		"a flipped bit":      {flipped, codeCorruptMessage},
		"too long":           {remake(put32(batchLengthAt, 1<<20)), codeCorruptMessage},
		"negative length":    {remake(put32(batchLengthAt, 1<<31)), codeCorruptMessage},
		"short of a header":  {remake(put32(batchLengthAt, batchLengthMin-1)), codeCorruptMessage},
		"bytes behind":       {append(encode(sample()), 1, 2, 3), codeCorruptMessage},
		"no records":         {remake(put32(batchCountAt, 0)), codeInvalidRecord},
		"count below zero":   {remake(put32(batchCountAt, 1<<31)), codeInvalidRecord},
		"count and offset":   {remake(put32(batchLastDeltaAt, 2)), codeInvalidRecord},
		"no epoch":           {remake(put64(batchProducerAt, 1)), codeInvalidRecord},
		"transactional":      {remake(put16(batchAttributesAt, attributeTransactional)), codeInvalidRecord},
		"control":            {remake(put16(batchAttributesAt, attributeControl)), codeInvalidRecord},
		"append time":        {remake(put16(batchAttributesAt, attributeLogAppendTime)), codeInvalidTimestamp},
		"codec 5":            {remake(put16(batchAttributesAt, 5)), codeUnsupportedCompressionType},
		"time overflow":      {remake(put64(batchBaseTimeAt, math.MaxInt64)), codeInvalidTimestamp},
		"time before 1970":   {remake(put64(batchBaseTimeAt, 1<<63)), codeInvalidTimestamp},
		"gzip that is none":  {remake(put16(batchAttributesAt, uint16(codecGzip))), codeCorruptMessage},
		"lz4 that is none":   {remake(put16(batchAttributesAt, uint16(codecLZ4))), codeCorruptMessage},
		"zstd that is none":  {remake(put16(batchAttributesAt, uint16(codecZstd))), codeCorruptMessage},
		"record length":      {remake(func(b []byte) []byte { b[batchHeaderSize] += 2; return b }), codeCorruptMessage},
		"offset delta":       {remake(func(b []byte) []byte { b[batchHeaderSize+3] += 2; return b }), codeInvalidRecord},
		"more than it holds": {remake(func(b []byte) []byte { return put32(batchLastDeltaAt, 4)(put32(batchCountAt, 5)(b)) }), codeCorruptMessage},
		"less than it holds": {remake(func(b []byte) []byte { return put32(batchLastDeltaAt, 2)(put32(batchCountAt, 3)(b)) }), codeCorruptMessage},
		"too many":           {remake(func(b []byte) []byte { return put32(batchLastDeltaAt, 100)(put32(batchCountAt, 101)(b)) }), codeMessageTooLarge},
	} {
		var refused *failure
		if err := newDecoder(100, 1<<20).decode(test.batch); !errors.As(err, &refused) || refused.code != test.want {
			t.Errorf("%s: %v; expected code %d", name, err, test.want)
		}
	}
}

func TestEveryPrefixOfABatchIsRefused(t *testing.T) {
	b := encode(sample())
	for n := range b {
		if err := newDecoder(100, 1<<20).decode(b[:n]); err == nil {
			t.Errorf("%d of %d bytes were taken", n, len(b))
		}
	}
}

func TestTimes(t *testing.T) {
	for _, test := range []struct {
		base, delta int64
		want        uint64
		fails       bool
	}{
		{base: noTimestamp, want: 0},
		{base: 0, want: 1},
		{base: 7, delta: -7, want: 1},
		{base: 7, delta: -8, fails: true},
		{base: 1_700_000_000_000, delta: 5, want: 1_700_000_000_005_000},
		{base: math.MaxInt64 / 1000, want: math.MaxInt64 / 1000 * 1000},
		{base: math.MaxInt64 / 1000, delta: 1, fails: true},
		{base: math.MaxInt64, delta: math.MaxInt64, fails: true},
		{base: math.MinInt64, delta: math.MinInt64, fails: true},
		{base: math.MinInt64, delta: math.MaxInt64, fails: true},
	} {
		got, err := timestampMicros(test.base, test.delta)
		if (err != nil) != test.fails || got != test.want {
			t.Errorf("%d + %d gave %d, %v", test.base, test.delta, got, err)
		}
		if err == nil && test.base >= 0 && timestampMillis(got) != test.base+test.delta {
			t.Errorf("%d + %d reads back as %d", test.base, test.delta, timestampMillis(got))
		}
	}
}

func TestVarintsAreThoseOfTheStandardLibrary(t *testing.T) {
	for _, v := range []int64{0, 1, -1, 63, 64, -64, -65, 8191, 8192, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64} {
		b := appendVarint(nil, v)
		if want := binary.AppendVarint(nil, v); string(b) != string(want) || varintSize(v) != len(want) {
			t.Errorf("%d is %x, of size %d; expected %x", v, b, varintSize(v), want)
		}
		if got, width := varint(b); got != v || width != len(b) {
			t.Errorf("%d reads back as %d", v, got)
		}
		if _, width := varint(b[:len(b)-1]); width != 0 {
			t.Errorf("%d cut short was read", v)
		}
	}
	for _, v := range []uint32{0, 127, 128, 1 << 14, math.MaxUint32} {
		if got, width := uvarint(appendUvarint(nil, v)); got != v || width == 0 {
			t.Errorf("%d reads back as %d", v, got)
		}
	}
	for _, long := range [][]byte{{0xff, 0xff, 0xff, 0xff, 0x7f}, {0x80, 0x80, 0x80, 0x80, 0x80, 0}} {
		if _, width := uvarint(long); width != 0 {
			t.Errorf("%x was read", long)
		}
	}
	if _, width := varint([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2}); width != 0 {
		t.Error("a varint of more than 64 bits was read")
	}
}
