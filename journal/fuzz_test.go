package journal

import (
	"bytes"
	"errors"
	"testing"

	"felix.local/felix/internal/golden"
)

func FuzzDecodeCurrent(f *testing.F) {
	f.Add(golden.Bytes(f, "current"), false)
	f.Add(golden.Bytes(f, "current-empty"), true)
	f.Add([]byte("FLJC"), true)
	f.Fuzz(func(t *testing.T, b []byte, sealed bool) {
		if b = bytes.Clone(b); sealed && len(b) >= CurrentBytes {
			putUint32(b[currentAtCRC:], Checksum(b[:currentAtCRC]))
		}
		c, err := DecodeCurrent(b)
		if err != nil {
			asCorruption(t, err)
			return
		}
		if again := c.AppendTo(nil); !bytes.Equal(again, b) {
			t.Fatalf("%x reads as %+v, which is written as %x", b, c, again)
		}
	})
}

// FuzzDecode reads arbitrary bytes. With sealed set, the checksums are made right
// first, so that what lies behind them is reached.
func FuzzDecode(f *testing.F) {
	f.Add(golden.Bytes(f, "frame"), false)
	f.Add(golden.Bytes(f, "frame"), true)
	f.Add(golden.Bytes(f, "frame-empty"), true)
	f.Add(sized(testEpoch, 3, 1, 2), true)
	f.Fuzz(func(t *testing.T, b []byte, sealed bool) {
		if b = bytes.Clone(b); sealed && len(b) >= HeaderBytes {
			b = reseal(b)
		}
		h, entries, err := Decode(b)
		if err != nil {
			asCorruption(t, err)
			return
		}
		again := make([]byte, HeaderBytes)
		for i := range entries {
			again = AppendEntry(again, &entries[i])
		}
		again = Seal(again, h)
		if n := h.FrameBytes(); !bytes.Equal(again[:n], b[:n]) {
			t.Fatalf("%x is written as %x", b[:n], again[:n])
		}
	})
}

// FuzzScan walks two files of arbitrary bytes, in which frames are sealed
// wherever a block begins like one.
func FuzzScan(f *testing.F) {
	f.Add(join(one(1, 1), one(2, 1)), one(3, 1), false)
	f.Add(join(one(1, 1), changed(one(2, 1), bodyBit)), one(3, 1), false)
	f.Add(join(one(4, 3), one(1, 1)), join(one(3, 1), sized(testEpoch, 9, 9, 2)), true)
	f.Add(sized(testEpoch+1, 1, 1, 2), golden.Bytes(f, "frame"), true)
	f.Fuzz(func(t *testing.T, a, b []byte, sealed bool) {
		var sources []Source
		for i, content := range [][]byte{a, b} {
			content = bytes.Clone(content)
			for pos := 0; sealed && pos+HeaderBytes <= len(content); pos += BlockBytes {
				if checkHead(content[pos:], HeaderBytes, magicFrame) == nil {
					reseal(content[pos:])
				}
			}
			sources = append(sources, Source{Name: FileName(i), Reader: bytes.NewReader(content), Bytes: int64(len(content))})
		}
		c, err := Scan(sources, testEpoch)
		if err != nil {
			if rotten := new(RottenError); !errors.As(err, &rotten) {
				t.Fatalf("%v is no *RottenError", err)
			}
			return
		}
		checkChain(t, c)
	})
}

// checkChain holds that a chain has no gap, begins where its frames say, and can
// be read.
func checkChain(t *testing.T, c *Chain) {
	var oldest uint64
	for i, ref := range c.Frames() {
		oldest = max(oldest, ref.OldestNeeded)
		if ref.Epoch != testEpoch || ref.Sequence != c.Frames()[0].Sequence+uint64(i) {
			t.Fatalf("frame %d of the chain is %+v", i, ref)
		}
	}
	if len(c.Frames()) > 0 && c.Frames()[0].Sequence < oldest {
		t.Fatalf("the chain begins at %d, and %d is the oldest needed", c.Frames()[0].Sequence, oldest)
	}
	n := 0
	err := c.Each(func(h Header, entries []Entry) error {
		if h != c.Frames()[n].Header || len(entries) != int(h.Entries) {
			t.Fatalf("frame %d is %+v with %d entries", n, h, len(entries))
		}
		n++
		return nil
	})
	if err != nil || n != len(c.Frames()) {
		t.Fatalf("%d of %d frames: %v", n, len(c.Frames()), err)
	}
}
