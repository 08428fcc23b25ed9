package engine_test

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (r *rig) file(name string) []byte {
	r.Helper()
	b, err := os.ReadFile(filepath.Join(r.log.Dir(), name))
	if err != nil {
		r.Fatal(err)
	}
	return b
}

func TestTheSealedChecksumIsThatOfTheVector(t *testing.T) {
	r := newRig(t, func(c *engine.Config) { c.NowMicros = func() uint64 { return 2 } })
	r.append(engine.Record{Payload: []byte("hi"), TimestampMicros: 9}, engine.Record{Payload: []byte("yo"), TimestampMicros: 9})
	sealed, err := r.log.Seal(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if sealed.Checksum != 0x813060ea || sealed.Descriptor.Size != 92 {
		t.Fatalf("%d bytes with checksum %#08x, want 92 with 0x813060ea", sealed.Descriptor.Size, sealed.Checksum)
	}
	if d := sealed.Descriptor; d.BaseOffset != 0 || d.LastOffset() != 1 {
		t.Fatalf("%+v", d)
	}
	if tail := r.log.TailOffset(); tail != 2 {
		t.Fatalf("tail %d", tail)
	}
	if next := r.append(engine.Record{}); next.First != 2 {
		t.Fatalf("the next offset is %d", next.First)
	}
	r.wantVersions("[v3:0-2 v3:2-3]")
}

func TestAppendedBytesAreThoseOfTheVectors(t *testing.T) {
	r := newRig(t, func(c *engine.Config) { c.NowMicros = func() uint64 { return 2 } })
	var err error
	if r.log, err = r.store.OpenLogAt(r.ctx, testKey(1), 1); err != nil {
		t.Fatal(err)
	}
	header := unhex(t, `46 4c 53 47 00 03 00 00 00 00 00 00 00 00 00 01
		00 00 00 00 00 00 00 02 ad eb 65 e9 00 00 00 00`)
	if got := r.file(segment.LogName(0)); !bytes.Equal(got, header) {
		t.Errorf("a log placed at 1 begins with % x", got)
	}
	if got, want := r.file(segment.IndexName(0)), unhex(t, "464c5349 00030000 00000000 00000001 00000000 00000000"); !bytes.Equal(got, want) {
		t.Errorf("its index is % x", got)
	}

	if r.log, err = r.store.OpenLogAt(r.ctx, testKey(2), 7); err != nil {
		t.Fatal(err)
	}
	r.append(
		engine.Record{Payload: []byte("hi"), TimestampMicros: 9},
		engine.Record{Payload: []byte("yo"), TimestampMicros: 9, Mark: segment.Mark{Kind: segment.BatchContinue}},
	)
	r.append(engine.Record{Payload: segment.GenerationStartPayload(3), TimestampMicros: 9, Mark: segment.Mark{Kind: segment.GenerationStart}})
	if err := r.log.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	plain := unhex(t, `00 00 00 02 00 00 00 00 00 00 00 07 00 00 00 00 00 00 00 09 c6 54 de 27 24 02 15 2c 68 69`)
	continues := unhex(t, `40 00 00 02 00 00 00 00 00 00 00 08 00 00 00 00 00 00 00 09 2c 15 b1 e0 2b 03 19 3a 79 6f`)
	if got, want := r.file(segment.LogName(0))[segment.HeaderSize:], append(plain, continues...); !bytes.Equal(got, want) {
		t.Errorf("appended\n% x, want\n% x", got, want)
	}
	// The generation start went to a segment of its own version and has offset 9.
	if got := r.file(segment.LogName(1)); len(got) != 68 || got[5] != 4 {
		t.Errorf("the generation start is in % x", got)
	}
	mark, ok := recovery.DecodeMark(r.file(recovery.MarkName))
	if !ok || mark != (recovery.Mark{Segment: 1, Synced: 68}) {
		t.Errorf("durable.mark says %+v, %v", mark, ok)
	}
}

func TestSealingAnEmptyActiveSegmentRollsNothing(t *testing.T) {
	r := newRig(t)
	for range 2 {
		sealed, err := r.log.Seal(r.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if sealed.Descriptor.Size != segment.HeaderSize || !sealed.Descriptor.Empty() {
			t.Fatalf("%+v", sealed)
		}
		r.wantVersions("[v3:0-0]")
	}
	r.append(engine.Record{})
	r.wantVersions("[v3:0-1]")
}

// The index that appending leaves is the one that a scan of the segment makes, for
// every segment, also after a segment was appended to in several sittings.
func TestTheIndexIsByteIdenticalToARebuiltOne(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, threshold := range []int{100, 50} {
		r := newRig(t, func(c *engine.Config) {
			c.FsyncMode = engine.FsyncNone
			c.SegmentBytes = 20_000
			c.RolloverThresholdPercent = threshold
		})
		for range 25 {
			for range random.IntN(12) {
				batch := make([]int, 1+random.IntN(5))
				for i := range batch {
					batch[i] = random.IntN(400)
				}
				r.appendSizes(batch...)
			}
			r.reopen()
			if random.IntN(4) == 0 {
				if err := r.log.Truncate(r.ctx, uint64(random.IntN(int(r.log.TailOffset())+1))); err != nil {
					t.Fatal(err)
				}
			}
		}
		r.close()
		checkIndexes(t, filepath.Join(r.root, testKey(0).DirName()), r.cfg.IndexSpacingBytes)
	}
}

func checkIndexes(t testing.TB, dir string, spacing int64) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	for _, path := range logs {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		scan, err := segment.Scan(bytes.NewReader(b), int64(len(b)), segment.ScanOptions{Spacing: spacing})
		if err != nil || scan.Damage != nil {
			t.Fatal(err, scan.Damage)
		}
		index, err := os.ReadFile(strings.TrimSuffix(path, ".log") + ".index")
		if err != nil {
			t.Fatal(err)
		}
		if want := segment.EncodeIndex(scan.Header.BaseOffset, scan.Entries); !bytes.Equal(index, want) {
			t.Errorf("%s: the index has %d bytes and a rebuilt one %d, or they differ", filepath.Base(path), len(index), len(want))
		}
	}
}
