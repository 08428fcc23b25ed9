package engine_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"felix.local/felix/engine"
	"felix.local/felix/segment"
)

// largeSegment makes a shard of one segment of so many bytes, with records of this
// payload, and gives its size. It has no index and no mark, so all of it is
// scanned at open.
func largeSegment(t testing.TB, root string, size int64, payloadBytes int) int64 {
	t.Helper()
	dir := filepath.Join(root, testKey(0).DirName())
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, segment.LogName(0)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	written := int64(segment.HeaderSize)
	if _, err := w.Write((segment.Header{Version: 3, CreatedAtMicros: fixedMicros}).AppendTo(nil)); err != nil {
		t.Fatal(err)
	}
	body := payload(1, payloadBytes)
	record := make([]byte, segment.EncodedSize(segment.Mark{}, payloadBytes))
	for offset := uint64(0); written+int64(len(record)) <= size; offset++ {
		segment.EncodeRecord(record, offset, fixedMicros, segment.Mark{}, body)
		if _, err := w.Write(record); err != nil {
			t.Fatal(err)
		}
		written += int64(len(record))
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return written
}

const gib = 1 << 30

// What the scan takes is printed and belongs to the benchmark; how much memory it
// takes is held here, in a process of its own.
func TestRecoveryOfALargeSegmentTakesLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("writes and scans a large segment")
	}
	wanted := int64(gib / 4)
	if long() {
		wanted = gib
	}
	measure := func(root string) usage {
		var u usage
		out := runChild(t, "open large", "ENGINE_TEST_ROOT="+root)
		if err := json.Unmarshal([]byte(out), &u); err != nil {
			t.Fatal(err)
		}
		return u
	}
	empty := measure(t.TempDir())
	root := t.TempDir()
	size := largeSegment(t, root, wanted, 1024)
	u := measure(root)
	t.Logf("a segment of %d bytes was opened in %.2f s, flush and reading from the device included", size, u.OpenSeconds)
	u2 := measure(root)
	t.Logf("and again, with a mark and an index, in %.2f s", u2.OpenSeconds)
	// The index has an entry of 16 bytes per 4096 bytes: 4 MiB per GiB. The rest is
	// buffers.
	if more := u.ResidentPeakKiB - empty.ResidentPeakKiB; more > 64<<10 {
		t.Errorf("opening took %d KiB more than opening an empty log", more)
	}
}

func BenchmarkRecoveryScan(b *testing.B) {
	for _, payloadBytes := range []int{128, 1024, 64 << 10} {
		b.Run(fmt.Sprint(payloadBytes), func(b *testing.B) {
			root := b.TempDir()
			size := largeSegment(b, root, gib, payloadBytes)
			path := filepath.Join(root, testKey(0).DirName(), segment.LogName(0))
			f, err := os.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				scan, err := segment.Scan(f, size, segment.ScanOptions{Spacing: engine.DefaultIndexSpacingBytes})
				if err != nil || scan.Damage != nil || scan.ValidEnd != size {
					b.Fatal(err, scan.Damage, scan.ValidEnd)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/float64(size)*gib, "s/GiB")
		})
	}
}
