package segment

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func TestAnIndexEntryIsMadeForTheFirstRecordAndThenEverySpacing(t *testing.T) {
	b := IndexBuilder{Spacing: 100}
	var got []IndexEntry
	pos := int64(HeaderSize)
	for i, size := range []int64{40, 40, 20, 300, 28, 72, 28} {
		if e, ok := b.Observe(uint64(i), pos, size); ok {
			got = append(got, e)
		}
		pos += size
	}
	// 40+40+20 reaches the spacing, so the record of 300 is indexed; it reaches
	// the spacing alone; then 28+72 does.
	mustEqual(t, []IndexEntry{{0, 32}, {3, 132}, {4, 432}, {6, 532}}, got)
	mustEqual(t, int64(28), b.Since)
}

func TestAnIndexBuiltByAppendingScanningAndReopeningIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFile(t)
		spacing := rapid.Int64Range(1, 2000).Draw(t, "spacing")
		reopenAt := rapid.IntRange(0, len(f.records)).Draw(t, "reopen")

		appended := IndexBuilder{Spacing: spacing}
		var want []IndexEntry
		var reopened IndexBuilder
		for i, r := range f.records {
			if i == reopenAt {
				reopened = IndexBuilder{Spacing: spacing, Since: appended.Since}
			}
			e, ok := appended.Observe(r.Offset, f.starts[i], f.starts[i+1]-f.starts[i])
			if ok {
				want = append(want, e)
			}
			if i >= reopenAt {
				if again, ok2 := reopened.Observe(r.Offset, f.starts[i], f.starts[i+1]-f.starts[i]); ok != ok2 || e != again {
					t.Fatalf("record %d: %v %v, after reopening %v %v", i, e, ok, again, ok2)
				}
			}
		}
		res, err := Scan(f.reader(), f.size(), ScanOptions{Spacing: spacing})
		if err != nil || res.Damage != nil {
			t.Fatal(err, res.Damage)
		}
		if res.Since != appended.Since || !bytes.Equal(EncodeIndex(f.header.BaseOffset, want), EncodeIndex(f.header.BaseOffset, res.Entries)) {
			t.Fatalf("appending made %v and %d, scanning %v and %d", want, appended.Since, res.Entries, res.Since)
		}
	})
}

func TestAnIndexComesBackAsItWasWritten(t *testing.T) {
	entries := []IndexEntry{{1, 32}, {5, 4200}, {9, 9000}}
	got, err := DecodeIndex(EncodeIndex(1, entries), 1)
	if err != nil {
		t.Fatal(err)
	}
	mustEqual(t, entries, got)
}

func TestATornLastIndexEntryIsDropped(t *testing.T) {
	entries := []IndexEntry{{1, 32}, {5, 4200}}
	b := EncodeIndex(1, entries)
	for cut := IndexHeaderSize; cut <= len(b); cut++ {
		got, err := DecodeIndex(b[:cut], 1)
		if err != nil {
			t.Fatal(err)
		}
		whole := (cut - IndexHeaderSize) / IndexEntrySize
		mustEqual(t, entries[:whole], got)
		last, ok := ReadLastIndexEntry(bytes.NewReader(b[:cut]), int64(cut), 1)
		if ok != (whole > 0) || (ok && last != entries[whole-1]) {
			t.Fatalf("cut at %d: last entry %v, %v", cut, last, ok)
		}
	}
}

func TestIndexEntriesThatCannotBeAreDropped(t *testing.T) {
	got, err := DecodeIndex(EncodeIndex(0, []IndexEntry{
		{0, 31},
		{0, 0},
		{0, -1}, // inside the header
		{0, 32},
		{0, 99}, // same offset
		{7, 32},
		{8, 20}, // position does not ascend
		{9, 4000},
		{5, 5000}, // offset does not ascend
		{0, 0},    // never written
		{10, 4001},
	}), 0)
	if err != nil {
		t.Fatal(err)
	}
	mustEqual(t, []IndexEntry{{0, 32}, {9, 4000}, {10, 4001}}, got)
}

func TestAnIndexThatCannotBeLoadedSaysWhy(t *testing.T) {
	good := EncodeIndex(7, nil)
	with := func(at int, v byte) []byte {
		b := append([]byte(nil), good...)
		b[at] = v
		return b
	}
	for name, c := range map[string]struct {
		b    []byte
		want Corruption
	}{
		"no bytes":               {nil, Corruption{Kind: Truncated, Expected: 24, Found: 0}},
		"one byte short":         {good[:23], Corruption{Kind: Truncated, Expected: 24, Found: 23}},
		"a segment in its place": {with(3, 'G'), Corruption{Kind: IndexMagic, Found: magicSegment}},
		"version 1":              {with(5, 1), Corruption{Kind: IndexVersion, Found: 1}},
		"version 5":              {with(5, 5), Corruption{Kind: IndexVersion, Found: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeIndex(c.b, 7)
			mustEqual(t, &c.want, asCorruption(t, err))
		})
	}
	t.Run("another base", func(t *testing.T) {
		_, err := DecodeIndex(good, 8)
		mustEqual(t, error(&IndexBaseError{Expected: 8, Found: 7}), err)
		mustEqual(t, "index belongs to a segment with base offset 7, not 8", err.Error())
	})
	t.Run("versions 2 and 4 and any flags are read", func(t *testing.T) {
		for _, b := range [][]byte{with(5, 2), with(5, 4), with(7, 1)} {
			if _, err := DecodeIndex(b, 7); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestSeekGivesTheLastEntryAtOrBefore(t *testing.T) {
	entries := []IndexEntry{{10, 32}, {20, 500}, {30, 900}}
	for offset, want := range map[uint64]int64{0: 32, 9: 32, 10: 32, 19: 32, 20: 500, 29: 500, 30: 900, 1 << 63: 900} {
		if got := Seek(entries, offset); got != want {
			t.Fatalf("offset %d: position %d, want %d", offset, got, want)
		}
	}
	if got := Seek(nil, 5); got != HeaderSize {
		t.Fatal(got)
	}
}

func TestTheLastIndexEntryIsReadOnlyFromAnIndexOfThisSegment(t *testing.T) {
	good := EncodeIndex(7, []IndexEntry{{7, 32}, {9, 100}})
	last := func(b []byte, base uint64) bool {
		_, ok := ReadLastIndexEntry(bytes.NewReader(b), int64(len(b)), base)
		return ok
	}
	if !last(good, 7) || last(good, 8) || last(good[:24], 7) || last(nil, 7) {
		t.Fatal("wrong verdict")
	}
	if last(EncodeIndex(7, []IndexEntry{{7, 31}}), 7) || last(EncodeIndex(7, []IndexEntry{{7, -5}}), 7) {
		t.Fatal("an entry inside the header is used")
	}
	if _, ok := ReadLastIndexEntry(bytes.NewReader(good), int64(len(good))+IndexEntrySize, 7); ok {
		t.Fatal("an entry that is not there is used")
	}
}
