package segment

import (
	"bytes"
	"errors"
	"hash/crc32"
	"testing"
)

func TestThePositionOfEveryOffsetIsFound(t *testing.T) {
	f := mixed()
	for i := 0; i <= len(f.records); i++ {
		for _, hint := range f.starts {
			// Hints past the record and hints that are no boundary cost a
			// walk from the start.
			for _, pos := range []int64{hint, hint + 1} {
				got, err := FindPosition(f.reader(), pos, f.size(), 100+uint64(i))
				if err != nil || got != f.starts[i] {
					t.Fatalf("offset %d from %d: %d, %v", 100+i, pos, got, err)
				}
			}
		}
	}
}

func TestAnOffsetThatIsNotThereHasNoPosition(t *testing.T) {
	f := mixed()
	for offset, want := range map[uint64]*Corruption{
		99:  corruptionAt(HeaderSize, OffsetOutOfOrder, 99, 100),
		106: corruptionAt(f.size(), OffsetOutOfOrder, 106, 105),
	} {
		_, err := FindPosition(f.reader(), HeaderSize, f.size(), offset)
		mustEqual(t, want, asCorruption(t, err))
	}
}

func TestInASegmentWithoutRecordsTheEndIsThePosition(t *testing.T) {
	f := newFile(3, 5)
	if got, err := FindPosition(f.reader(), HeaderSize, f.size(), 5); err != nil || got != HeaderSize {
		t.Fatal(got, err)
	}
}

func TestNoPositionIsGivenPastDamage(t *testing.T) {
	f := mixed()
	f.b[f.starts[2]] ^= 1
	if _, err := FindPosition(f.reader(), HeaderSize, f.size(), 104); asCorruption(t, err).Site.Position != f.starts[2] {
		t.Fatal(err)
	}
	if got, err := FindPosition(f.reader(), HeaderSize, f.size(), 101); err != nil || got != f.starts[1] {
		t.Fatal(got, err)
	}
}

func TestTheNewestTimestampIsThatOfTheLastRecord(t *testing.T) {
	f := plain(50, 30)
	r := countingReader{r: f.reader()}
	for name, from := range map[string]IndexEntry{
		"no entry":                          {},
		"the first record's entry":          {0, 32},
		"a later entry":                     {40, f.starts[40]},
		"the last record's entry":           {49, f.starts[49]},
		"an entry with a wrong offset":      {3, f.starts[40]},
		"an entry within a record":          {40, f.starts[40] + 1},
		"an entry at the end of the file":   {50, f.size()},
		"an entry past the end of the file": {51, f.size() + 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok, err := LastTimestamp(&r, from, f.size())
			if err != nil || !ok || got != 1049 {
				t.Fatal(got, ok, err)
			}
		})
	}
	t.Run("a segment without records has none", func(t *testing.T) {
		e := newFile(3, 5)
		if _, ok, err := LastTimestamp(e.reader(), IndexEntry{}, e.size()); ok || err != nil {
			t.Fatal(ok, err)
		}
	})
	t.Run("a damaged header is an error", func(t *testing.T) {
		f.b[f.starts[45]] ^= 1
		if _, ok, err := LastTimestamp(f.reader(), IndexEntry{40, f.starts[40]}, f.size()); ok || asCorruption(t, err).Kind != RecordHeaderChecksum {
			t.Fatal(ok, err)
		}
	})
	t.Run("a failed read is the reader's error", func(t *testing.T) {
		_, _, err := LastTimestamp(&countingReader{r: f.reader(), failAt: 1}, IndexEntry{40, f.starts[40]}, f.size())
		if !errors.Is(err, errDisk) {
			t.Fatal(err)
		}
	})
}

func TestTheChecksumOfAFileIsThatOfItsBytes(t *testing.T) {
	for _, n := range []int{0, 1, minBufferBytes, DefaultBufferBytes, DefaultBufferBytes + 1} {
		b := bytes.Repeat([]byte{0xa5}, n+3)
		got, err := Checksum(bytes.NewReader(b), int64(n))
		if err != nil || got != crc32.ChecksumIEEE(b[:n]) {
			t.Fatal(n, got, err)
		}
	}
}
