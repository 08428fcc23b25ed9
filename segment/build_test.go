package segment

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// file is a segment in memory and what it should turn out to hold.
type file struct {
	b       []byte
	header  Header
	records []Record
	// starts are the positions of the records, and last the file's end.
	starts []int64
}

func newFile(version uint16, base uint64) *file {
	h := Header{Version: version, BaseOffset: base, CreatedAtMicros: 77}
	return &file{b: h.AppendTo(nil), header: h, starts: []int64{HeaderSize}}
}

// add appends the next record in the row.
func (f *file) add(timestamp uint64, m Mark, payload []byte) *file {
	return f.addAt(f.header.BaseOffset+uint64(len(f.records)), timestamp, m, payload)
}

func (f *file) addAt(offset, timestamp uint64, m Mark, payload []byte) *file {
	b := make([]byte, EncodedSize(m, len(payload)))
	EncodeRecord(b, offset, timestamp, m, payload)
	r, _, err := DecodeRecord(b)
	if err != nil {
		panic(err)
	}
	f.records = append(f.records, r)
	f.b = append(f.b, b...)
	f.starts = append(f.starts, int64(len(f.b)))
	return f
}

func (f *file) size() int64           { return int64(len(f.b)) }
func (f *file) reader() *bytes.Reader { return bytes.NewReader(f.b) }

// mixed is a small segment with a record of every kind.
func mixed() *file {
	return newFile(4, 100).
		add(10, Mark{}, []byte("first")).
		add(11, Mark{Kind: BatchOpen, Producer: 42, Sequence: 5, Len: 2}, []byte("opens")).
		add(12, Mark{Kind: BatchContinue}, []byte("continues")).
		add(13, Mark{Kind: GenerationStart}, GenerationStartPayload(9)).
		add(14, Mark{}, nil)
}

// plain is a segment of n records with payloads of the given size.
func plain(n, payload int) *file {
	f := newFile(3, 0)
	for i := range n {
		body := bytes.Repeat([]byte{byte(i + 1)}, payload)
		f.add(uint64(1000+i), Mark{}, body)
	}
	return f
}

// drawFile makes up a segment. Payload sizes straddle the sizes at which
// checksumming and buffering change their ways.
func drawFile(t *rapid.T) *file {
	f := newFile(4, rapid.Uint64Range(0, 1<<63).Draw(t, "base"))
	for range rapid.IntRange(0, 40).Draw(t, "records") {
		m := Mark{Kind: Kind(rapid.IntRange(0, 3).Draw(t, "kind"))}
		payload := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "payload")
		switch m.Kind {
		case BatchOpen:
			m.Producer, m.Sequence = rapid.Uint64().Draw(t, "producer"), rapid.Uint64().Draw(t, "sequence")
			m.Len = rapid.Uint32().Draw(t, "len")
		case GenerationStart:
			payload = GenerationStartPayload(rapid.Uint64().Draw(t, "generation"))
		}
		if rapid.IntRange(0, 9).Draw(t, "large") == 0 {
			payload = bytes.Repeat(append(payload, 1), rapid.IntRange(1, 200).Draw(t, "repeat"))
		}
		f.add(rapid.Uint64().Draw(t, "timestamp"), m, payload)
	}
	return f
}

// scan walks b through a buffer of the smallest size that is used as it is.
func scan(t testing.TB, b []byte, o ScanOptions) ScanResult {
	t.Helper()
	o.Buffer = make([]byte, minBufferBytes)
	res, err := Scan(bytes.NewReader(b), int64(len(b)), o)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// mustEqual compares, taking a nil slice for an empty one.
func mustEqual(t testing.TB, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("-want +got\n%s", diff)
	}
}

// mustEqualRecords is mustEqual for records with payloads too large to diff.
func mustEqualRecords(t testing.TB, want, got []Record) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range want {
		w, g := want[i], got[i]
		if !bytes.Equal(w.Payload, g.Payload) {
			t.Fatalf("payload of record %d differs", i)
		}
		w.Payload, g.Payload = nil, nil
		mustEqual(t, w, g)
	}
}

// countingReader counts reads and bytes, and fails the read number failAt.
type countingReader struct {
	r      io.ReaderAt
	reads  int
	bytes  int64
	failAt int
}

var errDisk = errors.New("the disk is on fire")

func (c *countingReader) ReadAt(b []byte, pos int64) (int, error) {
	c.reads++
	c.bytes += int64(len(b))
	if c.reads == c.failAt {
		return 0, errDisk
	}
	return c.r.ReadAt(b, pos)
}
