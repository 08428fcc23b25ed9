package segment

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

func TestARecordComesBackAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFile(t)
		b := f.b[HeaderSize:]
		for i, want := range f.records {
			got, n, err := DecodeRecord(b)
			if err != nil || int64(n) != f.starts[i+1]-f.starts[i] {
				t.Fatalf("record %d: %d bytes, %v", i, n, err)
			}
			if got.Offset != want.Offset || got.Mark != want.Mark || !bytes.Equal(got.Payload, want.Payload) {
				t.Fatalf("record %d: %+v, want %+v", i, got, want)
			}
			sum := crc32.ChecksumIEEE(append(append([]byte(nil), b[:24]...), b[28:n]...))
			if got.Checksum != sum || binary.BigEndian.Uint32(b[20:]) != crc32.ChecksumIEEE(b[:20]) {
				t.Fatalf("record %d: checksums differ from those over the plain bytes", i)
			}
			b = b[n:]
		}
	})
}

func TestDecodingOnesOwnBytesGivesWhatVerifyingGives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFile(t)
		for b := f.b[HeaderSize:f.starts[len(f.starts)-1]]; len(b) > 0; {
			want, size, err := DecodeRecord(b)
			if err != nil {
				t.Fatal(err)
			}
			got, n := DecodeOwn(b)
			if n != size || !reflect.DeepEqual(got, want) || cap(got.Payload) != len(got.Payload) {
				t.Fatalf("%+v in %d bytes, want %+v in %d", got, n, want, size)
			}
			b = b[n:]
		}
	})
}

func TestDecodingWhatIsNoRecordOfOnesOwnPanics(t *testing.T) {
	record := make([]byte, 40)
	EncodeRecord(record, 7, 9, Mark{}, []byte("hello world!"))
	twoKinds := bytes.Clone(record)
	binary.BigEndian.PutUint32(twoKinds, 0xc0000000)
	for name, b := range map[string][]byte{
		"nothing": nil, "27 bytes": record[:27], "39 of 40 bytes": record[:39], "two kinds": twoKinds,
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			DecodeOwn(b)
		})
	}
}

// reseal makes the checksums of the record that b starts with right again, so
// that only the field under test is wrong.
func reseal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[20:], crc32.ChecksumIEEE(b[:20]))
	binary.BigEndian.PutUint32(b[24:], crc32.Update(crc32.ChecksumIEEE(b[:24]), crc32.IEEETable, b[28:]))
	return b
}

func TestRecordChecksRunInOrder(t *testing.T) {
	record := func(word uint32) []byte {
		b := make([]byte, 40)
		EncodeRecord(b, 7, 9, Mark{}, []byte("hello world!"))
		binary.BigEndian.PutUint32(b, word)
		return reseal(b)
	}
	for name, c := range map[string]struct {
		b    []byte
		want Corruption
	}{
		"an empty buffer":                     {nil, Corruption{Kind: Truncated, Expected: 28, Found: 0}},
		"27 bytes of garbage are short first": {bytes.Repeat([]byte{0xff}, 27), Corruption{Kind: Truncated, Expected: 28, Found: 27}},
		"an all-zero header fails its CRC":    {make([]byte, 28), Corruption{Kind: RecordHeaderChecksum, Expected: 0, Found: 0x0fd59b8d}},
		"two kinds come before the length":    {record(0xc8000000), Corruption{Kind: RecordFlags, Found: 0xc8000000}},
		"open and generation start":           {record(0xa0000002), Corruption{Kind: RecordFlags, Found: 0xa0000002}},
		"continue and generation start":       {record(0x60000002), Corruption{Kind: RecordFlags, Found: 0x60000002}},
		"all three kinds":                     {record(0xe0000002), Corruption{Kind: RecordFlags, Found: 0xe0000002}},
		"too large comes before short":        {record(MaxPayloadBytes + 1), Corruption{Kind: RecordTooLarge, Expected: MaxPayloadBytes, Found: MaxPayloadBytes + 1}},
		"the largest length there is":         {record(1<<29 - 1), Corruption{Kind: RecordTooLarge, Expected: MaxPayloadBytes, Found: 1<<29 - 1}},
		"the limit itself is only short":      {record(MaxPayloadBytes), Corruption{Kind: Truncated, Expected: MaxPayloadBytes + 28, Found: 40}},
		"a tag counts":                        {record(bitBatchOpen | 12), Corruption{Kind: Truncated, Expected: 60, Found: 40}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := DecodeRecord(c.b)
			mustEqual(t, &c.want, asCorruption(t, err))
		})
	}
	t.Run("short comes before the record checksum", func(t *testing.T) {
		b := record(12)
		b[30] ^= 1
		_, _, err := DecodeRecord(b[:39])
		if kind := asCorruption(t, err).Kind; kind != Truncated {
			t.Fatal(kind)
		}
		_, _, err = DecodeRecord(b)
		if kind := asCorruption(t, err).Kind; kind != RecordChecksum {
			t.Fatal(kind)
		}
	})
	t.Run("the header CRC comes before everything it covers", func(t *testing.T) {
		b := record(0xc8000000)
		b[20] ^= 1
		_, _, err := DecodeRecord(b)
		if kind := asCorruption(t, err).Kind; kind != RecordHeaderChecksum {
			t.Fatal(kind)
		}
	})
}

func TestARecordOfTheLargestSizeIsAllowed(t *testing.T) {
	payload := make([]byte, MaxPayloadBytes)
	payload[len(payload)-1] = 1
	dst := make([]byte, EncodedSize(Mark{Kind: BatchOpen}, len(payload)))
	if len(dst) != MaxRecordBytes {
		t.Fatal(len(dst))
	}
	EncodeRecord(dst, 1, 2, Mark{Kind: BatchOpen}, payload)
	if r, n, err := DecodeRecord(dst); err != nil || n != len(dst) || len(r.Payload) != MaxPayloadBytes {
		t.Fatal(n, err)
	}
}

func TestEveryFlippedBitOfARecordIsSeen(t *testing.T) {
	f := mixed()
	for i := range f.records {
		good := f.b[f.starts[i]:f.starts[i+1]]
		for bit := range len(good) * 8 {
			b := append([]byte(nil), good...)
			b[bit/8] ^= 1 << (bit % 8)
			_, _, err := DecodeRecord(b)
			want := RecordChecksum
			if bit < 24*8 {
				want = RecordHeaderChecksum
			}
			if kind := asCorruption(t, err).Kind; kind != want {
				t.Fatalf("record %d, bit %d: %v", i, bit, err)
			}
		}
	}
}

func TestEncodingRefusesWhatItsCallerShouldHave(t *testing.T) {
	mustPanic := func(name string, f func()) {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Fatal("no panic")
				}
			}()
			f()
		})
	}
	dst := make([]byte, 100)
	mustPanic("a payload over the limit", func() { EncodeRecord(dst, 0, 0, Mark{}, make([]byte, MaxPayloadBytes+1)) })
	mustPanic("a buffer one byte short", func() { EncodeRecord(dst[:29], 0, 0, Mark{}, []byte("hi")) })
	mustPanic("a kind that does not exist", func() { EncodeRecord(dst, 0, 0, Mark{Kind: 4}, []byte("hi")) })
	if !bytes.Equal(dst, make([]byte, 100)) {
		t.Fatal("something was written before the panic")
	}
}

func TestEncodingWritesNothingPastTheRecord(t *testing.T) {
	dst := bytes.Repeat([]byte{0xaa}, 60)
	n := EncodeRecord(dst, 1, 2, Mark{Kind: BatchOpen, Producer: 1}, []byte("hi"))
	if n != 50 || !bytes.Equal(dst[n:], bytes.Repeat([]byte{0xaa}, 10)) {
		t.Fatalf("%d bytes: %x", n, dst)
	}
}

func TestEncodingAndDecodingAllocateNothing(t *testing.T) {
	payload, dst := make([]byte, 300), make([]byte, 400)
	m := Mark{Kind: BatchOpen, Producer: 1, Sequence: 2, Len: 3}
	if n := testing.AllocsPerRun(100, func() { EncodeRecord(dst, 1, 2, m, payload) }); n != 0 {
		t.Fatalf("encoding allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, _, _ = DecodeRecord(dst) }); n != 0 {
		t.Fatalf("decoding allocates %v times", n)
	}
}

func TestAPayloadCannotBeAppendedToOverItsNeighbour(t *testing.T) {
	f := plain(2, 4)
	r, _, err := DecodeRecord(f.b[HeaderSize:])
	if err != nil {
		t.Fatal(err)
	}
	_ = append(r.Payload, "overwritten"...)
	if res := scan(t, f.b, ScanOptions{}); res.Damage != nil {
		t.Fatal(res.Damage.Cause)
	}
}

func TestOnlyAGenerationStartWithAnEightBytePayloadNamesAGeneration(t *testing.T) {
	for _, r := range []Record{
		{Mark: Mark{Kind: Plain}, Payload: make([]byte, 8)},
		{Mark: Mark{Kind: GenerationStart}, Payload: make([]byte, 7)},
		{Mark: Mark{Kind: GenerationStart}, Payload: make([]byte, 9)},
	} {
		if _, ok := r.Generation(); ok {
			t.Fatalf("%+v", r)
		}
	}
}

func TestEachKindNeedsTheVersionThatBroughtIt(t *testing.T) {
	for kind, want := range map[Kind]uint16{Plain: 2, BatchOpen: 3, BatchContinue: 3, GenerationStart: 4} {
		if got := RequiredVersion(kind); got != want {
			t.Fatalf("%v needs version %d", kind, got)
		}
	}
}
