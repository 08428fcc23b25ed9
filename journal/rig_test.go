package journal

import (
	"bytes"
	"errors"
	"testing"

	"felix.local/felix/segment"
)

const testEpoch = 0x0102030405060708

// testShard is a name as the engine makes them.
const testShard = "t_n_orders_0-00000000000000aa"

// record is one record of a segment.
func record(offset uint64, payload []byte) []byte {
	b := make([]byte, segment.EncodedSize(segment.Mark{}, len(payload)))
	segment.EncodeRecord(b, offset, 9, segment.Mark{}, payload)
	return b
}

// data is an entry of one record with a payload.
func data(offset uint64, payload []byte) Entry {
	return Entry{
		Kind: Data, Shard: testShard, Segment: 3, BaseOffset: 7, HeaderCRC: 0x367e09e4,
		Position: segment.HeaderSize, First: offset, Last: offset, Bytes: record(offset, payload),
	}
}

func fence(shard string) Entry { return Entry{Kind: Fence, Shard: shard, Segment: AllSegments} }

// frame builds and seals a frame.
func frame(epoch, sequence, oldest uint64, entries ...Entry) []byte {
	b := make([]byte, HeaderBytes)
	for i := range entries {
		b = AppendEntry(b, &entries[i])
	}
	return Seal(b, Header{Epoch: epoch, Sequence: sequence, OldestNeeded: oldest, Entries: uint32(len(entries))})
}

// sized is a frame that takes so many blocks.
func sized(epoch, sequence, oldest uint64, blocks int) []byte {
	return frame(epoch, sequence, oldest, data(sequence+7, bytes.Repeat([]byte{byte(sequence)}, (blocks-1)*BlockBytes+9)))
}

// one is a frame of one block.
func one(sequence, oldest uint64) []byte { return sized(testEpoch, sequence, oldest, 1) }

// files makes sources out of contents, padded with zeros to 16 blocks.
func files(contents ...[]byte) []Source {
	var list []Source
	for i, b := range contents {
		b = append(bytes.Clone(b), make([]byte, max(0, 16*BlockBytes-len(b)))...)
		list = append(list, Source{Name: FileName(i), Reader: bytes.NewReader(b), Bytes: int64(len(b))})
	}
	return list
}

// sequences scans and lists the chain.
func sequences(t testing.TB, sources []Source) []uint64 {
	t.Helper()
	c, err := Scan(sources, testEpoch)
	if err != nil {
		t.Fatal(err)
	}
	var list []uint64
	err = c.Each(func(h Header, entries []Entry) error {
		list = append(list, h.Sequence)
		if len(entries) != int(h.Entries) {
			t.Fatalf("%d entries, the header says %d", len(entries), h.Entries)
		}
		return nil
	})
	if err != nil || len(list) != len(c.Frames()) {
		t.Fatalf("%d of %d frames, %v", len(list), len(c.Frames()), err)
	}
	return list
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func asCorruption(t testing.TB, err error) *Corruption {
	t.Helper()
	var c *Corruption
	if !errors.As(err, &c) {
		t.Fatalf("%v is no *Corruption", err)
	}
	return c
}

func mustPanic(t *testing.T, what string, do func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	do()
}
