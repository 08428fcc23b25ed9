package journal

import (
	"bytes"
	"testing"

	"felix.local/felix/internal/golden"
)

func TestGoldenCurrent(t *testing.T) {
	for name, c := range map[string]Current{
		"current":       {Epoch: testEpoch, Files: 4, FileBytes: 64 << 20},
		"current-empty": {Epoch: 0xfffffffffffffffe, Files: 1, FileBytes: 4096, Empty: true},
	} {
		want := golden.Bytes(t, name)
		if got := c.AppendTo([]byte("x")); !bytes.Equal(got[1:], want) || len(want) != CurrentBytes {
			t.Errorf("%s: encoded\n%x, want\n%x", name, got[1:], want)
		}
		if got, err := DecodeCurrent(want); err != nil || got != c {
			t.Errorf("%s: decoded %+v, %v", name, got, err)
		}
	}
}

func TestCurrentIsTakenOnlyWhole(t *testing.T) {
	whole := golden.Bytes(t, "current")
	for n := range whole {
		if _, err := DecodeCurrent(whole[:n]); asCorruption(t, err).Kind != Truncated {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, err := DecodeCurrent(append(bytes.Clone(whole), 0)); asCorruption(t, err).Kind != TooLong {
		t.Errorf("one byte more: %v", err)
	}
	for bit := range len(whole) * 8 {
		bad := bytes.Clone(whole)
		bad[bit/8] ^= 1 << (bit % 8)
		_, err := DecodeCurrent(bad)
		want := HeaderChecksum
		switch {
		case bit/8 < currentAtVersion:
			want = Magic
		case bit/8 < currentAtFlags:
			want = Version
		}
		if got := asCorruption(t, err).Kind; got != want {
			t.Errorf("bit %d: kind %d, want %d", bit, got, want)
		}
	}
}

func TestCurrentWithFieldsThatMeanNothingIsRefused(t *testing.T) {
	for name, c := range map[string]Current{
		"no epoch":        {Files: 1, FileBytes: 4096},
		"no files":        {Epoch: 1, FileBytes: 4096},
		"many files":      {Epoch: 1, Files: FilesMax + 1, FileBytes: 4096},
		"no bytes":        {Epoch: 1, Files: 1},
		"part of a block": {Epoch: 1, Files: 1, FileBytes: 4097},
		"negative":        {Epoch: 1, Files: 1, FileBytes: -4096},
		"large":           {Epoch: 1, Files: 1, FileBytes: FileBytesMax + BlockBytes},
	} {
		mustPanic(t, name, func() { c.AppendTo(nil) })
		b := Current{Epoch: 1, Files: 1, FileBytes: 4096}.AppendTo(nil)
		putUint64(b[currentAtEpoch:], c.Epoch)
		putUint64(b[currentAtFileBytes:], uint64(c.FileBytes))
		putUint32(b[currentAtFiles:], c.Files)
		putUint32(b[currentAtCRC:], Checksum(b[:currentAtCRC]))
		if _, err := DecodeCurrent(b); asCorruption(t, err).Kind != Impossible {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := golden.Bytes(t, "current")
	b[currentAtFlags+1] = 2
	putUint32(b[currentAtCRC:], Checksum(b[:currentAtCRC]))
	if _, err := DecodeCurrent(b); asCorruption(t, err).Kind != Flags {
		t.Errorf("unknown flag: %v", err)
	}
}

func TestNamesOfDataFiles(t *testing.T) {
	for n, name := range map[int]string{0: "00000000.journal", 41: "00000041.journal", 99999999: "99999999.journal"} {
		if FileName(n) != name {
			t.Errorf("%d is %s", n, FileName(n))
		}
		if got, ok := ParseFileName(name); !ok || got != n {
			t.Errorf("%s is %d, %v", name, got, ok)
		}
	}
	for _, name := range []string{"", "current", "0.journal", "000000000.journal", "+0000000.journal", "0000000x.journal", "00000000.journal.tmp", "00000000"} {
		if n, ok := ParseFileName(name); ok {
			t.Errorf("%q is %d", name, n)
		}
	}
}
