package segment

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix.local/felix/internal/golden"
)

func mustEqualBytes(t testing.TB, want, got []byte) {
	t.Helper()
	if !bytes.Equal(want, got) {
		t.Fatalf("bytes differ\nwant\n%sgot\n%s", hex.Dump(want), hex.Dump(got))
	}
}

func TestGoldenSegmentHeaders(t *testing.T) {
	for name, h := range map[string]Header{
		"header-v2":      {Version: 2, BaseOffset: 1, CreatedAtMicros: 2},
		"header-v3":      {Version: 3, BaseOffset: 1, CreatedAtMicros: 2},
		"header-v4":      {Version: 4, BaseOffset: 1, CreatedAtMicros: 2},
		"header-v3-zero": {Version: 3},
	} {
		t.Run(name, func(t *testing.T) {
			want := golden.Bytes(t, name)
			mustEqualBytes(t, want, h.AppendTo(nil))
			got, err := DecodeHeader(want)
			if err != nil || got != h {
				t.Fatalf("decoded %+v, %v; want %+v", got, err, h)
			}
		})
	}
}

func TestGoldenRecords(t *testing.T) {
	for name, r := range map[string]Record{
		"record-plain":            {Offset: 7, TimestampMicros: 9, Payload: []byte("hi"), Checksum: 0x2402152c},
		"record-empty":            {Payload: []byte{}, Checksum: 0x715c81e1},
		"record-batch-open":       {Offset: 7, TimestampMicros: 9, Mark: Mark{Kind: BatchOpen, Producer: 42, Sequence: 5, Len: 3}, Payload: []byte("hi"), Checksum: 0x7516e515},
		"record-batch-continue":   {Offset: 8, TimestampMicros: 9, Mark: Mark{Kind: BatchContinue}, Payload: []byte("yo"), Checksum: 0x2b03193a},
		"record-generation-start": {Offset: 10, TimestampMicros: 9, Mark: Mark{Kind: GenerationStart}, Payload: GenerationStartPayload(3), Checksum: 0x81259666},
	} {
		t.Run(name, func(t *testing.T) {
			want := golden.Bytes(t, name)
			dst := make([]byte, EncodedSize(r.Mark, len(r.Payload)))
			if n := EncodeRecord(dst, r.Offset, r.TimestampMicros, r.Mark, r.Payload); n != len(want) {
				t.Fatalf("encoded to %d bytes, want %d", n, len(want))
			}
			mustEqualBytes(t, want, dst)
			got, n, err := DecodeRecord(append(want, "more"...))
			if err != nil || n != len(want) {
				t.Fatalf("decoded %d bytes, %v; want %d", n, err, len(want))
			}
			if diff := cmp.Diff(r, got); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestGoldenGenerationStartNamesItsGeneration(t *testing.T) {
	r, _, err := DecodeRecord(golden.Bytes(t, "record-generation-start"))
	if err != nil {
		t.Fatal(err)
	}
	if generation, ok := r.Generation(); !ok || generation != 3 {
		t.Fatalf("generation %d, %v", generation, ok)
	}
}

func TestGoldenRecordOfALaterFormatIsTooLargeAndNeverTorn(t *testing.T) {
	b := golden.Bytes(t, "record-v6-publisher")
	_, _, err := DecodeRecord(b)
	want := &Corruption{Kind: RecordTooLarge, Expected: MaxPayloadBytes, Found: 0x08000005}
	if diff := cmp.Diff(want, asCorruption(t, err)); diff != "" {
		t.Fatal(diff)
	}
	file := append(Header{Version: 3, BaseOffset: 7}.AppendTo(nil), b...)
	res, err := Scan(bytes.NewReader(file), int64(len(file)), ScanOptions{})
	if err != nil || res.Damage == nil || res.Damage.Cause.Kind != RecordTooLarge {
		t.Fatalf("scan: %+v, %v", res, err)
	}
}

func TestGoldenIndex(t *testing.T) {
	want := golden.Bytes(t, "index")
	entries := []IndexEntry{{Offset: 7, Position: 32}}
	mustEqualBytes(t, want, EncodeIndex(1, entries))
	got, err := DecodeIndex(want, 1)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(entries, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestGoldenSegmentOfTwoRecords(t *testing.T) {
	want := golden.Bytes(t, "segment-two-records")
	b := Header{Version: 3, CreatedAtMicros: 2}.AppendTo(nil)
	for i, payload := range []string{"hi", "yo"} {
		dst := make([]byte, EncodedSize(Mark{}, len(payload)))
		EncodeRecord(dst, uint64(i), 9, Mark{}, []byte(payload))
		b = append(b, dst...)
	}
	mustEqualBytes(t, want, b)
	if len(want) != 92 {
		t.Fatalf("%d bytes", len(want))
	}
	sum, err := Checksum(bytes.NewReader(want), int64(len(want)))
	if err != nil || sum != 0x813060ea {
		t.Fatalf("seal checksum 0x%08x, %v", sum, err)
	}
}

func TestSizesAreThoseOfTheFormat(t *testing.T) {
	if HeaderSize != 32 || RecordHeaderSize != 28 || TagSize != 20 || IndexHeaderSize != 24 || IndexEntrySize != 16 {
		t.Fatal("a fixed size changed")
	}
	if MaxPayloadBytes != 67108864 {
		t.Fatal("the payload limit changed")
	}
	if n := EncodedSize(Mark{Kind: GenerationStart}, 8); n != 36 {
		t.Fatalf("a generation start takes %d bytes", n)
	}
	if n := EncodedSize(Mark{Kind: BatchOpen}, 5); n != 53 {
		t.Fatalf("a record opening a batch takes %d bytes", n)
	}
}

func asCorruption(t testing.TB, err error) *Corruption {
	t.Helper()
	var c *Corruption
	if !errors.As(err, &c) {
		t.Fatalf("%v is no *Corruption", err)
	}
	return c
}
