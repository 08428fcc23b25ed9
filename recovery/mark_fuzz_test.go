package recovery

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"testing"
)

// FuzzDecodeMark reads arbitrary bytes as a mark; with sealed set, the checksum is
// made right first.
func FuzzDecodeMark(f *testing.F) {
	golden, err := hex.DecodeString(goldenMark)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden, false)
	f.Add(golden[:31], false)
	f.Add(append(golden, "and more"...), true)
	f.Add(Mark{Segment: 1<<64 - 1, Synced: 1<<63 - 1}.AppendTo(nil), false)
	f.Add(make([]byte, MarkBytes), true)
	f.Fuzz(func(t *testing.T, b []byte, sealed bool) {
		if b = bytes.Clone(b); sealed && len(b) >= MarkBytes {
			binary.BigEndian.PutUint32(b[markCovered:], crc32.ChecksumIEEE(b[:markCovered]))
		}
		if grown := testing.AllocsPerRun(1, func() { _, _ = DecodeMark(b) }); grown > 0 {
			t.Fatalf("%v allocations", grown)
		}
		m, ok := DecodeMark(b)
		if !ok {
			if m != (Mark{}) {
				t.Fatalf("no mark, but %+v", m)
			}
			return
		}
		if m.Synced < 0 {
			t.Fatalf("%+v", m)
		}
		again := m.AppendTo(nil)
		// The two reserved bytes behind the version may hold anything.
		if !bytes.Equal(again[:6], b[:6]) || !bytes.Equal(again[8:markCovered], b[8:markCovered]) {
			t.Fatalf("%x came back as %x", b[:MarkBytes], again)
		}
		if back, ok := DecodeMark(again); !ok || back != m {
			t.Fatalf("%+v came back as %+v, %v", m, back, ok)
		}
		for _, id := range []uint64{0, m.Segment - 1, m.Segment, m.Segment + 1, 1<<64 - 1} {
			checkEvidence(t, m, id)
		}
	})
}

// checkEvidence holds that no byte is both vouched for and free to be cut.
func checkEvidence(t *testing.T, m Mark, id uint64) {
	from, possible := m.UnsyncedFrom(id)
	through := m.SyncedThrough(id)
	if possible && from < through || through < 0 || !possible && through < 1<<63-1 {
		t.Fatalf("%+v: segment %d is vouched for through %d and may be cut from %d (%v)", m, id, through, from, possible)
	}
}
