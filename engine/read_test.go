package engine_test

import (
	"bytes"
	"testing"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/segment"
)

// budgetRig has ten segments of four records of 100 bytes, the last of them
// active, and so ends at offset 40.
func budgetRig(t *testing.T, change ...func(*engine.Config)) *rig {
	change = append([]func(*engine.Config){func(c *engine.Config) {
		c.FsyncMode = engine.FsyncNone
		c.SegmentBytes = segment.HeaderSize + 4*(segment.RecordHeaderSize+100)
	}}, change...)
	r := newRig(t, change...)
	for range 40 {
		r.appendSizes(100)
	}
	return r
}

func TestOneBudgetCoversAllSegmentsOfARead(t *testing.T) {
	r := budgetRig(t)
	for _, row := range []struct {
		start    uint64
		maxBytes int64
		want     int
	}{
		{0, 100, 1},
		{0, 199, 1},
		{0, 200, 2},
		{3, 200, 2},
		{2, 1000, 10},
		{0, 4000, 40},
		{0, 1 << 40, 40},
		{39, 1 << 20, 1},
		{38, 150, 1},
	} {
		got := r.read(row.start, row.maxBytes)
		if len(got) != row.want {
			t.Errorf("a read at %d of %d bytes gave %d records, want %d", row.start, row.maxBytes, len(got), row.want)
		}
		for i, record := range got {
			if record.Offset != row.start+uint64(i) {
				t.Errorf("a read at %d gave offset %d at place %d", row.start, record.Offset, i)
			}
		}
	}
}

func TestAReadKeepsToItsOwnBoundOnRecords(t *testing.T) {
	r := budgetRig(t, func(c *engine.Config) { c.MaxRecordsPerRead = 20 })
	for asked, want := range map[int]int{-1: 1, 0: 1, 1: 1, 7: 7, 20: 20, 21: 20} {
		got, _, err := r.log.ReadNext(t.Context(), 3, 1<<40, asked)
		if err != nil || len(got) != want || got[0].Offset != 3 {
			t.Errorf("asked for %d records: got %d, %v; want %d from 3 on", asked, len(got), err, want)
		}
	}
}

func TestTheFirstRecordIsReturnedHoweverLarge(t *testing.T) {
	r := newRig(t)
	for _, size := range []int{10, 9000, 10, 9000, 10} {
		r.appendSizes(size)
	}
	for _, row := range []struct {
		start    uint64
		maxBytes int64
		want     int
	}{
		{1, 1, 1}, {1, 0, 1}, {1, -5, 1}, {0, 10, 1}, {0, 100, 1}, {1, 9000, 1}, {1, 9010, 2}, {0, 9010, 2}, {0, 9020, 3},
	} {
		if got := r.read(row.start, row.maxBytes); len(got) != row.want {
			t.Errorf("a read at %d of %d bytes gave %d records, want %d", row.start, row.maxBytes, len(got), row.want)
		}
	}
}

func TestTheRecordBoundCoversAllSegmentsOfARead(t *testing.T) {
	r := budgetRig(t, func(c *engine.Config) { c.MaxRecordsPerRead = 6 })
	if got := r.read(3, 1<<30); len(got) != 6 || got[5].Offset != 8 {
		t.Fatalf("%d records", len(got))
	}
}

func TestTheRecordBoundHoldsForRecordsWithoutPayload(t *testing.T) {
	r := newRig(t, func(c *engine.Config) { c.MaxRecordsPerRead = 10 })
	r.append(make([]engine.Record, 300)...)
	if got := r.read(0, 0); len(got) != 10 {
		t.Fatalf("%d records", len(got))
	}
}

func TestBelowTheBaseIsTrimmedAndAtTheTailIsEmpty(t *testing.T) {
	r := budgetRig(t, func(c *engine.Config) { c.RetentionBytes, c.RetentionInterval = 1, 1<<62 })
	result, err := r.log.EnforceRetention(r.ctx)
	if err != nil || result.BaseOffset != 36 || r.log.BaseOffset() != 36 {
		t.Fatalf("%+v %v", result, err)
	}
	for _, start := range []uint64{0, 35} {
		_, err := r.log.ReadRange(r.ctx, start, 100)
		if trimmed := errorAs[*engine.TrimmedError](t, err); trimmed.Requested != start || trimmed.Oldest != 36 {
			t.Errorf("%+v", trimmed)
		}
	}
	for _, start := range []uint64{40, 41, 1 << 60} {
		if got := r.read(start, 100); len(got) != 0 {
			t.Errorf("a read at %d past the tail gave %d records", start, len(got))
		}
	}
	if got := r.read(36, 1<<20); len(got) != 4 {
		t.Errorf("%d of 4 records at the base", len(got))
	}
}

// A read that covers sealed segments, one whose seal is held, and the active one.
func TestAReadRunsThroughSealedRetiredAndActiveSegments(t *testing.T) {
	disk, faults := withFaults(t)
	r := newRig(t, faults, func(c *engine.Config) {
		c.FsyncMode = engine.FsyncNone
		c.RolloverThresholdPercent = 60
	})
	r.appendSizes(100, 100, 100)
	if _, err := r.log.Seal(r.ctx); err != nil {
		t.Fatal(err)
	}
	held := hold(t, disk, faultdisk.Flush, isSegment(1), faultdisk.Forever)
	appendUntilRolled(r, 1)
	<-held.Reached()
	r.appendSizes(100)
	segments := r.checkChain()
	if len(segments) != 3 {
		t.Fatalf("%d segments", len(segments))
	}
	if durable := r.log.DurableOffset(); durable != 3 {
		t.Errorf("durable up to %d, and only what lies below 3 was flushed", durable)
	}
	r.checkPayloads(func(uint64) int { return 100 })
	all := r.read(0, 1<<30)
	if uint64(len(all)) != r.log.TailOffset() {
		t.Errorf("one read gave %d of %d records", len(all), r.log.TailOffset())
	}
	for _, start := range []uint64{segments[1].BaseOffset, segments[1].NextOffset - 1, segments[2].BaseOffset} {
		if got := r.read(start, 200); len(got) == 0 || got[0].Offset != start {
			t.Errorf("a read at %d gave %d records", start, len(got))
		}
	}
	held.Release()
	if err := r.log.Sync(r.ctx); err != nil {
		t.Fatal(err)
	}
	r.checkPayloads(func(uint64) int { return 100 })
}

// appendUntilRolled appends until so many background rolls were installed. The
// ceiling makes an append wait for the roll in the end, so this terminates.
func appendUntilRolled(r *rig, rolls uint64) {
	r.Helper()
	for range 1000 {
		if r.store.Stats().RollsBackground >= rolls {
			return
		}
		r.appendSizes(100)
	}
	r.Fatal("no background roll in 1000 appends")
}

func TestC227AReaderInsideATrimmedSegmentFinishesOrIsTold(t *testing.T) {
	disk, faults := withFaults(t)
	r := budgetRig(t, faults, func(c *engine.Config) { c.RetentionBytes, c.RetentionInterval = 1, 1<<62 })
	held := hold(t, disk, faultdisk.Read, isSegment(0), 1)
	type outcome struct {
		records []segment.Record
		err     error
	}
	read := make(chan outcome)
	go func() {
		records, err := r.log.ReadRange(r.ctx, 0, 400)
		read <- outcome{records, err}
	}()
	<-held.Reached()
	if _, err := r.log.EnforceRetention(r.ctx); err != nil {
		t.Fatal(err)
	}
	held.Release()
	got := <-read
	if got.err != nil {
		errorAs[*engine.TrimmedError](t, got.err)
		return
	}
	for i, record := range got.records {
		if !bytes.Equal(record.Payload, payload(uint64(i), 100)) {
			t.Errorf("record %d reads back differently", i)
		}
	}
	if len(got.records) != 4 {
		t.Errorf("the reader got %d of 4 records and no error", len(got.records))
	}
}

func TestReadingOldSegmentsKeepsFewDescriptors(t *testing.T) {
	r := budgetRig(t, func(c *engine.Config) { c.OpenSealedMax = 3 })
	for range 2 {
		r.checkPayloads(func(uint64) int { return 100 })
		if n := r.store.Stats().OpenSealedSegments; n > 3 {
			t.Fatalf("%d sealed segments are open, the bound is 3", n)
		}
		r.reopen()
	}
}
