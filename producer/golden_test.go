package producer

import (
	"bytes"
	"encoding/hex"
	"testing"

	"felix.local/felix/internal/golden"
	"felix.local/felix/segment"
)

// goldenState has observed one batch of three records at offset 7.
func goldenState(o Options) *State {
	s := New(o)
	mark := Marks(42, 5, 3)
	for i, payload := range []string{"hi", "yo", "ok"} {
		s.Observe(uint64(7+i), mark(uint32(i)), []byte(payload))
	}
	return s
}

func TestGoldenSnapshots(t *testing.T) {
	for name, version := range map[string]uint16{"producers-v1": SnapshotV1, "producers-v2": SnapshotV2} {
		t.Run(name, func(t *testing.T) {
			want := golden.Bytes(t, name)
			o := Options{Digests: version == SnapshotV2}
			if got := goldenState(o).AppendTo(nil, 10, version); !bytes.Equal(want, got) {
				t.Fatalf("bytes differ\nwant\n%sgot\n%s", hex.Dump(want), hex.Dump(got))
			}
			s, asOf, err := Decode(want, o)
			if err != nil || asOf != 10 {
				t.Fatalf("as of %d, %v", asOf, err)
			}
			class := Class{Verdict: Held, First: 7, Last: 9, Held: 3, Len: 3}
			if version == SnapshotV2 {
				class.Digest = Digest{Value: 0x05126f7e5d82d7c7, Known: true}
			}
			if got := s.Classify(42, 5); got != class {
				t.Fatalf("classified %+v, want %+v", got, class)
			}
			if got := s.AppendTo(nil, 10, version); !bytes.Equal(want, got) {
				t.Fatalf("written again as\n%s", hex.Dump(got))
			}
		})
	}
}

func TestGoldenDigestSteps(t *testing.T) {
	d := DigestOf()
	for _, step := range []struct {
		payload string
		value   uint64
	}{{"hi", 0x336fc58e77f7f78d}, {"yo", 0x5950e931116250ae}, {"ok", 0x05126f7e5d82d7c7}} {
		d = d.With([]byte(step.payload))
		if want := (Digest{Value: step.value, Known: true}); d != want {
			t.Fatalf("after %q: %+v, want %+v", step.payload, d, want)
		}
	}
	if got := DigestOf([]byte("hi"), []byte("yo"), []byte("ok")); got != d {
		t.Fatalf("at once %+v, in steps %+v", got, d)
	}
}

func TestGoldenMarksOnRecords(t *testing.T) {
	mark := Marks(42, 5, 3)
	for i, record := range []struct{ name, payload string }{{"record-batch-open", "hi"}, {"record-batch-continue", "yo"}} {
		want := golden.Bytes(t, record.name)
		got := make([]byte, segment.EncodedSize(mark(uint32(i)), len(record.payload)))
		segment.EncodeRecord(got, uint64(7+i), 9, mark(uint32(i)), []byte(record.payload))
		if !bytes.Equal(want, got) {
			t.Fatalf("%s: bytes differ\nwant\n%sgot\n%s", record.name, hex.Dump(want), hex.Dump(got))
		}
	}
}
