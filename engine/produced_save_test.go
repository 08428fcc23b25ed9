package engine_test

import (
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/producer"
)

// producersIn matches the snapshot of one log while it is written.
func producersIn(l *engine.Log) func(string) bool {
	return func(path string) bool { return path == filepath.Join(l.Dir(), "producers.tmp") }
}

// rollOnce has a producer's batches roll a log once.
func rollOnce(r *flushRig, l *engine.Log, id uint64) {
	r.Helper()
	for rolls := len(l.Segments()); len(l.Segments()) == rolls; {
		next, _ := l.NextProducerSequence(id)
		if _, err := l.AppendProduced(r.soon(), batchBy(id, next), records("a record that fills its segment")...); err != nil {
			r.Fatal(err)
		}
	}
}

// snapshotsOf is how many snapshots of a log took their place.
func (r *flushRig) snapshotsOf(l *engine.Log) (n int) {
	for _, e := range r.disk.Log(faultdisk.Rename) {
		if e.To == filepath.Join(l.Dir(), engine.ProducersName) {
			n++
		}
	}
	return n
}

// asOfDisk is what the snapshot on the disk is as of.
func (r *flushRig) asOfDisk(l *engine.Log) uint64 {
	r.Helper()
	f, err := r.disk.FS().OpenFile(filepath.Join(l.Dir(), engine.ProducersName), device.ReadOnly, 0)
	if err != nil {
		r.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	b := make([]byte, size)
	if err == nil {
		_, err = f.ReadAt(b, 0)
	}
	header, decoding := producer.DecodeSnapshotHeader(b)
	if err != nil || decoding != nil {
		r.Fatal(err, decoding)
	}
	return header.AsOf
}

// A snapshot that hangs keeps no append waiting, neither of the batch that rolled nor
// of further rolls; of those that came meanwhile the newest is written.
func TestNoAppendWaitsForASnapshotOfProducers(t *testing.T) {
	for _, background := range []bool{false, true} {
		eachModeInBubble(t, func(t *testing.T, mode engine.FsyncMode) {
			r := newFlushRig(t, mode, background, func(c *engine.Config) { c.RetentionBytes = 0 })
			defer func() { _ = r.store.Close(r.ctx) }()
			held := hold(t, r.disk, faultdisk.Write, producersIn(r.log), 1)
			for range 5 {
				rollOnce(r, r.log, 1)
				synctest.Wait() // or the first one is as of the last roll, and there is no other
			}
			if held.Hits() != 1 || r.snapshotsOf(r.log) != 0 {
				t.Fatalf("%d snapshots hang, %d were written", held.Hits(), r.snapshotsOf(r.log))
			}
			held.Release()
			synctest.Wait()
			if n := r.snapshotsOf(r.log); n != 2 {
				t.Errorf("%d snapshots were written, want the one that hung and the newest", n)
			}
			if at := r.asOfDisk(r.log); at != r.active().BaseOffset {
				t.Errorf("as of %d, and the active segment begins at %d", at, r.active().BaseOffset)
			}
		})
	}
}

// Of the rolls that are staged at a time the newest alone is saved: a log holds one
// view for them, however small its segments are.
func TestOfStagedRollsTheNewestIsSaved(t *testing.T) {
	eachModeInBubble(t, func(t *testing.T, mode engine.FsyncMode) {
		a := newAsyncRig(t, mode, 0)
		defer a.close()
		a.reopenWith(512)
		held := hold(t, a.disk, faultdisk.Writes, isLog, 1)
		handles := []engine.Pending{a.produceAsync(batchBy(3, 0), "in front")}
		<-held.Reached()
		rolls := a.store.Stats().Rolls
		for sequence := range uint64(40) {
			handles = append(handles, a.produceAsync(batchBy(3, 1+sequence), "a record that fills its segment"))
		}
		held.Release()
		for _, p := range handles {
			if _, err := p.Wait(a.ctx); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := a.store.Stats().Rolls - rolls; n < 3 {
			t.Fatalf("%d rolls", n)
		}
		if n := a.snapshotsOf(a.log); n != 1 {
			t.Errorf("%d snapshots of rolls that were staged together", n)
		}
		if at := a.asOfDisk(a.log); at != a.active().BaseOffset {
			t.Errorf("as of %d, and the active segment begins at %d", at, a.active().BaseOffset)
		}
		a.reopen()
		if n := a.store.Stats().ProducerStateRebuilt; n != 0 {
			t.Errorf("%d opens read sealed segments", n)
		}
		a.snapshotTells(t)
	})
}

// reopenWith lets what is held go and opens the log with other segments.
func (a *asyncRig) reopenWith(segmentBytes int64) {
	a.Helper()
	a.held.Release()
	if _, err := a.front.Wait(a.ctx); err != nil {
		a.Fatal(err)
	}
	a.reopen(func(c *engine.Config) { c.SegmentBytes, c.RetentionBytes = segmentBytes, 0 })
}

// When the snapshots of as many logs hang as are written at a time, those of another
// log wait, and nothing else of it: it is appended to, rolled, cut and closed. What
// waits is not written once it tells of records that were cut, and is when the log
// closes.
func TestSnapshotsThatHangKeepNoOtherLogWaiting(t *testing.T) {
	for _, cut := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newFlushRig(t, engine.FsyncOnCommit, false, func(c *engine.Config) { c.RetentionBytes = 0 })
			defer func() { _ = r.store.Close(r.ctx) }()
			var hanging []*faultdisk.Injected
			for i := range engine.ProducerSaversMax {
				l, err := r.store.OpenLog(r.ctx, testKey(1+i))
				if err != nil {
					t.Fatal(err)
				}
				hanging = append(hanging, hold(t, r.disk, faultdisk.Write, producersIn(l), 1))
				rollOnce(r, l, 1)
			}
			synctest.Wait()
			for range 3 {
				rollOnce(r, r.log, 1)
			}
			synctest.Wait()
			if n := r.snapshotsOf(r.log); n != 0 {
				t.Fatalf("%d snapshots were written, with all turns taken", n)
			}
			base := r.active().BaseOffset
			if cut {
				if err := r.log.Truncate(r.soon(), 1); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.log.Close(r.soon()); err != nil {
				t.Fatal(err)
			}
			for _, held := range hanging {
				if held.Hits() != 1 {
					t.Error("a snapshot did not hang")
				}
				held.Release()
			}
			synctest.Wait()
			if n := r.snapshotsOf(r.log); cut && n != 0 {
				t.Errorf("%d snapshots of records that were cut", n)
			} else if !cut && (n != 1 || r.asOfDisk(r.log) != base) {
				t.Errorf("%d snapshots of a log that was closed", n)
			}
		})
	}
}

// While a segment waits for its seal no snapshot that tells of its records is written:
// a power loss would leave the snapshot and take the records.
func TestASnapshotFollowsTheSealOfWhatItTellsOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFlushRig(t, engine.FsyncNone, true, func(c *engine.Config) { c.RetentionBytes = 0 })
		defer func() { _ = r.store.Close(r.ctx) }()
		held := hold(t, r.disk, faultdisk.Flush, isLog, 1)
		for sequence := uint64(0); len(r.log.Segments()) == 1; sequence++ {
			if _, err := r.log.AppendProduced(r.soon(), batchBy(1, sequence), records("a record that fills its segment")...); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // for the roll that is prepared
		}
		if n := r.snapshotsOf(r.log); held.Hits() != 1 || n != 0 {
			t.Errorf("%d snapshots were written beside a seal that hangs (%d)", n, held.Hits())
		}
		held.Release()
		synctest.Wait()
		if n := r.snapshotsOf(r.log); n != 1 {
			t.Errorf("%d snapshots were written after the seal", n)
		}
	})
}

// Exclusive work waits for a snapshot that is being written, so that none takes its
// place after a truncation has removed the file.
func TestATruncationWaitsForTheSnapshotBeingWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFlushRig(t, engine.FsyncOnCommit, false, func(c *engine.Config) { c.RetentionBytes = 0 })
		defer func() { _ = r.store.Close(r.ctx) }()
		held := hold(t, r.disk, faultdisk.Write, producersIn(r.log), 1)
		rollOnce(r, r.log, 1)
		rollOnce(r, r.log, 1)
		cut := make(chan error, 1)
		go func() { cut <- r.log.Truncate(r.ctx, 1) }()
		synctest.Wait()
		if len(cut) > 0 {
			t.Error("the log was cut while its snapshot was being written")
		}
		held.Release()
		if err := <-cut; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := r.disk.FS().Lstat(filepath.Join(r.log.Dir(), engine.ProducersName)); !device.IsNotExist(err) {
			t.Errorf("a snapshot of records that were cut: %v", err)
		}
	})
}

// A truncation that fails half way leaves no snapshot behind that tells of what it
// cut.
func TestAPoisonedLogWritesNoSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFlushRig(t, engine.FsyncOnCommit, false, func(c *engine.Config) { c.RetentionBytes = 0 })
		defer func() { _ = r.store.Close(r.ctx) }()
		held := hold(t, r.disk, faultdisk.Write, producersIn(r.log), 1)
		rollOnce(r, r.log, 1)
		rollOnce(r, r.log, 1)
		r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.FlushDir, Errno: syscall.EIO})
		cut := make(chan error, 1)
		go func() { cut <- r.log.Truncate(r.ctx, 1) }()
		synctest.Wait()
		held.Release()
		if err := <-cut; err == nil {
			t.Fatal("the truncation succeeded")
		}
		synctest.Wait()
		if n := r.snapshotsOf(r.log); n != 1 {
			t.Errorf("%d snapshots, of which one was under way before", n)
		}
	})
}
