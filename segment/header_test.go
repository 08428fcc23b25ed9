package segment

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"pgregory.net/rapid"
)

func TestAHeaderComesBackAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := Header{
			Version:         uint16(rapid.IntRange(VersionOldest, VersionNewest).Draw(t, "version")),
			BaseOffset:      rapid.Uint64().Draw(t, "base"),
			CreatedAtMicros: rapid.Uint64().Draw(t, "created"),
		}
		b := h.AppendTo([]byte("before"))[6:]
		if len(b) != HeaderSize {
			t.Fatalf("%d bytes", len(b))
		}
		if got, err := DecodeHeader(append(b, 1, 2, 3)); err != nil || got != h {
			t.Fatalf("%+v, %v", got, err)
		}
	})
}

func TestHeaderChecksRunInOrder(t *testing.T) {
	// Each step breaks one thing more, last check first; the verdict has to be
	// that of the check that comes first.
	b := Header{Version: 3, BaseOffset: 1, CreatedAtMicros: 2}.AppendTo(nil)
	steps := []struct {
		name  string
		wreck func()
		want  Corruption
	}{
		{"CRC", func() { b[headerAtCRC] ^= 0xff }, Corruption{Kind: SegmentHeaderChecksum, Expected: 0xadeb65e9 ^ 0xff000000, Found: 0xadeb65e9}},
		{"flags", func() { b[headerAtFlags] = 0x80 }, Corruption{Kind: SegmentFlags, Found: 0x8000}},
		{"version", func() { b[headerAtVersion+1] = 6 }, Corruption{Kind: SegmentVersion, Found: 6}},
		{"magic", func() { b[3] = '1' }, Corruption{Kind: SegmentMagic, Found: 0x464c5331}},
		{"length", func() { b = b[:31] }, Corruption{Kind: Truncated, Expected: 32, Found: 31}},
	}
	for _, step := range steps {
		step.wreck()
		_, err := DecodeHeader(b)
		mustEqual(t, &step.want, asCorruption(t, err))
	}
}

func TestVersionsOutsideTheRangeAreRefusedEvenWithAGoodChecksum(t *testing.T) {
	for version := range uint16(10) {
		_, err := DecodeHeader(Header{Version: version}.AppendTo(nil))
		if good := version >= 2 && version <= 4; good != (err == nil) {
			t.Fatalf("version %d: %v", version, err)
		} else if !good && asCorruption(t, err).Kind != SegmentVersion {
			t.Fatalf("version %d: %v", version, err)
		}
	}
}

func TestTheReservedWordOfAHeaderIsNotChecked(t *testing.T) {
	b := Header{Version: 3}.AppendTo(nil)
	binary.BigEndian.PutUint32(b[28:], 0xdeadbeef)
	if _, err := DecodeHeader(b); err != nil {
		t.Fatal(err)
	}
}

func TestEveryFlippedBitOfAHeaderIsSeen(t *testing.T) {
	good := Header{Version: 3, BaseOffset: 1, CreatedAtMicros: 2}.AppendTo(nil)
	for bit := range headerAtCRC*8 + 32 {
		b := append([]byte(nil), good...)
		b[bit/8] ^= 1 << (bit % 8)
		if _, err := DecodeHeader(b); err == nil {
			t.Fatalf("bit %d", bit)
		}
	}
}

func TestABlankHeaderIsOneThatWasNeverWritten(t *testing.T) {
	if !HeaderBlank(nil) || !HeaderBlank([]byte{1}) || !HeaderBlank(make([]byte, 31)) || !HeaderBlank(make([]byte, 99)) {
		t.Fatal("blank headers are not seen")
	}
	if HeaderBlank(Header{Version: 3}.AppendTo(nil)) {
		t.Fatal("a header is taken for blank")
	}
	for i := range HeaderSize {
		b := make([]byte, 40)
		b[i] = 1
		if HeaderBlank(b) {
			t.Fatalf("byte %d is not looked at", i)
		}
	}
	b := make([]byte, 40)
	b[HeaderSize] = 1
	if !HeaderBlank(b) {
		t.Fatal("bytes past the header count")
	}
}

func TestZeroTailFindsTheFirstZeroOfTheRun(t *testing.T) {
	for n := range 40 {
		for last := -1; last < n; last++ {
			b := make([]byte, n)
			if last >= 0 {
				b[last] = 1
			}
			if got := zeroTail(b); got != last+1 {
				t.Fatalf("length %d, last byte at %d: %d", n, last, got)
			}
		}
	}
}

func TestChecksumOfTheHeaderIsTheStandardOne(t *testing.T) {
	b := Header{Version: 4, BaseOffset: 9}.AppendTo(nil)
	if binary.BigEndian.Uint32(b[headerAtCRC:]) != crc32.ChecksumIEEE(b[:24]) {
		t.Fatal("checksum differs")
	}
}
