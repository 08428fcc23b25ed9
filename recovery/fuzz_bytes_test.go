package recovery

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io/fs"
	"runtime"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/segment"
)

// FuzzRecoveryOfBytes opens a directory of two segments, an index and a mark that
// hold arbitrary bytes. With sealed set, the checksums in the segments are made
// right first, along the lengths they claim. An empty mark is none, and an empty
// index likewise.
func FuzzRecoveryOfBytes(f *testing.F) {
	one, two := smallSegment(0, 3), smallSegment(3, 2)
	for _, seed := range []struct {
		first, second, index, mark []byte
	}{
		{one, two, indexOf(one, spacing), Mark{Segment: 1, Synced: int64(len(two))}.AppendTo(nil)},
		{one, two[:len(two)-3], nil, Mark{Segment: 1, Synced: 64}.AppendTo(nil)},
		{zeroed(one, 64, 96), two, indexOf(one, spacing), Mark{Segment: 0, Synced: 64}.AppendTo(nil)},
		{one[:len(one)-9], headerBytes(3), nil, Mark{Segment: 0, Synced: 32}.AppendTo(nil)},
		{nil, smallSegment(0, 1), nil, nil},
		{nil, append(bytes.Clone(two), make([]byte, 40)...), nil, nil},
		{one, make([]byte, 40), []byte("FLSI"), []byte("FLSM")},
		{segment.Header{Version: 2}.AppendTo(nil), segment.Header{Version: 4}.AppendTo(nil), nil, nil},
	} {
		f.Add(seed.first, seed.second, seed.index, seed.mark, false, false)
		f.Add(seed.first, seed.second, seed.index, seed.mark, true, true)
	}
	f.Fuzz(func(t *testing.T, first, second, index, mark []byte, sealed, verifyAll bool) {
		const most = 1 << 16
		if len(first)+len(second)+len(index) > most {
			t.Skip("longer files only repeat what shorter ones hold")
		}
		s := newShard(t)
		for id, b := range [][]byte{first, second} {
			if b = bytes.Clone(b); sealed {
				seal(b)
			}
			s.write(segment.LogName(uint64(id)), b)
		}
		if len(index) > 0 {
			s.write(segment.IndexName(0), index)
		}
		if len(mark) > 0 {
			s.write(MarkName, mark)
		}
		p := testPolicy()
		p.VerifyAllOnOpen = verifyAll
		checkInspectBounds(t, s, p, len(first)+len(second)+len(index))
		checkAnyDirectory(t, s, p)
	})
}

// smallSegment has records of 32 bytes each: the smaller an input, the more of them
// a fuzzer tries.
func smallSegment(base uint64, n int) []byte {
	b := headerBytes(base)
	for i := range uint64(n) {
		b = appendRecord(b, base+i, []byte("tiny"))
	}
	return b
}

// checkInspectBounds holds that looking at a directory takes one buffer and a few
// times its size of memory, and no look at any byte more than a few times.
func checkInspectBounds(t *testing.T, s *shard, p Policy, size int) {
	t.Helper()
	counted := &countingFS{FS: device.OS()}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := Inspect(counted, s.dir, "orders/0", p); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	const times, slack = 16, bufferBytes + 64<<10
	if got, bound := after.TotalAlloc-before.TotalAlloc, uint64(times*size+slack); got > bound {
		t.Fatalf("%d bytes allocated for files of %d, %d are allowed", got, size, bound)
	}
	if bound := int64(times*size + 4096); counted.bytes > bound {
		t.Fatalf("%d bytes read of files of %d, %d are allowed", counted.bytes, size, bound)
	}
}

// countingFS counts the bytes that are read.
type countingFS struct {
	device.FS
	bytes int64
}

func (c *countingFS) OpenFile(path string, mode device.OpenMode, perm fs.FileMode) (device.File, error) {
	f, err := c.FS.OpenFile(path, mode, perm)
	if err != nil {
		return nil, err
	}
	return &countingFile{File: f, fs: c}, nil
}

type countingFile struct {
	device.File
	fs *countingFS
}

func (c *countingFile) ReadAt(b []byte, pos int64) (int, error) {
	n, err := c.File.ReadAt(b, pos)
	c.fs.bytes += int64(n)
	return n, err
}

// seal makes the checksums of a segment right, along the lengths that its records
// claim. A record that claims more than there is gets a right header.
func seal(b []byte) {
	if len(b) < segment.HeaderSize {
		return
	}
	binary.BigEndian.PutUint32(b[24:], crc32.ChecksumIEEE(b[:24]))
	for b = b[segment.HeaderSize:]; len(b) >= segment.RecordHeaderSize; {
		binary.BigEndian.PutUint32(b[20:], crc32.ChecksumIEEE(b[:20]))
		h, err := segment.DecodeRecordHeader(b)
		if err != nil || h.Size() > int64(len(b)) {
			return
		}
		sum := crc32.ChecksumIEEE(b[:24])
		sum = crc32.Update(sum, crc32.IEEETable, b[segment.RecordHeaderSize:h.Size()])
		binary.BigEndian.PutUint32(b[24:], sum)
		b = b[h.Size():]
	}
}
