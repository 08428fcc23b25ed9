package segment

import (
	"bytes"
	"errors"
	"io"
	"runtime"
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

func TestARecordLargerThanTheBufferIsScanned(t *testing.T) {
	f := newFile(3, 0).add(1, Mark{}, []byte("small"))
	f.add(2, Mark{Kind: BatchOpen, Producer: 7, Len: 1}, bytes.Repeat([]byte("large"), 50_000))
	f.add(3, Mark{}, []byte("small"))
	t.Run("piece by piece when nobody wants to see it", func(t *testing.T) {
		buf := make([]byte, minBufferBytes)
		before := allocated()
		res, err := Scan(f.reader(), f.size(), ScanOptions{Buffer: buf})
		if err != nil || res.Damage != nil || res.Records != 3 {
			t.Fatal(err, res)
		}
		if grown := allocated() - before; grown > 64<<10 {
			t.Fatalf("%d bytes allocated", grown)
		}
	})
	t.Run("in one piece for Each", func(t *testing.T) {
		n := 0
		res := scan(t, f.b, ScanOptions{Each: func(pos int64, r Record) error {
			if pos != f.starts[n] || !bytes.Equal(r.Payload, f.records[n].Payload) {
				t.Fatalf("record %d at %d", n, pos)
			}
			n++
			return nil
		}})
		if res.Records != 3 || n != 3 {
			t.Fatal(res.Records, n)
		}
	})
	t.Run("and damage at its very end is seen", func(t *testing.T) {
		b := append([]byte(nil), f.b...)
		b[f.starts[2]-1] ^= 1
		d := scan(t, b, ScanOptions{}).Damage
		if d == nil || d.Cause.Kind != RecordChecksum || d.ClaimedEnd != f.starts[2] || d.IntactAfter != 1 {
			t.Fatalf("%+v", d)
		}
	})
}

func TestALengthThatTheFileDoesNotHoldAllocatesNothing(t *testing.T) {
	f := newFile(3, 0)
	b := make([]byte, MaxPayloadBytes+RecordHeaderSize)
	EncodeRecord(b, 0, 1, Mark{}, b[:MaxPayloadBytes])
	f.b = append(f.b, b[:RecordHeaderSize+10]...)
	before := allocated()
	res, err := Scan(f.reader(), f.size(), ScanOptions{Each: func(int64, Record) error { return nil }})
	if err != nil || res.Damage == nil || res.Damage.Cause.Kind != Truncated {
		t.Fatal(err, res)
	}
	if _, _, _, err := ReadRecords(f.reader(), HeaderSize, f.size(), 0, &Budget{Bytes: 1 << 40, Records: 1 << 40}, nil); asCorruption(t, err).Kind != Truncated {
		t.Fatal(err)
	}
	if _, _, err := DecodeRecord(f.b[HeaderSize:]); asCorruption(t, err).Kind != Truncated {
		t.Fatal(err)
	}
	if grown := allocated() - before; grown > 64<<10 {
		t.Fatalf("%d bytes allocated", grown)
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func TestAScanResumesAtAnIndexEntry(t *testing.T) {
	f := plain(50, 30)
	whole := scan(t, f.b, ScanOptions{Spacing: 200})
	for _, e := range whole.Entries {
		res := scan(t, f.b, ScanOptions{Spacing: 200, From: &e})
		if res.Damage != nil || res.NextOffset != 50 || res.ValidEnd != f.size() || res.Since != whole.Since || res.Records != 50-e.Offset {
			t.Fatalf("from %v: %+v", e, res)
		}
		mustEqual(t, whole.Entries[len(whole.Entries)-len(res.Entries):], res.Entries)
		mustEqual(t, e, res.Entries[0])
		mustEqual(t, f.records[e.Offset].TimestampMicros, res.FirstTimestampMicros)
	}
}

func TestAScanResumedAtAWrongEntryIsDamaged(t *testing.T) {
	f := plain(5, 30)
	for name, c := range map[string]struct {
		from IndexEntry
		want CorruptionKind
	}{
		"another offset":                     {IndexEntry{3, f.starts[2]}, OffsetOutOfOrder},
		"within a record":                    {IndexEntry{2, f.starts[2] + 1}, RecordHeaderChecksum},
		"in the header":                      {IndexEntry{0, 16}, Truncated},
		"negative":                           {IndexEntry{0, -1}, Truncated},
		"at the end, where no record starts": {IndexEntry{5, f.size()}, Truncated},
		"past the end":                       {IndexEntry{9, f.size() + 1000}, Truncated},
	} {
		t.Run(name, func(t *testing.T) {
			res := scan(t, f.b, ScanOptions{From: &c.from})
			if res.Damage == nil || res.Damage.Cause.Kind != c.want || res.Records != 0 || res.ValidEnd > f.size() {
				t.Fatalf("%+v, %+v", res, res.Damage)
			}
		})
	}
}

func TestTheLastOffsetThereIsNeverBelongsToARecord(t *testing.T) {
	f := newFile(3, 1<<64-2).add(1, Mark{}, []byte("last")).add(2, Mark{}, []byte("one too many"))
	res := scan(t, f.b, ScanOptions{})
	if res.Records != 1 || res.NextOffset != 1<<64-1 || res.Damage == nil || res.Damage.Cause.Kind != OffsetOutOfOrder {
		t.Fatalf("%+v", res)
	}
	_, next, _, err := ReadRecords(f.reader(), HeaderSize, f.size(), 1<<64-2, &Budget{Bytes: 99, Records: 9}, nil)
	if next != 1<<64-1 || asCorruption(t, err).Kind != OffsetOutOfOrder {
		t.Fatal(next, err)
	}
}

func TestAnErrorOfEachEndsTheScanAsItIs(t *testing.T) {
	f := plain(5, 30)
	// Even one that looks like damage.
	stop := corruptionAt(f.starts[2], RecordChecksum, 0, 0)
	res, err := Scan(f.reader(), f.size(), ScanOptions{Each: func(pos int64, _ Record) error {
		if pos == f.starts[2] {
			return stop
		}
		return nil
	}})
	if err != error(stop) || res.Damage != nil || res.Records != 2 || res.ValidEnd != f.starts[2] {
		t.Fatal(err, res)
	}
}

func TestAFailedReadIsAnErrorAndNeverDamage(t *testing.T) {
	f := plain(500, 100)
	f.b[f.starts[250]] ^= 1
	good := countingReader{r: f.reader()}
	buf := make([]byte, minBufferBytes)
	if res, err := Scan(&good, f.size(), ScanOptions{Buffer: buf}); err != nil || res.Damage == nil {
		t.Fatal(err)
	}
	for k := 1; k <= good.reads; k++ {
		_, err := Scan(&countingReader{r: f.reader(), failAt: k}, f.size(), ScanOptions{Buffer: buf})
		if !errors.Is(err, errDisk) {
			t.Fatalf("read %d failed: %v", k, err)
		}
	}
}

func TestAFileShorterThanItsSizeIsNotATornTail(t *testing.T) {
	f := plain(5, 30)
	_, err := Scan(f.reader(), f.size()+1, ScanOptions{})
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
}

func TestAScanReadsEveryByteOnce(t *testing.T) {
	f := plain(2000, 100)
	r := countingReader{r: f.reader()}
	if _, err := Scan(&r, f.size(), ScanOptions{Buffer: make([]byte, minBufferBytes)}); err != nil {
		t.Fatal(err)
	}
	if r.bytes != f.size() {
		t.Fatalf("%d bytes read of %d", r.bytes, f.size())
	}
}
