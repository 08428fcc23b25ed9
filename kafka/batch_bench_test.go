package kafka

import (
	"fmt"
	"testing"

	"felix.local/felix/broker"
)

// BenchmarkDecode and BenchmarkEncode are the work on a batch of 100 records of 1
// KiB, which is all there is beside copying and system calls.
func BenchmarkDecode(b *testing.B) {
	batch := encode(hundred())
	d := newDecoder(1000, 0)
	pool := new(buffers)
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		if err := d.decode(batch); err != nil {
			b.Fatal(err)
		}
		d.release(pool)
	}
}

func BenchmarkEncode(b *testing.B) {
	records := hundred()
	buf := encode(records)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = appendBatch(buf[:0], records, 1<<20, true)
	}
}

func hundred() []broker.Record {
	var records []broker.Record
	for i := range 100 {
		records = append(records, broker.Record{
			Offset:  uint64(i),
			Message: broker.Message{Key: []byte(fmt.Sprint("key ", i)), Value: make([]byte, 1024), TimestampMicros: 1_700_000_000_000_000},
		})
	}
	return records
}

// TestDecodingAndEncodingABatchAllocateNothing holds once their buffers have grown.
func TestDecodingAndEncodingABatchAllocateNothing(t *testing.T) {
	records := hundred()
	batch := encode(records)
	d, pool := newDecoder(1000, 0), new(buffers)
	decode := func() {
		if err := d.decode(batch); err != nil {
			t.Fatal(err)
		}
		d.release(pool)
	}
	decode()
	if n := testing.AllocsPerRun(100, decode); n > 0 {
		t.Errorf("decoding allocates %v times", n)
	}
	var out []byte
	if n := testing.AllocsPerRun(100, func() { out, _ = appendBatch(out[:0], records, 1<<20, true) }); n > 0 {
		t.Errorf("encoding allocates %v times", n)
	}
}
