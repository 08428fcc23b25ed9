package segment

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func mustEqualRapid(t *rapid.T, want, got any) {
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("-want +got\n%s", diff)
	}
}

func TestDamageSaysWhereItClaimsToEndAndWhatFollows(t *testing.T) {
	// Five records of 60 bytes at 32, 92, 152, 212 and 272; the file ends at 332.
	type facts struct {
		Kind                           CorruptionKind
		Position, ClaimedEnd, ZeroFrom int64
		IntactAfter                    uint64
	}
	for name, c := range map[string]struct {
		wreck func(b []byte) []byte
		want  facts
	}{
		"C206 a last record short by a byte": {
			func(b []byte) []byte { return b[:331] },
			facts{Truncated, 272, 332, 331, 0},
		},
		"C206 a last record with a short header": {
			func(b []byte) []byte { return b[:290] },
			facts{Truncated, 272, 300, 284, 0},
		},
		"C207 a complete last record that rotted": {
			func(b []byte) []byte { b[310] ^= 1; return b },
			facts{RecordChecksum, 272, 332, 332, 0},
		},
		"C209 zeros from a record boundary on": {
			func(b []byte) []byte { return append(b[:212], make([]byte, 2000)...) },
			facts{RecordHeaderChecksum, 212, 240, 212, 0},
		},
		"C209 zeros from within a payload on": {
			func(b []byte) []byte { clear(b[260:]); return b },
			facts{RecordChecksum, 212, 272, 260, 0},
		},
		"C209 fewer zeros than a header": {
			func(b []byte) []byte { return append(b, make([]byte, 5)...) },
			facts{Truncated, 332, 360, 332, 0},
		},
		"C210 zeros and then something else": {
			func(b []byte) []byte { clear(b[152:212]); return b },
			facts{RecordHeaderChecksum, 152, 180, 332, 2},
		},
		"C211 valid records after a rotten payload": {
			func(b []byte) []byte { b[125] ^= 1; return b },
			facts{RecordChecksum, 92, 152, 332, 3},
		},
		"C211 valid records after a rotten header": {
			func(b []byte) []byte { b[92] ^= 1; return b },
			facts{RecordHeaderChecksum, 92, 120, 332, 3},
		},
		"two rotten records": {
			func(b []byte) []byte { b[92] ^= 1; b[250] ^= 1; return b },
			facts{RecordHeaderChecksum, 92, 120, 332, 2},
		},
		"a missing record": {
			func(b []byte) []byte { return append(b[:152], b[212:]...) },
			facts{OffsetOutOfOrder, 152, 212, 272, 1},
		},
		"a repeated record": {
			func(b []byte) []byte { return append(b[:152:152], b[92:]...) },
			facts{OffsetOutOfOrder, 152, 212, 392, 2},
		},
		"a verified header with an impossible length": {
			func(b []byte) []byte { b[152] = 0x1f; reseal(b[152:212]); return b },
			facts{RecordTooLarge, 152, 152 + 28 + 0x1f000020, 332, 2},
		},
		"a verified header of two kinds": {
			func(b []byte) []byte { b[152] = 0xc0; reseal(b[152:212]); return b },
			facts{RecordFlags, 152, 180, 332, 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := plain(5, 32)
			b := c.wreck(f.b)
			res := scan(t, b, ScanOptions{})
			d := res.Damage
			if d == nil {
				t.Fatal("no damage seen")
			}
			mustEqual(t, c.want, facts{d.Cause.Kind, d.Position, d.ClaimedEnd, d.ZeroFrom, d.IntactAfter})
			mustEqual(t, Site{Position: d.Position, HasPosition: true}, d.Cause.Site)
			mustEqual(t, d.Position, res.ValidEnd)
		})
	}
}

func TestZeroRunsLargerThanTheBufferAreMeasured(t *testing.T) {
	f := plain(100, 100)
	for _, zeros := range []int{1, 27, 28, minBufferBytes - 1, minBufferBytes, minBufferBytes + 1, 5*minBufferBytes + 3} {
		d := scan(t, append(f.b[:f.size():f.size()], make([]byte, zeros)...), ScanOptions{}).Damage
		if d == nil || d.ZeroFrom != f.size() || d.Position != f.size() {
			t.Fatalf("%d zeros: %+v", zeros, d)
		}
	}
}

func TestAValidEndScansCleanTheSecondTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFile(t)
		b := append([]byte(nil), f.b...)
		for range rapid.IntRange(0, 3).Draw(t, "wounds") {
			if len(b) > HeaderSize {
				b[rapid.IntRange(HeaderSize, len(b)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "mask"))
			}
		}
		first, err := Scan(bytes.NewReader(b), int64(len(b)), ScanOptions{Spacing: 100})
		if err != nil {
			t.Fatal(err)
		}
		again, err := Scan(bytes.NewReader(b[:first.ValidEnd]), first.ValidEnd, ScanOptions{Spacing: 100})
		if err != nil || again.Damage != nil {
			t.Fatal(err, again.Damage)
		}
		first.Damage, first.Size = nil, first.ValidEnd
		mustEqualRapid(t, first, again)
	})
}

func TestResyncFindsTheNextIntactRecord(t *testing.T) {
	f := plain(6, 32)
	f.b[f.starts[3]+40] ^= 1 // payload of record 3
	f.b[f.starts[4]+22] ^= 1 // header CRC of record 4
	for name, c := range map[string]struct {
		from      int64
		minOffset uint64
		want      int64
	}{
		"at the first byte":            {0, 0, f.starts[0]},
		"at a boundary":                {f.starts[1], 0, f.starts[1]},
		"past a boundary":              {f.starts[1] + 1, 0, f.starts[2]},
		"offsets that are too low":     {f.starts[0], 2, f.starts[2]},
		"past two records that rotted": {f.starts[2] + 1, 0, f.starts[5]},
		"before the file":              {-7, 0, f.starts[0]},
		"past the last record":         {f.starts[5] + 1, 0, -1},
		"past the end":                 {f.size() + 9, 0, -1},
		"an offset that is not there":  {0, 6, -1},
	} {
		t.Run(name, func(t *testing.T) {
			pos, found, err := Resync(f.reader(), c.from, f.size(), c.minOffset)
			if err != nil || found != (c.want >= 0) || (found && pos != c.want) {
				t.Fatal(pos, found, err)
			}
		})
	}
}

func TestResyncNearPassesOverRecordsThatAPayloadHolds(t *testing.T) {
	inner := newFile(3, 1000).add(1, Mark{}, []byte("inner")).b[HeaderSize:]
	closer := newFile(3, 4).add(1, Mark{}, []byte("inner")).b[HeaderSize:]
	for name, c := range map[string]struct {
		payload []byte
		want    int // record
	}{
		"a far higher offset":                       {inner, 2},
		"a higher offset than the lost bytes allow": {closer, 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFile(3, 0).add(1, Mark{}, []byte("zero")).add(2, Mark{}, c.payload).add(3, Mark{}, []byte("two"))
			f.b[f.starts[1]+5] ^= 1
			pos, found, err := ResyncNear(f.reader(), f.starts[1], f.starts[1]+1, f.size(), 1)
			if err != nil || !found || pos != f.starts[c.want] {
				t.Fatalf("%d, %v, %v; want %d", pos, found, err, f.starts[c.want])
			}
		})
	}
	f := plain(2, 32)
	if pos, found, err := ResyncNear(f.reader(), 32, 33, f.size(), 1); err != nil || !found || pos != f.starts[1] {
		t.Fatal(pos, found, err)
	}
	if _, found, err := ResyncNear(f.reader(), 32, 33, f.size(), math.MaxUint64); err != nil || found {
		t.Fatal(found, err)
	}
}

func TestAScanForDamageOnlyReadsNothingBehindIt(t *testing.T) {
	f := plain(2000, 100)
	f.b[40] ^= 1
	r := countingReader{r: f.reader()}
	res, err := Scan(&r, f.size(), ScanOptions{DamageOnly: true, Buffer: make([]byte, minBufferBytes)})
	if err != nil || res.Damage == nil || res.Damage.ClaimedEnd <= 40 || res.Damage.IntactAfter != 0 || r.bytes > minBufferBytes {
		t.Fatalf("%+v, %v, %d bytes read", res.Damage, err, r.bytes)
	}
}

func TestResyncFindsARecordAcrossTheEdgeOfItsBuffer(t *testing.T) {
	const seed = 42
	rng := rand.New(rand.NewPCG(seed, 0))
	noise := make([]byte, DefaultBufferBytes+40)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	for shift := range 80 {
		garbage := noise[:DefaultBufferBytes-40+shift]
		f := plain(1, 100)
		b := append(garbage[:len(garbage):len(garbage)], f.b[HeaderSize:]...)
		pos, found, err := Resync(bytes.NewReader(b), 0, int64(len(b)), 0)
		if err != nil || !found || pos != int64(len(garbage)) {
			t.Fatalf("seed %d, shift %d: %d, %v, %v", seed, shift, pos, found, err)
		}
	}
}

func TestTheSearchPastDamageIsProportionalToTheBytes(t *testing.T) {
	// Row upon row of headers that verify, each claiming the rest of the file:
	// checksumming every claim would take a quadratic number of bytes.
	f := newFile(3, 0)
	const rows = 2000
	for i := range rows {
		h := make([]byte, RecordHeaderSize+rows*RecordHeaderSize)
		EncodeRecord(h, uint64(i+1), 0, Mark{}, h[:(rows-i-1)*RecordHeaderSize])
		f.b = append(f.b, h[:RecordHeaderSize]...)
	}
	f.b[HeaderSize] ^= 1
	r := countingReader{r: f.reader()}
	res, err := Scan(&r, f.size(), ScanOptions{Buffer: make([]byte, minBufferBytes)})
	if err != nil || res.Damage == nil {
		t.Fatal(err)
	}
	if r.bytes > 6*f.size() {
		t.Fatalf("%d bytes read for a file of %d", r.bytes, f.size())
	}
}
