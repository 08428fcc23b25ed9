package segment

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"testing"
)

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
