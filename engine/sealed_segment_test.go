package engine_test

import (
	"context"
	"hash/crc32"
	"testing"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/segment"
)

// Reading a large segment takes seconds, and nothing that an append does touches
// it.
func TestAppendsGoOnWhileTheChecksumOfASealedSegmentIsRead(t *testing.T) {
	eachMode(t, func(t *testing.T, choose func(*engine.Config)) {
		disk, faults := withFaults(t)
		r := newRig(t, choose, faults)
		r.appendSizes(80, 80)
		reading := hold(t, disk, faultdisk.Read, isSegment(0), 1)
		type outcome struct {
			sealed engine.SealedSegment
			err    error
		}
		sealed := make(chan outcome, 1)
		go func() {
			s, err := r.log.Seal(r.ctx)
			sealed <- outcome{s, err}
		}()
		<-reading.Reached()
		for r.log.Segments()[len(r.log.Segments())-1].ID < 3 {
			r.appendSizes(700) // over rolls as well
		}
		if err := r.log.Sync(r.ctx); err != nil {
			t.Fatal(err)
		}
		// What removes segments waits for the checksum.
		for _, remove := range []func(context.Context) error{
			func(ctx context.Context) error { return r.log.Truncate(ctx, 0) },
			func(ctx context.Context) error { _, err := r.log.EnforceRetention(ctx); return err },
		} {
			ctx, cancel := context.WithCancel(r.ctx)
			cancel()
			errorAs[*engine.LogError](t, remove(ctx))
		}
		reading.Release()
		got := <-sealed
		if got.err != nil {
			t.Fatal(got.err)
		}
		b := r.file(segment.LogName(0))
		if d := got.sealed.Descriptor; d.ID != 0 || d.NextOffset != 2 || d.Size != int64(len(b)) || got.sealed.Checksum != uint64(crc32.ChecksumIEEE(b)) {
			t.Errorf("%+v, and the file has %d bytes with checksum %#x", got.sealed, len(b), crc32.ChecksumIEEE(b))
		}
		if err := r.log.Truncate(r.ctx, 1); err != nil {
			t.Fatal(err)
		}
		r.checkPayloads(func(offset uint64) int { return 80 })
	})
}

// An active segment without records is described by its header, and the appends
// that go on meanwhile may even replace it.
func TestAppendsGoOnWhileTheChecksumOfAnEmptySegmentIsRead(t *testing.T) {
	disk, faults := withFaults(t)
	r := newRig(t, faults)
	header := r.file(segment.LogName(0))
	reading := hold(t, disk, faultdisk.Read, isSegment(0), 1)
	sealed := make(chan engine.SealedSegment, 1)
	go func() {
		s, err := r.log.Seal(r.ctx)
		if err != nil {
			t.Error(err)
		}
		sealed <- s
	}()
	<-reading.Reached()
	// A version 4 record needs a segment of its own, and the empty one goes.
	r.append(engine.Record{Payload: segment.GenerationStartPayload(3), Mark: segment.Mark{Kind: segment.GenerationStart}})
	r.appendSizes(80)
	reading.Release()
	got := <-sealed
	if d := got.Descriptor; d.ID != 0 || d.Size != segment.HeaderSize || got.Checksum != uint64(crc32.ChecksumIEEE(header)) {
		t.Errorf("%+v", got)
	}
}
