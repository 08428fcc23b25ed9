package segment

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func TestAnIntactSegmentScansToItsEnd(t *testing.T) {
	f := mixed()
	var each []Record
	var starts []int64
	res := scan(t, f.b, ScanOptions{Spacing: 60, Each: func(pos int64, r Record) error {
		r.Payload = append([]byte(nil), r.Payload...)
		each, starts = append(each, r), append(starts, pos)
		return nil
	}})
	mustEqual(t, f.records, each)
	mustEqual(t, f.starts[:len(f.records)], starts)
	mustEqual(t, ScanResult{
		Header: f.header, Size: f.size(), ValidEnd: f.size(), NextOffset: 105, Records: 5,
		FirstTimestampMicros: 10, NewestTimestampMicros: 14, MaxVersionNeeded: 4,
		Entries: []IndexEntry{{100, 32}, {102, f.starts[2]}, {104, f.starts[4]}}, Since: 28,
	}, res)
}

func TestASegmentWithoutRecordsScansToItsHeader(t *testing.T) {
	f := newFile(2, 9)
	mustEqual(t, ScanResult{Header: f.header, Size: 32, ValidEnd: 32, NextOffset: 9, MaxVersionNeeded: 2}, scan(t, f.b, ScanOptions{Spacing: 1}))
}

func TestABadSegmentHeaderIsAnError(t *testing.T) {
	f := mixed()
	for n := range HeaderSize {
		_, err := Scan(bytes.NewReader(f.b[:n]), int64(n), ScanOptions{})
		mustEqual(t, corruptionAt(0, Truncated, HeaderSize, uint64(n)), asCorruption(t, err))
	}
	f.b[0] = 'X'
	_, err := Scan(f.reader(), f.size(), ScanOptions{})
	if c := asCorruption(t, err); c.Kind != SegmentMagic || !c.Site.HasPosition || c.Site.Position != 0 {
		t.Fatal(err)
	}
}

func TestEveryTruncationIsEitherARecordBoundaryOrATornTail(t *testing.T) {
	f := mixed()
	for cut := int64(HeaderSize); cut <= f.size(); cut++ {
		res := scan(t, f.b[:cut], ScanOptions{})
		whole := 0
		for whole < len(f.records) && f.starts[whole+1] <= cut {
			whole++
		}
		if res.Records != uint64(whole) || res.ValidEnd != f.starts[whole] || res.NextOffset != 100+uint64(whole) {
			t.Fatalf("cut at %d: %+v", cut, res)
		}
		if cut == f.starts[whole] {
			if res.Damage != nil {
				t.Fatalf("cut at %d: %v", cut, res.Damage.Cause)
			}
			continue
		}
		needed, left := f.starts[whole+1]-f.starts[whole], cut-f.starts[whole]
		if left < RecordHeaderSize {
			needed = RecordHeaderSize
		}
		d := res.Damage
		mustEqual(t, corruptionAt(f.starts[whole], Truncated, uint64(needed), uint64(left)), d.Cause)
		if d.Position != f.starts[whole] || d.ClaimedEnd != d.Position+needed || d.IntactAfter != 0 {
			t.Fatalf("cut at %d: %+v", cut, d)
		}
	}
}

func TestEveryFlippedBitIsLoudAndNeverShortensTheLog(t *testing.T) {
	f := mixed()
	for bit := range len(f.b) * 8 {
		at := int64(bit / 8)
		b := append([]byte(nil), f.b...)
		b[at] ^= 1 << (bit % 8)
		res, err := Scan(bytes.NewReader(b), f.size(), ScanOptions{})
		if at < HeaderSize {
			if reserved := at >= 28; reserved != (err == nil) {
				t.Fatalf("bit %d of the header: %v", bit, err)
			}
			continue
		}
		if err != nil || res.Damage == nil {
			t.Fatalf("bit %d: %v, no damage seen", bit, err)
		}
		hit := 0
		for f.starts[hit+1] <= at {
			hit++
		}
		if res.Records != uint64(hit) || res.Damage.Position != f.starts[hit] {
			t.Fatalf("bit %d in record %d: %+v", bit, hit, res)
		}
		if want := uint64(len(f.records) - hit - 1); res.Damage.IntactAfter != want {
			t.Fatalf("bit %d in record %d: %d intact records follow, not %d", bit, hit, res.Damage.IntactAfter, want)
		}

		// A read through the same bytes gives what comes before, then the error.
		out, next, full, err := ReadRecords(bytes.NewReader(b), HeaderSize, f.size(), 100, &Budget{Bytes: 1 << 20, Records: 100}, nil)
		if c := asCorruption(t, err); c.Site.Position != f.starts[hit] || full || next != 100+uint64(hit) {
			t.Fatalf("bit %d: next %d, %v", bit, next, err)
		}
		mustEqual(t, f.records[:hit], out)
	}
}

func TestWhatAScanFindsDoesNotDependOnItsBuffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFile(t)
		b := append([]byte(nil), f.b...)
		if len(b) > HeaderSize && rapid.Bool().Draw(t, "damage") {
			b[rapid.IntRange(HeaderSize, len(b)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "mask"))
			b = append(b, make([]byte, rapid.IntRange(0, 9000).Draw(t, "zeros"))...)
		}
		o := ScanOptions{Spacing: 100}
		if rapid.Bool().Draw(t, "each") {
			o.Each = func(int64, Record) error { return nil }
		}
		var results []ScanResult
		for _, buffer := range []int{0, minBufferBytes, minBufferBytes + 1, 5000} {
			o.Buffer = make([]byte, buffer)
			res, err := Scan(bytes.NewReader(b), int64(len(b)), o)
			if err != nil {
				t.Fatal(err)
			}
			results = append(results, res)
		}
		for _, res := range results[1:] {
			mustEqualRapid(t, results[0], res)
		}
	})
}
