package journal

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix.local/felix/internal/golden"
)

func putUint32(b []byte, v uint32) { binary.BigEndian.PutUint32(b, v) }
func putUint64(b []byte, v uint64) { binary.BigEndian.PutUint64(b, v) }

// goldenEntries are those of the golden frame.
func goldenEntries() []Entry { return []Entry{data(7, []byte("hi")), fence("other")} }

func TestGoldenFrame(t *testing.T) {
	for name, entries := range map[string][]Entry{"frame": goldenEntries(), "frame-empty": nil} {
		want := golden.Bytes(t, name)
		h := Header{Epoch: testEpoch, Sequence: 9, OldestNeeded: 5, Entries: 2, BodyBytes: 168}
		if entries == nil {
			h = Header{Epoch: 1, Sequence: 1, OldestNeeded: 1}
		}
		got := frame(h.Epoch, h.Sequence, h.OldestNeeded, entries...)
		if !bytes.Equal(got, append(bytes.Clone(want), make([]byte, BlockBytes-len(want))...)) {
			t.Errorf("%s: encoded\n%x, want\n%x", name, got[:len(want)], want)
		}
		found, list, err := Decode(got)
		if err != nil || found != h {
			t.Fatalf("%s: decoded %+v, %v", name, found, err)
		}
		if diff := cmp.Diff(append([]Entry{}, entries...), list); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

func TestFrameCutAtAnyLengthIsTruncated(t *testing.T) {
	whole := golden.Bytes(t, "frame")
	for n := range whole {
		_, _, err := Decode(whole[:n])
		c := asCorruption(t, err)
		want := uint64(len(whole))
		if n < HeaderBytes {
			want = HeaderBytes
		}
		if c.Kind != Truncated || c.Expected != want || c.Found != uint64(n) {
			t.Errorf("%d bytes: %+v", n, c)
		}
	}
	if _, _, err := Decode(whole); err != nil {
		t.Errorf("without padding: %v", err)
	}
}

// A flipped bit in the padding changes nothing that was acknowledged, so it is no
// reason to refuse the frame.
func TestEveryFlippedBitOfAFrameIsJudged(t *testing.T) {
	whole := frame(testEpoch, 9, 5, goldenEntries()...)
	used := len(golden.Bytes(t, "frame"))
	for bit := range (used + 64) * 8 {
		bad := bytes.Clone(whole)
		bad[bit/8] ^= 1 << (bit % 8)
		_, _, err := Decode(bad)
		var want CorruptionKind
		switch at := bit / 8; {
		case at >= used:
			if err != nil {
				t.Errorf("bit %d of the padding: %v", bit, err)
			}
			continue
		case at < currentAtVersion:
			want = Magic
		case at < frameAtFlags:
			want = Version
		case at < HeaderBytes:
			want = HeaderChecksum
		default:
			want = BodyChecksum
		}
		if got := asCorruption(t, err).Kind; got != want {
			t.Errorf("bit %d: kind %d, want %d", bit, got, want)
		}
	}
}

// reseal makes the checksums of a frame right again.
func reseal(b []byte) []byte {
	n := HeaderBytes + int(binary.BigEndian.Uint32(b[frameAtBodyBytes:]))
	if n <= len(b) {
		putUint32(b[frameAtBodyCRC:], Checksum(b[HeaderBytes:n]))
	}
	putUint32(b[frameAtHeaderCRC:], Checksum(b[:frameAtHeaderCRC]))
	return b
}

func TestFrameWithFieldsThatMeanNothingIsRefused(t *testing.T) {
	const entry, second = HeaderBytes, HeaderBytes + EntryHeaderBytes + len(testShard) + 30
	for name, damage := range map[string]func(b []byte){
		"no epoch":                   func(b []byte) { putUint64(b[frameAtEpoch:], 0) },
		"no sequence":                func(b []byte) { putUint64(b[frameAtSequence:], 0) },
		"oldest needed is none":      func(b []byte) { putUint64(b[frameAtOldest:], 0) },
		"oldest needed is to come":   func(b []byte) { putUint64(b[frameAtOldest:], 10) },
		"more entries than bytes":    func(b []byte) { putUint32(b[frameAtEntries:], 4) },
		"fewer entries":              func(b []byte) { putUint32(b[frameAtEntries:], 1) },
		"one entry more":             func(b []byte) { putUint32(b[frameAtEntries:], 3) },
		"no entries":                 func(b []byte) { putUint32(b[frameAtEntries:], 0) },
		"body beyond the limit":      func(b []byte) { putUint32(b[frameAtBodyBytes:], FrameBytesMax-HeaderBytes+1) },
		"body beyond all":            func(b []byte) { putUint32(b[frameAtBodyBytes:], math.MaxUint32) },
		"unknown kind":               func(b []byte) { b[entry] = 3 },
		"kind zero":                  func(b []byte) { b[entry] = 0 },
		"reserved byte":              func(b []byte) { b[entry+1] = 1 },
		"long name":                  func(b []byte) { b[entry+2] = 0xff },
		"name of nothing":            func(b []byte) { b[entry+3] = 0 },
		"more bytes than there are":  func(b []byte) { putUint32(b[entry+4:], math.MaxUint32) },
		"no bytes":                   func(b []byte) { putUint32(b[entry+4:], 0) },
		"position in the header":     func(b []byte) { putUint64(b[entry+24:], 31) },
		"position negative":          func(b []byte) { putUint64(b[entry+24:], math.MaxUint64) },
		"end past all":               func(b []byte) { putUint64(b[entry+24:], math.MaxInt64-29) },
		"first below the base":       func(b []byte) { putUint64(b[entry+16:], 8) },
		"last below the first":       func(b []byte) { putUint64(b[entry+32:], 8) },
		"more offsets than fit":      func(b []byte) { putUint64(b[entry+40:], 8) },
		"the last offset of all":     func(b []byte) { putUint64(b[entry+32:], math.MaxUint64); putUint64(b[entry+40:], math.MaxUint64) },
		"name with a slash":          func(b []byte) { b[entry+EntryHeaderBytes+3] = '/' },
		"name with a zero":           func(b []byte) { b[entry+EntryHeaderBytes] = 0 },
		"a fence with a base":        func(b []byte) { b[second+23] = 1 },
		"a fence with a checksum":    func(b []byte) { b[second+48] = 1 },
		"a fence with bytes":         func(b []byte) { b[second+3], b[second+7] = 4, 1 },
		"a fence at the parent":      func(b []byte) { copy(b[second+EntryHeaderBytes:], "..") },
		"a fence made of all zeros ": func(b []byte) { clear(b[second:]) },
	} {
		b := golden.Bytes(t, "frame")
		damage(b)
		if name == "a fence at the parent" {
			b[second+3] = 2
			b = b[:second+EntryHeaderBytes+2]
			putUint32(b[frameAtBodyBytes:], uint32(len(b)-HeaderBytes))
		}
		if _, _, err := Decode(reseal(b)); asCorruption(t, err).Kind != Impossible {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := golden.Bytes(t, "frame")
	b[frameAtFlags] = 1
	if _, _, err := Decode(reseal(b)); asCorruption(t, err).Kind != Flags {
		t.Errorf("unknown flag: %v", err)
	}
}

func TestFrameThatCouldNotBeReadBackIsNeverMade(t *testing.T) {
	for name, change := range map[string]func(*Entry){
		"no shard":        func(e *Entry) { e.Shard = "" },
		"path":            func(e *Entry) { e.Shard = "a/b" },
		"parent":          func(e *Entry) { e.Shard = ".." },
		"root":            func(e *Entry) { e.Shard = "." },
		"the journal":     func(e *Entry) { e.Shard = DirName },
		"long":            func(e *Entry) { e.Shard = string(bytes.Repeat([]byte("a"), ShardBytesMax+1)) },
		"no bytes":        func(e *Entry) { e.Bytes = nil },
		"too many":        func(e *Entry) { e.Bytes = make([]byte, FrameBytesMax+1) },
		"no kind":         func(e *Entry) { e.Kind = 0 },
		"fence with data": func(e *Entry) { e.Kind = Fence },
	} {
		e := data(7, []byte("hi"))
		change(&e)
		mustPanic(t, name, func() { AppendEntry(nil, &e) })
	}
	room := make([]byte, HeaderBytes)
	ok := Header{Epoch: 1, Sequence: 1, OldestNeeded: 1}
	mustPanic(t, "no room", func() { Seal(room[:HeaderBytes-1], ok) })
	mustPanic(t, "too large", func() { Seal(make([]byte, FrameBytesMax+1), ok) })
	mustPanic(t, "no epoch", func() { Seal(room, Header{Sequence: 1, OldestNeeded: 1}) })
	mustPanic(t, "no oldest", func() { Seal(room, Header{Epoch: 1, Sequence: 1}) })
	mustPanic(t, "entries in nothing", func() { Seal(room, Header{Epoch: 1, Sequence: 1, OldestNeeded: 1, Entries: 1}) })
}

func TestLargestFrameIsSealedInPlace(t *testing.T) {
	b := make([]byte, HeaderBytes, FrameBytesMax)
	e := fence(string(bytes.Repeat([]byte("s"), ShardBytesMax)))
	n := 0
	for ; len(b)+e.EncodedBytes() <= FrameBytesMax; n++ {
		before := len(b)
		if b = AppendEntry(b, &e); len(b)-before != e.EncodedBytes() {
			t.Fatalf("%d bytes, expected %d", len(b)-before, e.EncodedBytes())
		}
	}
	start := &b[0]
	b = Seal(b, Header{Epoch: 1, Sequence: 1, OldestNeeded: 1, Entries: uint32(n)})
	if &b[0] != start || len(b)%BlockBytes != 0 || len(b) > FrameBytesMax {
		t.Fatalf("%d bytes", len(b))
	}
	if _, entries, err := Decode(b); err != nil || len(entries) != n {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for bytes, padded := range map[int]int64{0: 0, 1: 4096, 4096: 4096, 4097: 8192, FrameBytesMax: FrameBytesMax} {
		if PaddedBytes(bytes) != padded {
			t.Errorf("%d bytes take %d", bytes, PaddedBytes(bytes))
		}
	}
}
