package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"testing"

	"felix.local/felix/internal/golden"
)

// FuzzScan walks arbitrary bytes. With sealed set, the checksums are made right
// along the claimed lengths first, so that what lies behind them is reached.
func FuzzScan(f *testing.F) {
	f.Add(golden.Bytes(f, "segment-two-records"), false)
	f.Add(mixed().b, false)
	f.Add(mixed().b, true)
	f.Add(append(plain(3, 40).b, make([]byte, 600)...), false)
	f.Add(append(golden.Bytes(f, "header-v3"), golden.Bytes(f, "record-v6-publisher")...), false)
	f.Fuzz(func(t *testing.T, b []byte, sealed bool) {
		if b = append([]byte(nil), b...); sealed {
			sealSegment(b)
		}
		size := int64(len(b))
		mustScanWithinBounds(t, bytes.NewReader(b), len(b))
		r := &largestRead{r: bytes.NewReader(b)}
		again := []byte(nil)
		var records []Record
		res, err := Scan(r, size, ScanOptions{Spacing: 64, Buffer: make([]byte, minBufferBytes), Each: func(_ int64, rec Record) error {
			dst := make([]byte, EncodedSize(rec.Mark, len(rec.Payload)))
			EncodeRecord(dst, rec.Offset, rec.TimestampMicros, rec.Mark, rec.Payload)
			again = append(again, dst...)
			rec.Payload = append([]byte(nil), rec.Payload...)
			records = append(records, rec)
			return nil
		}})
		if int64(r.largest) > max(size, minBufferBytes) {
			t.Fatalf("a read of %d bytes out of %d", r.largest, size)
		}
		if err != nil {
			asCorruption(t, err)
			return
		}
		mustEqualBytes(t, b[HeaderSize:res.ValidEnd], again)
		checkDamage(t, res)
		checkRescan(t, b, res)
		checkReads(t, b, res, records)
		checkResync(t, b, res, records)
	})
}

func checkDamage(t *testing.T, res ScanResult) {
	d := res.Damage
	if d == nil {
		if res.ValidEnd != res.Size {
			t.Fatalf("no damage, but %d of %d bytes valid", res.ValidEnd, res.Size)
		}
		return
	}
	if d.Position != res.ValidEnd || d.Position >= res.Size || d.ZeroFrom < d.Position || d.ZeroFrom > res.Size ||
		d.ClaimedEnd < d.Position+RecordHeaderSize || d.Cause.Site.Position != d.Position {
		t.Fatalf("%+v in %+v", d, res)
	}
	if d.IntactAfter > uint64(res.Size-d.Position)/RecordHeaderSize {
		t.Fatalf("%d intact records in %d bytes", d.IntactAfter, res.Size-d.Position)
	}
}

// checkRescan holds that cutting at ValidEnd leaves an intact segment, and that
// every index entry is a place to resume at.
func checkRescan(t *testing.T, b []byte, res ScanResult) {
	cut := bytes.NewReader(b[:res.ValidEnd])
	want := res
	want.Size, want.Damage = res.ValidEnd, nil
	again, err := Scan(cut, res.ValidEnd, ScanOptions{Spacing: 64})
	if err != nil {
		t.Fatal(err)
	}
	mustEqual(t, want, again)
	for _, e := range res.Entries {
		resumed, err := Scan(cut, res.ValidEnd, ScanOptions{Spacing: 64, From: &e})
		if err != nil || resumed.Damage != nil || resumed.NextOffset != res.NextOffset || resumed.Since != res.Since {
			t.Fatalf("resumed at %v: %+v, %v", e, resumed, err)
		}
	}
}

// checkReads holds that reading gives what scanning saw, and stops where it did.
func checkReads(t *testing.T, b []byte, res ScanResult, records []Record) {
	base := res.Header.BaseOffset
	for i := range min(len(records), 4) {
		from := base + uint64(i)
		budget := Budget{Bytes: 1 << 30, Records: 1 << 30}
		out, next, full, err := ReadRecords(bytes.NewReader(b), Seek(res.Entries, from), res.Size, from, &budget, nil)
		if (err == nil) != (res.Damage == nil) || full || next != res.NextOffset {
			t.Fatalf("next %d, full %v, %v; scanned %+v", next, full, err, res)
		}
		mustEqualRecords(t, records[i:], out)
	}
	if n := len(records); n > 0 {
		last, ok, err := LastTimestamp(bytes.NewReader(b), res.Entries[len(res.Entries)-1], res.ValidEnd)
		if err != nil || !ok || last != records[n-1].TimestampMicros {
			t.Fatal(last, ok, err)
		}
		pos, err := FindPosition(bytes.NewReader(b), HeaderSize, res.ValidEnd, res.NextOffset)
		if err != nil || pos != res.ValidEnd {
			t.Fatal(pos, err)
		}
	}
}

// checkResync holds that a search finds an intact record where it says so, never
// before the place it starts at, and that one that knows what belongs there finds
// none that the other does not.
func checkResync(t *testing.T, b []byte, res ScanResult, records []Record) {
	r, size := bytes.NewReader(b), int64(len(b))
	for _, from := range []int64{HeaderSize, res.ValidEnd, res.ValidEnd + 1} {
		at, found, err := Resync(r, from, size, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !found && from == HeaderSize && len(records) > 0 {
			t.Fatal("no record is found where there are some")
		}
		near, foundNear, err := ResyncNear(r, from, from, size, res.NextOffset)
		if err != nil || foundNear && (!found || near < at) {
			t.Fatalf("near: %d, %v, %v; any: %d, %v", near, foundNear, err, at, found)
		}
		for _, pos := range []int64{at, near} {
			if pos == 0 {
				continue // nothing was found
			}
			if _, _, err := DecodeRecord(b[pos:]); err != nil || pos < from {
				t.Fatalf("position %d from %d: %v", pos, from, err)
			}
		}
	}
}

// FuzzEncodeScan cuts a segment that was written properly and holds that the
// records before the cut are all there.
func FuzzEncodeScan(f *testing.F) {
	f.Add(uint64(0), uint64(9), []byte{0, 1, 2, 3, 0}, []byte("payload"), uint16(100))
	f.Add(uint64(1)<<63, uint64(0), []byte{0, 0}, []byte{}, uint16(0))
	f.Fuzz(func(t *testing.T, base, timestamp uint64, kinds, payload []byte, cut uint16) {
		seg := newFile(4, base>>1)
		for i, k := range kinds[:min(len(kinds), 30)] {
			m := Mark{Kind: Kind(k % 4)}
			if m.Kind == BatchOpen {
				m.Producer, m.Sequence, m.Len = base, timestamp, uint32(i)
			}
			seg.add(timestamp+uint64(i), m, payload)
		}
		end := max(HeaderSize, seg.size()-int64(cut))
		whole := 0
		for whole < len(seg.records) && seg.starts[whole+1] <= end {
			whole++
		}
		res, err := Scan(bytes.NewReader(seg.b), end, ScanOptions{})
		if err != nil || res.Records != uint64(whole) || res.ValidEnd != seg.starts[whole] {
			t.Fatalf("%+v, %v; want %d records", res, err, whole)
		}
		if torn := end != seg.starts[whole]; torn != (res.Damage != nil) || (torn && res.Damage.Cause.Kind != Truncated) {
			t.Fatalf("%+v", res.Damage)
		}
	})
}

// sealRecord makes the checksums of the record that b starts with right and
// gives its size, as far as it lies in b.
func sealRecord(b []byte) int {
	if len(b) < RecordHeaderSize {
		return len(b)
	}
	binary.BigEndian.PutUint32(b[recordAtHeaderCRC:], crc32.ChecksumIEEE(b[:recordAtHeaderCRC]))
	h, _ := parseRecordHeader(b)
	if h.Size() > int64(len(b)) {
		return len(b)
	}
	reseal(b[:h.Size()])
	return int(h.Size())
}

func sealSegment(b []byte) {
	if len(b) < HeaderSize {
		return
	}
	binary.BigEndian.PutUint32(b[headerAtCRC:], crc32.ChecksumIEEE(b[:headerAtCRC]))
	for b = b[HeaderSize:]; len(b) > 0; {
		b = b[sealRecord(b):]
	}
}

// largestRead remembers the largest buffer it was given.
type largestRead struct {
	r       io.ReaderAt
	largest int
}

func (l *largestRead) ReadAt(b []byte, pos int64) (int, error) {
	l.largest = max(l.largest, len(b))
	n, err := l.r.ReadAt(b, pos)
	if errors.Is(err, io.EOF) && n == len(b) {
		err = nil
	}
	return n, err
}
