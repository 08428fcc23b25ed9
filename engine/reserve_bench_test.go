package engine_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"felix.local/felix/device"
)

// BenchmarkReservations is a dsync write at the end of a file, by how its blocks
// were reserved. The files of a size are written side by side, so that a slow
// moment of the device meets them all; the mean of each is a metric of its own.
// Run it with -benchtime 4000x on the disk in question (TMPDIR).
func BenchmarkReservations(b *testing.B) {
	const segment, first = 64 << 20, 1 << 20
	for _, size := range []int{160, 2560, 10240} {
		b.Run(fmt.Sprintf("%d bytes", size), func(b *testing.B) {
			files := []*reservedFile{
				{name: "doubling", next: func(r int64) int64 { return 2 * r }},
				{name: "rest-second", next: func(int64) int64 { return segment }},
				{name: "whole-first", reserved: segment},
				{name: "none"},
				{name: "zeros-before", reserved: segment, zeros: true},
			}
			for _, f := range files {
				if f.next != nil {
					f.reserved = first
				}
				f.open(b)
			}
			buf := make([]byte, size)
			for n := range int64(b.N) {
				for _, f := range files {
					f.write(b, n*int64(size), buf, segment)
				}
			}
			for _, f := range files {
				b.ReportMetric(float64(f.took.Microseconds())/float64(b.N), "µs/"+f.name)
			}
			b.ReportMetric(0, "ns/op") // of all files together: says nothing
		})
	}
}

// reservedFile is a file with blocks up to reserved.
type reservedFile struct {
	device.File
	name     string
	reserved int64
	next     func(reserved int64) int64
	zeros    bool
	took     time.Duration
}

func (f *reservedFile) do(b *testing.B, op device.Op) {
	op.File = f.File
	if _, err := f.Perform(&op); err != nil {
		b.Fatal(err)
	}
}

func (f *reservedFile) open(b *testing.B) {
	file, err := device.OS().OpenFile(filepath.Join(b.TempDir(), f.name), device.CreateNew, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { file.Close() })
	f.File = file
	switch {
	case f.zeros:
		f.do(b, device.Op{Kind: device.Write, Buf: make([]byte, f.reserved)})
	case f.reserved > 0:
		f.do(b, device.Op{Kind: device.Allocate, Len: f.reserved})
	}
	f.do(b, device.Op{Kind: device.Flush})
}

// write reserves more once half of what is reserved is written, as the engine does.
func (f *reservedFile) write(b *testing.B, pos int64, buf []byte, limit int64) {
	if end := pos + int64(len(buf)); f.next != nil && end > f.reserved/2 && f.reserved < limit {
		reserved := min(f.next(f.reserved), limit)
		f.do(b, device.Op{Kind: device.Allocate, Pos: f.reserved, Len: reserved - f.reserved})
		f.reserved = reserved
	}
	start := time.Now()
	f.do(b, device.Op{Kind: device.WriteDsync, Buf: buf, Pos: pos})
	f.took += time.Since(start)
}
