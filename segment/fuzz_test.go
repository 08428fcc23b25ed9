package segment

import (
	"bytes"
	"slices"
	"testing"

	"felix.local/felix/internal/golden"
)

func FuzzDecodeHeader(f *testing.F) {
	for _, name := range []string{"header-v2", "header-v3", "header-v4", "header-v3-zero"} {
		f.Add(golden.Bytes(f, name))
	}
	f.Add(make([]byte, HeaderSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		mustAllocate(t, 0, len(b), func() { _, _ = DecodeHeader(b) })
		h, err := DecodeHeader(b)
		if err != nil {
			asCorruption(t, err)
			return
		}
		if HeaderBlank(b) {
			t.Fatal("a header that decodes is blank")
		}
		// The last word is reserved and not looked at.
		mustEqualBytes(t, b[:28], h.AppendTo(nil)[:28])
	})
}

func FuzzDecodeRecord(f *testing.F) {
	for _, name := range []string{"record-plain", "record-empty", "record-batch-open", "record-batch-continue", "record-generation-start", "record-v6-publisher"} {
		f.Add(golden.Bytes(f, name), false)
	}
	f.Add(append([]byte{0xc0}, make([]byte, 40)...), true)
	f.Add(append([]byte{0x84, 0, 0, 1}, make([]byte, 40)...), true)
	f.Fuzz(func(t *testing.T, b []byte, sealed bool) {
		if b = append([]byte(nil), b...); sealed {
			sealRecord(b)
		}
		mustAllocate(t, 0, len(b), func() { _, _, _ = DecodeRecord(b) })
		h, headerErr := DecodeRecordHeader(b)
		r, n, err := DecodeRecord(b)
		if err != nil {
			asCorruption(t, err)
			return
		}
		if headerErr != nil || h.Size() != int64(n) || n > len(b) {
			t.Fatalf("%d bytes of %d, header %+v, %v", n, len(b), h, headerErr)
		}
		again := make([]byte, EncodedSize(r.Mark, len(r.Payload)))
		EncodeRecord(again, r.Offset, r.TimestampMicros, r.Mark, r.Payload)
		mustEqualBytes(t, b[:n], again)
	})
}

func FuzzDecodeIndex(f *testing.F) {
	f.Add(golden.Bytes(f, "index"), uint64(1))
	f.Add(EncodeIndex(5, []IndexEntry{{5, 32}, {4, 90}, {9, -1}, {9, 4096}}), uint64(5))
	f.Add(EncodeIndex(5, nil)[:20], uint64(5))
	f.Fuzz(func(t *testing.T, b []byte, base uint64) {
		mustAllocate(t, 2, len(b), func() { _, _ = DecodeIndex(b, base) })
		entries, err := DecodeIndex(b, base)
		if _, ok := ReadLastIndexEntry(bytes.NewReader(b), int64(len(b)), base); ok && err != nil {
			t.Fatalf("the last entry is used, but: %v", err)
		}
		if err != nil {
			return
		}
		if cap(entries) > len(b)/IndexEntrySize {
			t.Fatalf("room for %d entries out of %d bytes", cap(entries), len(b))
		}
		for i, e := range entries {
			if e.Position < HeaderSize || (i > 0 && (e.Offset <= entries[i-1].Offset || e.Position <= entries[i-1].Position)) {
				t.Fatalf("entry %d of %v", i, entries)
			}
			if Seek(entries, e.Offset) != e.Position {
				t.Fatalf("entry %d of %v is not found", i, entries)
			}
		}
		again, err := DecodeIndex(EncodeIndex(base, entries), base)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(entries, again) {
			t.Fatalf("%v came back as %v", entries, again)
		}
	})
}
