package segment

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// benchFile writes a segment of about total bytes to a real file, so that the
// benchmarks pay for real preads.
func benchFile(b *testing.B, payload, total int) (*os.File, int64) {
	b.Helper()
	buf := Header{Version: VersionDefault}.AppendTo(nil)
	rng := rand.New(rand.NewPCG(1, 2))
	body := make([]byte, payload)
	for i := range body {
		body[i] = byte(rng.Uint32())
	}
	size := EncodedSize(Mark{}, payload)
	for offset := uint64(0); len(buf)+size <= total; offset++ {
		n := len(buf)
		buf = append(buf, make([]byte, size)...)
		EncodeRecord(buf[n:], offset, offset, Mark{}, body)
	}
	path := filepath.Join(b.TempDir(), LogName(0))
	if err := os.WriteFile(path, buf, 0o640); err != nil {
		b.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return f, int64(len(buf))
}

const benchBytes = 32 << 20

var benchPayloads = []int{128, 1024, 16 << 10, 1 << 20}

// BenchmarkPreadCRC is the bar for the others: read the file once and checksum
// it, with no notion of records.
func BenchmarkPreadCRC(b *testing.B) {
	for _, buffer := range []int{DefaultBufferBytes, 1 << 20} {
		b.Run(fmt.Sprintf("buffer=%d", buffer), func(b *testing.B) {
			f, size := benchFile(b, 1024, benchBytes)
			buf := make([]byte, buffer)
			b.SetBytes(size)
			for b.Loop() {
				var sum uint32
				for pos := int64(0); pos < size; {
					n := min(int64(buffer), size-pos)
					if _, err := f.ReadAt(buf[:n], pos); err != nil {
						b.Fatal(err)
					}
					sum = crc32.Update(sum, crc32.IEEETable, buf[:n])
					pos += n
				}
			}
		})
	}
}

func BenchmarkScan(b *testing.B) {
	for _, payload := range benchPayloads {
		b.Run(fmt.Sprintf("payload=%d", payload), func(b *testing.B) {
			f, size := benchFile(b, payload, benchBytes)
			buf := make([]byte, DefaultBufferBytes)
			b.SetBytes(size)
			for b.Loop() {
				res, err := Scan(f, size, ScanOptions{Spacing: 4096, Buffer: buf})
				if err != nil || res.Damage != nil {
					b.Fatal(err, res.Damage)
				}
			}
		})
	}
}

// BenchmarkPreadRecordCRC is the least any reader of the format has to do: read
// the file once, and for every record compute the two checksums it has.
func BenchmarkPreadRecordCRC(b *testing.B) {
	for _, payload := range benchPayloads {
		b.Run(fmt.Sprintf("payload=%d", payload), func(b *testing.B) {
			f, size := benchFile(b, payload, benchBytes)
			record := EncodedSize(Mark{}, payload)
			buf := make([]byte, max(1, DefaultBufferBytes/record)*record)
			b.SetBytes(size)
			for b.Loop() {
				var sum uint32
				for pos := int64(HeaderSize); pos < size; {
					n := min(int64(len(buf)), size-pos)
					if _, err := f.ReadAt(buf[:n], pos); err != nil {
						b.Fatal(err)
					}
					for rest := buf[:n]; len(rest) > 0; rest = rest[record:] {
						sum += crc32.Update(0, crc32.IEEETable, rest[:20])
						sum += crc32.Update(sum, crc32.IEEETable, rest[20:24])
						sum += crc32.Update(sum, crc32.IEEETable, rest[28:record])
					}
					pos += n
				}
			}
		})
	}
}

// BenchmarkCatchUp reads a whole segment 1 MiB at a time, as a subscriber that
// is behind does: into pages of its own, or into one page again and again.
func BenchmarkCatchUp(b *testing.B) {
	for _, memory := range []string{"own", "reused"} {
		for _, payload := range benchPayloads {
			b.Run(fmt.Sprintf("pages=%s/payload=%d", memory, payload), func(b *testing.B) {
				var page []byte
				if memory == "reused" {
					page = make([]byte, 1<<20+1<<18)
				}
				benchCatchUp(b, payload, page)
			})
		}
	}
}

func benchCatchUp(b *testing.B, payload int, page []byte) {
	f, size := benchFile(b, payload, benchBytes)
	res, err := Scan(f, size, ScanOptions{Spacing: 4096})
	if err != nil {
		b.Fatal(err)
	}
	var out []Record
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		for from := uint64(0); from < res.NextOffset; {
			budget := Budget{Bytes: 1 << 20, Records: 65536, Page: page}
			out, from, _, err = ReadRecords(f, Seek(res.Entries, from), size, from, &budget, out[:0])
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkEncodeRecord(b *testing.B) {
	for _, payload := range benchPayloads {
		b.Run(fmt.Sprintf("payload=%d", payload), func(b *testing.B) {
			body := make([]byte, payload)
			dst := make([]byte, EncodedSize(Mark{}, payload))
			b.SetBytes(int64(len(dst)))
			b.ReportAllocs()
			for b.Loop() {
				EncodeRecord(dst, 1, 2, Mark{}, body)
			}
		})
	}
}

func BenchmarkHeaderChecksum(b *testing.B) {
	buf := make([]byte, RecordHeaderSize)
	for b.Loop() {
		headerChecksum(buf)
	}
}
