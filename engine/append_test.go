package engine_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/segment"
)

func TestRecordsReadBackOverRollsAndRestarts(t *testing.T) {
	onBoth(t, func(t *testing.T, backend func(*engine.Config)) {
		eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
			for _, threshold := range []int{100, 60} {
				t.Run(fmt.Sprintf("threshold %d", threshold), func(t *testing.T) {
					r := newRigIn(t, t.TempDir(), backend, mode, func(c *engine.Config) { c.RolloverThresholdPercent = threshold })
					appendOverRestarts(r)
				})
			}
		})
	})
}

func appendOverRestarts(r *rig) {
	seed := uint64(time.Now().UnixNano())
	r.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var sizes []int
	for range 3 {
		before := len(r.log.Segments())
		for i := 0; i < 20 || len(r.log.Segments()) == before; i++ {
			batch := make([]int, 1+random.IntN(4))
			for i := range batch {
				batch[i] = random.IntN(700)
			}
			r.appendSizes(batch...)
			sizes = append(sizes, batch...)
		}
		r.checkChain()
		r.checkPayloads(func(offset uint64) int { return sizes[offset] })
		r.reopen()
		if tail := r.log.TailOffset(); tail != uint64(len(sizes)) {
			r.Fatalf("%d records after a restart, %d before", tail, len(sizes))
		}
		if durable := r.log.DurableOffset(); durable != uint64(len(sizes)) || r.log.UnsyncedBytes() != 0 {
			r.Fatalf("%d records durable after a restart, %d bytes unsynced", durable, r.log.UnsyncedBytes())
		}
		r.checkChain()
		r.checkPayloads(func(offset uint64) int { return sizes[offset] })
	}
}

func TestTimestampsAndMarksReadBack(t *testing.T) {
	r := newRig(t)
	records := []engine.Record{
		{Payload: []byte("opens"), TimestampMicros: 7, Mark: segment.Mark{Kind: segment.BatchOpen, Producer: 42, Sequence: 5, Len: 2}},
		{Payload: []byte("continues"), TimestampMicros: math.MaxUint64, Mark: segment.Mark{Kind: segment.BatchContinue}},
		{Payload: []byte("plain, stamped by the log")},
	}
	r.append(records...)
	for range 2 {
		for i, got := range r.readAll() {
			want := records[i]
			if want.TimestampMicros == 0 {
				want.TimestampMicros = fixedMicros
			}
			if string(got.Payload) != string(want.Payload) || got.TimestampMicros != want.TimestampMicros || got.Mark != want.Mark {
				t.Errorf("record %d reads back as %+v, want %+v", i, got, want)
			}
		}
		r.reopen()
	}
}

func TestABatchIsNeverSplitBetweenSegments(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	r := newRig(t, func(c *engine.Config) { c.FsyncMode = engine.FsyncNone })
	var batches []engine.AppendResult
	for range 200 {
		batch := make([]int, 1+random.IntN(12))
		for i := range batch {
			batch[i] = random.IntN(600)
		}
		batches = append(batches, r.appendSizes(batch...))
	}
	segments := r.checkChain()
	for _, b := range batches {
		holders := 0
		for _, d := range segments {
			if d.BaseOffset <= b.Last && b.First < d.NextOffset {
				holders++
			}
		}
		if holders != 1 {
			t.Errorf("the batch of offsets %v lies in %d segments", b, holders)
		}
	}
}

func TestARecordOrBatchLargerThanASegmentGetsItsOwn(t *testing.T) {
	r := newRig(t)
	r.appendSizes(10)
	r.appendSizes(10_000)
	r.appendSizes(10)
	r.appendSizes(3000, 3000, 3000)
	r.appendSizes(10)
	var ranges []string
	for _, d := range r.checkChain() {
		ranges = append(ranges, fmt.Sprintf("%d-%d", d.BaseOffset, d.NextOffset))
	}
	if got, want := fmt.Sprint(ranges), "[0-1 1-2 2-3 3-6 6-7]"; got != want {
		t.Fatalf("segments hold %s, want %s", got, want)
	}
	r.reopen()
	sizes := []int{10, 10_000, 10, 3000, 3000, 3000, 10}
	r.checkPayloads(func(offset uint64) int { return sizes[offset] })
}

func TestARecordLargerThanASegmentInAnEmptyLogNeedsNoRoll(t *testing.T) {
	r := newRig(t)
	r.appendSizes(10_000)
	if n := len(r.checkChain()); n != 1 {
		t.Fatalf("%d segments", n)
	}
}

func TestC223SegmentFilledExactlyLeavesNoEmptySegment(t *testing.T) {
	const size = 100
	eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
		r := newRig(t, mode, func(c *engine.Config) {
			c.SegmentBytes = segment.HeaderSize + 4*(segment.RecordHeaderSize+size)
		})
		for range 4 {
			r.appendSizes(size)
		}
		for range 2 {
			segments := r.checkChain()
			if len(segments) != 1 || segments[0].Size != r.cfg.SegmentBytes {
				t.Fatalf("a segment filled exactly became %+v", segments)
			}
			r.reopen()
		}
		r.appendSizes(size)
		if segments := r.checkChain(); len(segments) != 2 || segments[1].BaseOffset != 4 {
			t.Fatalf("the next record made %+v", segments)
		}
	})
}

func TestC222EmptyPayloadsAreRecordsAndAnEmptyBatchIsAnError(t *testing.T) {
	r := newRig(t)
	if _, err := r.log.Append(r.ctx); err == nil {
		t.Fatal("an append without records was accepted")
	} else {
		errorAs[*engine.InvalidRangeError](t, err)
	}
	if r.log.TailOffset() != 0 {
		t.Fatal("it took an offset")
	}
	r.appendSizes(0)
	r.appendSizes(0, 0, 0)
	for range 2 {
		if got := r.readAll(); len(got) != 4 {
			t.Fatalf("%d of 4 empty records", len(got))
		}
		r.reopen()
	}
}

func TestC223TheLargestPayloadIsTakenAndOneMoreByteIsRefusedBeforeAnyWrite(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 64 MiB")
	}
	disk, faults := withFaults(t)
	r := newRig(t, faults, func(c *engine.Config) { c.FsyncMode = engine.FsyncNone })
	before := disk.Log(faultChanges)
	big := make([]byte, segment.MaxPayloadBytes+1)
	_, err := r.log.Append(r.ctx, engine.Record{Payload: big})
	errorAs[*engine.UnsupportedError](t, err)
	_, err = r.log.Append(r.ctx, engine.Record{}, engine.Record{Payload: big})
	errorAs[*engine.UnsupportedError](t, err)
	if after := disk.Log(faultChanges); len(after) != len(before) {
		t.Fatalf("a refused payload changed the disk: %v", after[len(before):])
	}
	copy(big, "begins")
	copy(big[len(big)-6:], "ends..")
	r.append(engine.Record{Payload: big[:segment.MaxPayloadBytes]})
	r.reopen()
	got := r.read(0, 1)
	if len(got) != 1 || len(got[0].Payload) != segment.MaxPayloadBytes || string(got[0].Payload) != string(big[:segment.MaxPayloadBytes]) {
		t.Fatal("the largest payload reads back differently")
	}
}

func TestC224OffsetsEndWithATypedErrorAndTheLogStaysReadable(t *testing.T) {
	r := newRig(t)
	l, err := r.store.OpenLogAt(r.ctx, testKey(1), math.MaxUint64-2)
	if err != nil {
		t.Fatal(err)
	}
	r.log = l
	if got := r.append(engine.Record{Payload: []byte("a")}, engine.Record{Payload: []byte("b")}); got.Last != math.MaxUint64-1 {
		t.Fatalf("offsets %v", got)
	}
	_, err = l.Append(r.ctx, engine.Record{Payload: []byte("c")})
	errorAs[*engine.ExhaustedError](t, err)
	if got := r.readAll(); len(got) != 2 || string(got[1].Payload) != "b" {
		t.Fatalf("%d records are readable", len(got))
	}
}

func TestALogThatIsPlacedBeginsThereAndKeepsItsBase(t *testing.T) {
	r := newRig(t)
	for _, ask := range []uint64{1000, 7, 0} {
		l, err := r.store.OpenLogAt(r.ctx, testKey(1), ask)
		if err != nil {
			t.Fatal(err)
		}
		if l.BaseOffset() != 1000 {
			t.Fatalf("the log begins at %d", l.BaseOffset())
		}
		if _, err := l.ReadRange(r.ctx, 999, 1); err == nil {
			t.Fatal("a read below the base gives no error")
		} else if trimmed := errorAs[*engine.TrimmedError](t, err); trimmed.Requested != 999 || trimmed.Oldest != 1000 {
			t.Fatalf("%+v", trimmed)
		}
		if err := l.Close(r.ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAClosedLogRefusesEverything(t *testing.T) {
	r := newRig(t)
	r.appendSizes(10)
	if err := r.log.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	_, appendErr := r.log.Append(r.ctx, engine.Record{})
	_, asyncErr := r.log.AppendAsync(r.ctx, engine.Record{})
	_, readErr := r.log.ReadRange(r.ctx, 0, 1)
	_, sealErr := r.log.Seal(r.ctx)
	_, retentionErr := r.log.EnforceRetention(r.ctx)
	for what, err := range map[string]error{
		"append": appendErr, "append async": asyncErr, "read": readErr, "seal": sealErr, "retention": retentionErr,
		"sync": r.log.Sync(r.ctx), "wait durable": r.log.WaitDurable(r.ctx, 5), "wait tail": r.log.WaitTail(r.ctx, 5),
		"truncate": r.log.Truncate(r.ctx, 0), "close": r.log.Close(r.ctx),
	} {
		if !errors.Is(err, engine.ErrClosed) {
			t.Errorf("%s on a closed log: %v", what, err)
		}
	}
	l, err := r.store.OpenLog(r.ctx, testKey(0))
	if err != nil {
		t.Fatal(err)
	}
	if l.TailOffset() != 1 {
		t.Fatal("the log does not open again in the same store")
	}
}
