package engine_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// A flush covers what was written when it was submitted. What is written while it
// runs may or may not be with it on the device.
func TestAFlushCoversOnlyWhatWasWrittenWhenItWasSubmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFlushRig(t, engine.FsyncNone, false)
		r.appendSizes(80, 80)
		size := r.active().Size
		flush := hold(r, r.disk, faultdisk.Flush, isLog, 1)
		synced := make(chan error, 1)
		go func() { synced <- r.log.Sync(r.ctx) }()
		synctest.Wait()
		if flush.Hits() != 1 {
			t.Fatal("no flush is under way")
		}
		r.appendSizes(80)
		synctest.Wait()
		flush.Release()
		if err := <-synced; err != nil {
			t.Fatal(err)
		}
		if got := r.log.DurableOffset(); got != 2 {
			t.Errorf("durable is %d, and the flush was submitted when 2 were written", got)
		}
		if got, want := r.log.UnsyncedBytes(), r.active().Size-size; got != want {
			t.Errorf("%d bytes are unsynced, want the %d of the record written beside the flush", got, want)
		}
	})
}

// In one submission two flushes have no order. So the active segment's is asked for
// once that of the retired one has returned, and not earlier.
func TestNoFlushOfTheActiveSegmentIsSubmittedBesideThatOfTheRetiredOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFlushRig(t, engine.FsyncNone, true)
		seal := hold(r, r.disk, faultdisk.Flush, named(segment.IndexName(r.active().ID)), 1)
		r.until(func() bool {
			synctest.Wait()
			return r.store.Stats().RollsBackground > 0
		})
		synctest.Wait()
		segments := r.log.Segments()
		former, next := segments[len(segments)-2], segments[len(segments)-1]
		flush := hold(r, r.disk, faultdisk.Flush, named(segment.LogName(former.ID)), 1)
		synced := make(chan error, 1)
		go func() { synced <- r.log.Sync(r.ctx) }()
		synctest.Wait()
		if seal.Hits() != 1 || flush.Hits() != 1 {
			t.Fatal("no flush of a retired segment is under way")
		}
		for _, e := range r.disk.Log(faultdisk.Flush) {
			if e.Name == segment.LogName(next.ID) {
				t.Errorf("%v beside the flush of segment %d", e, former.ID)
			}
		}
		if got := r.log.DurableOffset(); got > next.BaseOffset {
			t.Errorf("durable is %d while what is below %d is flushed", got, next.BaseOffset)
		}
		flush.Release()
		if err := <-synced; err != nil {
			t.Error(err)
		}
		if got := r.log.DurableOffset(); got != next.NextOffset {
			t.Errorf("durable is %d, want %d", got, next.NextOffset)
		}
		seal.Release()
	})
}

// A mark that was being written when a truncation came vouches for what the
// truncation cuts. It must not land last.
func TestATruncationWaitsForTheMarkThatIsBeingWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFlushRig(t, engine.FsyncOnCommit, false)
		late := hold(r, r.disk, faultdisk.Write, named(recovery.MarkName), 1)
		r.appendSizes(80, 80, 80)
		time.Sleep(fewTicks)
		synctest.Wait()
		if late.Hits() != 1 {
			t.Fatal("no mark is being written")
		}
		before := r.now()
		done := make(chan error, 1)
		go func() { done <- r.log.Truncate(r.ctx, 1) }()
		synctest.Wait()
		if written := r.after(before); len(written) != 0 {
			t.Errorf("the truncation did not wait: %v", written)
		}
		late.Release()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b, err := os.ReadFile(filepath.Join(r.log.Dir(), recovery.MarkName))
		if err != nil {
			t.Fatal(err)
		}
		d := r.active()
		if mark, ok := recovery.DecodeMark(b); !ok || mark != (recovery.Mark{Segment: d.ID, Synced: d.Size}) {
			t.Errorf("the mark is %+v, and the log ends with segment %d of %d bytes", mark, d.ID, d.Size)
		}
	})
}

// A batch that failed may be in the file whole. If it stayed there, a record of the
// same length in its first one's place would make the rest of it records again.
func TestARecordOfABatchThatFailedDoesNotComeBack(t *testing.T) {
	eachMode(t, func(t *testing.T, choose func(*engine.Config)) {
		var c engine.Config
		choose(&c)
		r := newOrderRig(t, c.FsyncMode, false)
		r.appendSizes(80)
		r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Path: isLog, Errno: syscall.ENOSPC, Lands: faultdisk.Everything})
		_, err := r.log.Append(r.ctx, engine.Record{Payload: make([]byte, 80)}, engine.Record{Payload: make([]byte, 80)})
		errorAs[*engine.FullError](t, err)
		r.appendSizes(80)
		// The process dies.
		again := openCopy(t, r.root, filepath.Join(fastDir(t), "died"), sharedPool(t))
		again.wantRecords(2)
		again.close()
	})
}

// The index of a sealed segment is longer than that of what a truncation leaves of
// it. What is written over it must not be followed by entries of records that are
// gone.
func TestATruncationEmptiesTheIndexOfTheSegmentThatItCuts(t *testing.T) {
	r := newRig(t)
	for len(r.log.Segments()) < 2 {
		r.appendSizes(200)
	}
	if err := r.log.Truncate(r.ctx, 4); err != nil {
		t.Fatal(err)
	}
	r.appendSizes(200)
	r.close()
	checkIndexes(t, filepath.Join(r.root, testKey(0).DirName()), r.cfg.IndexSpacingBytes)
}
