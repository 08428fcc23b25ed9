package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"testing"

	"felix.local/felix/segment"
)

// salvageFile is a segment in memory.
type salvageFile struct {
	b      []byte
	starts []int64
}

func newSalvageFile(base uint64) *salvageFile {
	return &salvageFile{b: segment.Header{Version: segment.VersionDefault, BaseOffset: base}.AppendTo(nil)}
}

func (f *salvageFile) add(offset uint64, payload []byte) *salvageFile {
	f.starts = append(f.starts, int64(len(f.b)))
	record := make([]byte, segment.EncodedSize(segment.Mark{}, len(payload)))
	segment.EncodeRecord(record, offset, 9, segment.Mark{}, payload)
	f.b = append(f.b, record...)
	return f
}

// rows adds records that follow each other.
func (f *salvageFile) rows(first, last uint64) *salvageFile {
	for offset := first; offset <= last; offset++ {
		f.add(offset, fmt.Appendf(nil, "record %d, which is long enough", offset))
	}
	return f
}

func (f *salvageFile) harm(position int64) *salvageFile {
	f.b[position] ^= 1
	return f
}

// recordBytes is a whole record, to be kept in a payload.
func recordBytes(offset uint64) []byte {
	return newSalvageFile(0).add(offset, []byte("inner")).b[segment.HeaderSize:]
}

// countedReader counts what is read.
type countedReader struct {
	r     io.ReaderAt
	bytes int64
}

func (c *countedReader) ReadAt(b []byte, pos int64) (int, error) {
	n, err := c.r.ReadAt(b, pos)
	c.bytes += int64(n)
	return n, err
}

// salvaged exports files in memory, in order.
func salvaged(t testing.TB, files ...[]byte) (d dumped, read int64) {
	t.Helper()
	var out bytes.Buffer
	a := &app{ctx: t.Context(), stdout: &out, stderr: io.Discard}
	c := &dumpCommand{To: ^uint64(0), SkipDamaged: true}
	run := &dump{dumpCommand: c, app: a, out: a.output(c.outputFlags)}
	next, known := uint64(0), false
	for n, b := range files {
		r := &countedReader{r: bytes.NewReader(b)}
		s := salvage{dump: run, path: segment.LogName(uint64(n)), next: next, known: known}
		if err := s.read(r, int64(len(b))); err != nil {
			t.Fatal(err)
		}
		next, known, read = s.next, s.known, read+r.bytes
	}
	d, err := parseDump(out.String())
	if err != nil {
		t.Fatal(err)
	}
	return d, read
}

func (d dumped) offsets() (list []uint64) {
	for _, r := range d.records {
		list = append(list, r.Offset)
	}
	return list
}

func TestASalvageFindsItsWayBack(t *testing.T) {
	for _, c := range []struct {
		name  string
		files []*salvageFile
		want  []uint64
		gaps  int
	}{
		{
			name: "a damaged record whose payload holds a record of a far higher offset",
			files: func() []*salvageFile {
				f := newSalvageFile(0).rows(0, 1).add(2, recordBytes(1000)).rows(3, 5)
				return []*salvageFile{f.harm(f.starts[2] + 5)}
			}(),
			want: []uint64{0, 1, 3, 4, 5}, gaps: 1,
		},
		{
			name: "a torn record whose payload holds a record",
			files: func() []*salvageFile {
				f := newSalvageFile(0).rows(0, 1).add(2, append(recordBytes(3), 1))
				f.b = f.b[:len(f.b)-1]
				return []*salvageFile{f}
			}(),
			want: []uint64{0, 1}, gaps: 1,
		},
		{
			name:  "the header of the first segment is damaged",
			files: []*salvageFile{newSalvageFile(0).rows(0, 2).harm(3), newSalvageFile(3).rows(3, 4)},
			want:  []uint64{0, 1, 2, 3, 4}, gaps: 1,
		},
		{
			name: "a header and the first record are damaged",
			files: func() []*salvageFile {
				f := newSalvageFile(7).rows(7, 9)
				return []*salvageFile{f.harm(3).harm(f.starts[0] + 40)}
			}(),
			want: []uint64{8, 9}, gaps: 1,
		},
		{
			name:  "records are missing between two",
			files: []*salvageFile{newSalvageFile(0).rows(0, 2).rows(9, 11)},
			want:  []uint64{0, 1, 2, 9, 10, 11}, gaps: 1,
		},
		{
			name:  "the first records are missing, which the header does not know",
			files: []*salvageFile{newSalvageFile(0).rows(2, 3)},
			want:  []uint64{2, 3}, gaps: 1,
		},
		{
			name:  "records stand there twice",
			files: []*salvageFile{newSalvageFile(0).rows(0, 3).rows(2, 5)},
			want:  []uint64{0, 1, 2, 3, 4, 5}, gaps: 1,
		},
		{
			name: "every record but the last is damaged",
			files: func() []*salvageFile {
				f := newSalvageFile(0).rows(0, 4)
				return []*salvageFile{f.harm(f.starts[0] + 30).harm(f.starts[1] + 3).harm(f.starts[2] + 25).harm(f.starts[3] + 21)}
			}(),
			want: []uint64{4}, gaps: 1,
		},
		{name: "a file without a byte", files: []*salvageFile{newSalvageFile(0).rows(0, 1), {}, newSalvageFile(2).rows(2, 2)}, want: []uint64{0, 1, 2}, gaps: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var files [][]byte
			for _, f := range c.files {
				files = append(files, f.b)
			}
			d, _ := salvaged(t, files...)
			if got := d.offsets(); !slices.Equal(got, c.want) || len(d.gaps) != c.gaps {
				t.Errorf("exported %v with the gaps %+v, want %v and %d", got, d.gaps, c.want, c.gaps)
			}
		})
	}
}

func TestASalvageReadsInProportionToTheFileAndItsGaps(t *testing.T) {
	const records = 20_000
	f := newSalvageFile(0)
	for offset := range uint64(records) {
		f.add(offset, bytes.Repeat([]byte{'x'}, 1000))
	}
	for n, start := range f.starts {
		if n%100 == 50 {
			f.harm(start + 35)
		}
	}
	d, read := salvaged(t, f.b)
	if len(d.records) != records-records/100 || len(d.gaps) != records/100 {
		t.Fatalf("%d records, %d gaps", len(d.records), len(d.gaps))
	}
	if bound := readBound(len(f.b), len(d.gaps)); read > bound {
		t.Errorf("%d bytes read out of %d with %d gaps, %d are allowed", read, len(f.b), len(d.gaps), bound)
	}

	// Without a header, each record is one to begin at, and none is intact.
	f.harm(0)
	for _, start := range f.starts {
		f.b[start+segment.RecordHeaderSize+2] ^= 0x10
	}
	d, read = salvaged(t, f.b)
	if bound := readBound(len(f.b), len(d.gaps)); len(d.records) > 0 || read > bound {
		t.Errorf("%d records; %d bytes read out of %d, %d are allowed", len(d.records), read, len(f.b), bound)
	}
}

// readBound is how many bytes a salvage may read: the file a few times, and
// buffers for each gap.
func readBound(size, gaps int) int64 {
	const times, buffers = 6, 3
	return times*int64(size) + buffers*segment.DefaultBufferBytes*int64(gaps+1)
}
