package producer

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"
)

// FuzzDecode expects an error or a state that comes back from its own snapshot,
// for memory in proportion to the bytes. Checksums are made right, or hardly
// anything would be looked at.
func FuzzDecode(f *testing.F) {
	for _, version := range []uint16{SnapshotV1, SnapshotV2} {
		r := busy(true)
		f.Add(r.state.AppendTo(nil, r.model.tail, version), true)
		f.Add(goldenState(Options{Digests: true}).AppendTo(nil, 10, version), false)
		f.Add(New(Options{}).AppendTo(nil, 0, version), true)
	}
	// A count that the bytes do not bear out.
	f.Add(append([]byte("FLPS\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x00\x10\x00"), 0, 0, 0, 0, 0), true)
	f.Fuzz(func(t *testing.T, b []byte, resealed bool) {
		if resealed && len(b) >= headerSize {
			b = reseal(bytes.Clone(b))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s, asOf, err := Decode(b, Options{})
		runtime.ReadMemStats(&after)
		if got, bound := after.TotalAlloc-before.TotalAlloc, uint64(1<<16+64*len(b)); got > bound {
			t.Fatalf("%d bytes allocated for %d", got, len(b))
		}
		if err != nil {
			snapshotFault(t, err)
			return
		}
		checkDecoded(t, s, b, asOf)
	})
}

func checkDecoded(t *testing.T, s *State, b []byte, asOf uint64) {
	t.Helper()
	if len(b) > SnapshotBytesMax {
		t.Fatalf("%d bytes are a snapshot", len(b))
	}
	version := binary.BigEndian.Uint16(b[atVersion:])
	again := s.AppendTo(nil, asOf, version)
	if len(again) != len(b) {
		t.Fatalf("%d bytes became %d", len(b), len(again))
	}
	second, asOf2, err := Decode(again, Options{})
	if err != nil || asOf2 != asOf || !bytes.Equal(second.AppendTo(nil, asOf, version), again) {
		t.Fatalf("as of %d, then %d: %v", asOf, asOf2, err)
	}
	// It goes on like any other.
	cp := s.Checkpoint()
	if asOf < 1<<62 {
		for i := range uint64(3) {
			s.Observe(asOf+i, Marks(i, i, 1)(0), nil)
		}
		s.Prune(asOf / 2)
	}
	s.Rollback(cp)
	s.Prune(asOf)
	if s.Len() != 0 {
		t.Fatalf("%d producers begin at or past the end", s.Len())
	}
}
