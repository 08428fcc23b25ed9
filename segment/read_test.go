package segment

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// read reads f from the start of the file.
func read(t testing.TB, f *file, from uint64, b *Budget) ([]Record, uint64, bool) {
	t.Helper()
	out, next, full, err := ReadRecords(f.reader(), HeaderSize, f.size(), from, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out, next, full
}

func TestABudgetOfBytesCountsPayloadsAndLetsTheFirstRecordPass(t *testing.T) {
	f := plain(5, 10)
	f.add(9, Mark{}, nil).add(9, Mark{}, nil).add(9, Mark{}, []byte("x"))
	for _, c := range []struct {
		from  uint64
		bytes int64
		count int
		full  bool
	}{
		{0, 0, 1, true},
		{0, 9, 1, true},
		{0, 10, 1, true},
		{0, 19, 1, true},
		{0, 20, 2, true},
		{0, 49, 4, true},
		{0, 50, 7, true},
		{0, 51, 8, false},
		{0, 1 << 40, 8, false},
		{4, 10, 3, true}, // empty records fit in nothing
		{5, 0, 2, true},
		{7, 0, 1, false},
		{8, 0, 0, false},
		{0, -5, 1, true},
	} {
		b := Budget{Bytes: c.bytes, Records: 100}
		out, next, full := read(t, f, c.from, &b)
		if len(out) != c.count || next != c.from+uint64(c.count) || full != c.full {
			t.Fatalf("%+v: %d records, next %d, full %v", c, len(out), next, full)
		}
		mustEqual(t, f.records[c.from:next], out)
	}
}

func TestABudgetOfRecordsEndsTheRead(t *testing.T) {
	f := plain(5, 10)
	for n := range 7 {
		b := Budget{Bytes: 1 << 20, Records: n}
		out, next, full := read(t, f, 0, &b)
		if want := min(n, 5); len(out) != want || next != uint64(want) || full != (n < 5) {
			t.Fatalf("%d records allowed: %d, next %d, full %v", n, len(out), next, full)
		}
	}
}

func TestOneBudgetGoesAcrossSegments(t *testing.T) {
	f := plain(2, 10)
	b := Budget{Bytes: 15, Records: 10}
	if out, _, full := read(t, f, 1, &b); len(out) != 1 || full {
		t.Fatal(len(out), full)
	}
	// Ten bytes do not fit in the five that are left, and this is not the first
	// record of the read.
	if out, next, full := read(t, f, 0, &b); len(out) != 0 || next != 0 || !full {
		t.Fatal(len(out), next, full)
	}
	b = Budget{Bytes: 15, Records: 10}
	if out, _, full := read(t, f, 0, &b); len(out) != 1 || !full {
		t.Fatal(len(out), full)
	}
}

func TestEveryRecordIsReadWhateverThePositionHint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFile(t)
		base, n := f.header.BaseOffset, len(f.records)
		from := rapid.IntRange(0, n).Draw(t, "from")
		// Any position: boundaries before from, after it, or no boundary at all.
		pos := rapid.Int64Range(-1, f.size()+1).Draw(t, "pos")
		if rapid.Bool().Draw(t, "boundary") {
			pos = f.starts[rapid.IntRange(0, n).Draw(t, "start")]
		}
		b := Budget{Bytes: rapid.Int64Range(0, 60_000).Draw(t, "bytes"), Records: rapid.IntRange(1, 50).Draw(t, "count")}
		if rapid.Bool().Draw(t, "page") {
			b.Page = make([]byte, rapid.IntRange(0, 100_000).Draw(t, "page bytes"))
		}
		model := b
		want := 0
		for from+want < n && model.Admit(int64(len(f.records[from+want].Payload))) {
			want++
		}
		out, next, full, err := ReadRecords(f.reader(), pos, f.size(), base+uint64(from), &b, nil)
		if err != nil {
			t.Fatal(err)
		}
		if next != base+uint64(from+want) || full != (from+want < n) || b.Bytes != model.Bytes || b.Records != model.Records {
			t.Fatalf("next %d full %v left %d/%d; want %d %d/%d", next, full, b.Bytes, b.Records, want, model.Bytes, model.Records)
		}
		mustEqualRapid(t, f.records[from:from+want], out)
	})
}

func TestARecordLargerThanAPageIsReadWhole(t *testing.T) {
	f := newFile(3, 0).add(1, Mark{}, []byte("small"))
	f.add(2, Mark{}, bytes.Repeat([]byte{7}, 3<<20)).add(3, Mark{}, []byte("small"))
	out, next, full := read(t, f, 0, &Budget{Bytes: 4 << 20, Records: 10})
	if next != 3 || full {
		t.Fatal(next, full)
	}
	mustEqualRecords(t, f.records, out)
}

func TestPayloadsOfOneReadDoNotOverwriteEachOther(t *testing.T) {
	f := plain(3000, 1000)
	for name, page := range map[string][]byte{"allocated pages": nil, "the caller's page": make([]byte, 100_000)} {
		t.Run(name, func(t *testing.T) {
			out, next, _ := read(t, f, 0, &Budget{Bytes: 1 << 40, Records: 1 << 40, Page: page})
			if next != 3000 {
				t.Fatal(next)
			}
			mustEqualRecords(t, f.records, out)
		})
	}
}

func TestRecordsAreAppendedToWhatIsThere(t *testing.T) {
	f := plain(2, 10)
	first := Record{Offset: 99}
	out, _, _, err := ReadRecords(f.reader(), HeaderSize, f.size(), 0, &Budget{Bytes: 99, Records: 9}, []Record{first})
	if err != nil {
		t.Fatal(err)
	}
	mustEqual(t, append([]Record{first}, f.records...), out)
}

func TestAReadTakesFewPreads(t *testing.T) {
	f := plain(10_000, 128)
	whole := scan(t, f.b, ScanOptions{Spacing: 4096})
	r := countingReader{r: f.reader()}
	from := uint64(5000)
	out, _, full, err := ReadRecords(&r, Seek(whole.Entries, from), f.size(), from, &Budget{Bytes: 256 << 10, Records: 65536}, nil)
	if err != nil || !full || len(out) != 2048 {
		t.Fatal(len(out), full, err)
	}
	if r.reads > 2 || r.bytes > 400<<10 {
		t.Fatalf("%d reads of %d bytes", r.reads, r.bytes)
	}
}

func TestOneRecordDoesNotReadAPageForMany(t *testing.T) {
	f := plain(10_000, 128)
	r := countingReader{r: f.reader()}
	out, _, _, err := ReadRecords(&r, HeaderSize, f.size(), 0, &Budget{Bytes: 1 << 20, Records: 1}, nil)
	if err != nil || len(out) != 1 || r.bytes > 80<<10 {
		t.Fatal(len(out), r.bytes, err)
	}
}

func TestPayloadsBeforeTheFirstRecordWantedAreNotRead(t *testing.T) {
	f := newFile(3, 0)
	for range 10 {
		f.add(1, Mark{}, make([]byte, 1<<20))
	}
	r := countingReader{r: f.reader()}
	out, _, _, err := ReadRecords(&r, HeaderSize, f.size(), 9, &Budget{Bytes: 1000, Records: 10}, nil)
	if err != nil || len(out) != 1 {
		t.Fatal(len(out), err)
	}
	if r.bytes > 2<<20 {
		t.Fatalf("%d bytes read", r.bytes)
	}
}

func TestDamageIsReportedAfterWhatCameBeforeIt(t *testing.T) {
	f := plain(5, 10)
	for name, c := range map[string]struct {
		wreck func(b []byte, start int64)
		want  CorruptionKind
	}{
		"payload": {func(b []byte, start int64) { b[start+30] ^= 1 }, RecordChecksum},
		"header":  {func(b []byte, start int64) { b[start] ^= 1 }, RecordHeaderChecksum},
		"offset": {func(b []byte, start int64) {
			b[start+11]++
			reseal(b[start : start+38])
		}, OffsetOutOfOrder},
		"flags":  {func(b []byte, start int64) { b[start] = 0xc0; reseal(b[start : start+38]) }, RecordFlags},
		"length": {func(b []byte, start int64) { b[start+2] = 1; reseal(b[start : start+38]) }, Truncated},
	} {
		t.Run(name, func(t *testing.T) {
			b := append([]byte(nil), f.b...)
			c.wreck(b, f.starts[3])
			out, next, full, err := ReadRecords(bytes.NewReader(b), HeaderSize, f.size(), 1, &Budget{Bytes: 1000, Records: 10}, nil)
			if got := asCorruption(t, err); got.Kind != c.want || got.Site.Position != f.starts[3] {
				t.Fatal(err)
			}
			if next != 3 || full {
				t.Fatal(next, full)
			}
			mustEqual(t, f.records[1:3], out)
		})
	}
}

func TestAGapBeforeTheFirstRecordWantedIsDamage(t *testing.T) {
	f := newFile(3, 0).addAt(0, 1, Mark{}, nil).addAt(5, 1, Mark{}, nil)
	_, _, _, err := ReadRecords(f.reader(), HeaderSize, f.size(), 3, &Budget{Bytes: 9, Records: 9}, nil)
	mustEqual(t, corruptionAt(f.starts[1], OffsetOutOfOrder, 3, 5), asCorruption(t, err))
	_, _, _, err = ReadRecords(f.reader(), HeaderSize, f.size(), 6, &Budget{Bytes: 9, Records: 9}, nil)
	mustEqual(t, corruptionAt(f.starts[1], OffsetOutOfOrder, 1, 5), asCorruption(t, err))
}

func TestAFailedReadOfRecordsIsTheReadersError(t *testing.T) {
	f := plain(10, 1000)
	_, _, _, err := ReadRecords(&countingReader{r: f.reader(), failAt: 1}, HeaderSize, f.size(), 0, &Budget{Bytes: 9, Records: 9}, nil)
	if !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
}
