package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/segment"
)

// heldSeal makes a log roll in the background and holds the seal of its former
// segment, whose data is flushed already.
func heldSeal(t testing.TB, mode engine.FsyncMode, errno syscall.Errno) (r *orderRig, seal *faultdisk.Injected) {
	t.Helper()
	r = newOrderRig(t, mode, true)
	seal = r.disk.Inject(faultdisk.Fault{
		Kinds: faultdisk.Flush, Path: named(segment.IndexName(r.active().ID)), Stall: true, Errno: errno,
	})
	t.Cleanup(seal.Release)
	r.until(func() bool { return r.store.Stats().RollsBackground > 0 })
	<-seal.Reached()
	return r, seal
}

func TestAFlushBesideAPendingSealTakesTwoRounds(t *testing.T) {
	r, seal := heldSeal(t, engine.FsyncPeriodic, 0)
	segments := r.log.Segments()
	former, next := segments[len(segments)-2], segments[len(segments)-1]
	flush := r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Path: named(segment.LogName(former.ID)), Stall: true})
	before := r.now()
	synced := make(chan error, 1)
	go func() { synced <- r.log.Sync(r.ctx) }()
	<-flush.Reached()
	if durable := r.log.DurableOffset(); durable >= next.BaseOffset {
		t.Errorf("durable is %d while a flush of what is below %d runs", durable, next.BaseOffset)
	}
	flush.Release()
	if err := <-synced; err != nil {
		t.Fatal(err)
	}
	r.inOrder(before, flushOf(former.ID), flushOf(next.ID))
	if n := len(r.only(before, flushOf(next.ID))); n != 1 {
		t.Errorf("%d flushes of the active segment", n)
	}
	if durable := r.log.DurableOffset(); durable != r.log.TailOffset() {
		t.Errorf("durable %d, tail %d", durable, r.log.TailOffset())
	}
	seal.Release()
}

func TestNothingIsReportedDurableOverAFailedSeal(t *testing.T) {
	r, seal := heldSeal(t, engine.FsyncPeriodic, syscall.EIO)
	segments := r.log.Segments()
	next := segments[len(segments)-1]
	flush := r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Path: named(segment.LogName(next.ID)), Stall: true})
	synced := make(chan error, 1)
	go func() { synced <- r.log.Sync(r.ctx) }()
	<-flush.Reached()
	seal.Release()
	if err := r.log.WaitDurable(r.ctx, next.NextOffset-1); !errors.Is(err, engine.ErrPoisoned) {
		t.Errorf("waiting past a failed seal: %v", err)
	}
	flush.Release()
	if err := <-synced; !errors.Is(err, engine.ErrPoisoned) {
		t.Errorf("a sync over a failed seal: %v", err)
	}
	if n := uint64(len(r.readAll())); n != r.log.DurableOffset() {
		t.Errorf("%d records read, %d durable", n, r.log.DurableOffset())
	}
	marks := r.mark.mu.marks
	if last := marks[len(marks)-1]; last.Segment >= next.ID {
		t.Errorf("the mark moved past the failed seal: %+v", last)
	}
	if err := r.store.Close(r.ctx); !errors.Is(err, engine.ErrPoisoned) {
		t.Errorf("close: %v", err)
	}
	// Closing waited for the flush under way.
	if durable := r.log.DurableOffset(); durable > next.BaseOffset {
		t.Errorf("durable is %d; the seal of what is below %d failed", durable, next.BaseOffset)
	}
	r.store = nil
	r.open()
	if tail := r.log.TailOffset(); tail != next.NextOffset {
		t.Errorf("recovered through %d of %d", tail, next.NextOffset)
	}
}

// A batch that fails takes everything staged behind it along, and all of it
// knows before one of those offsets names another record.
func TestAFailedBatchAndAllBehindItCompleteInOrderBeforeAnOffsetIsReused(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EIO} {
		t.Run(errno.Error(), func(t *testing.T) {
			r := newOrderRig(t, engine.FsyncOnCommit, false)
			r.appendSizes(80)
			held := r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.WriteDsync, Path: isLog, Stall: true, Errno: errno})
			var handles []engine.Pending
			for i := range 12 {
				// Every second one needs a segment of its own, and so a batch.
				handle, err := r.log.AppendAsync(r.ctx, engine.Record{Payload: make([]byte, 40+i%2*1000)})
				if err != nil {
					t.Fatal(err)
				}
				if got := handle.Offsets().First; got != uint64(i)+1 {
					t.Fatalf("staged at %d, want %d", got, i+1)
				}
				handles = append(handles, handle)
				if i == 0 {
					<-held.Reached()
				}
			}
			again := make(chan error, 1)
			go func() {
				<-handles[0].Done()
				got, err := r.log.Append(r.ctx, engine.Record{Payload: []byte("again")})
				if err == nil && got.First != 1 {
					t.Errorf("the next record got %d, want 1", got.First)
				}
				for i, handle := range handles {
					select {
					case <-handle.Done():
					default:
						t.Errorf("handle %d is not done, and its offset is given out", i)
					}
				}
				again <- err
			}()
			held.Release()
			<-handles[11].Done()
			for i, handle := range handles[:11] {
				select {
				case <-handle.Done():
				default:
					t.Errorf("handle %d completed after the last", i)
				}
				_, err := handle.Wait(r.ctx)
				if !errors.Is(err, errno) {
					t.Errorf("handle %d: %v", i, err)
				}
			}
			err := <-again
			if poisoned := errno != syscall.ENOSPC; poisoned != errors.Is(err, engine.ErrPoisoned) || !poisoned && err != nil {
				t.Errorf("the append after it: %v", err)
			}
			_ = r.store.Close(r.ctx) // the loop that completed them has ended then
			if n := r.store.Stats().StagedBytes; n != 0 {
				t.Errorf("%d bytes are still reserved", n)
			}
		})
	}
}

// A flush that began while a segment was active may end when it is the retired
// one. Positions and bound move together, or readers stop elsewhere than they are
// told.
func TestAFlushThatEndsAfterTheSwitchCoversTheRetiredSegment(t *testing.T) {
	r := newOrderRig(t, engine.FsyncPeriodic, true)
	r.appendSizes(80, 80)
	former := r.active().ID
	seal := r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Path: named(segment.IndexName(former)), Stall: true, Errno: syscall.EIO})
	flush := r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Path: named(segment.LogName(former)), Stall: true})
	synced := make(chan error, 1)
	go func() { synced <- r.log.Sync(r.ctx) }()
	<-flush.Reached()
	r.until(func() bool { return r.store.Stats().RollsBackground > 0 })
	flush.Remove()
	if err := <-synced; err != nil || r.log.DurableOffset() != 2 {
		t.Fatalf("durable %d, %v", r.log.DurableOffset(), err)
	}
	<-seal.Reached()
	if unsynced := r.log.UnsyncedBytes(); unsynced != totalSize(r.log.Segments())-segment.HeaderSize-2*108 {
		t.Errorf("%d bytes unsynced of %+v", unsynced, r.log.Segments())
	}
	seal.Release()
	if err := r.log.WaitDurable(r.ctx, r.log.TailOffset()); !errors.Is(err, engine.ErrPoisoned) {
		t.Fatal(err)
	}
	if n := len(r.readAll()); n != 2 {
		t.Errorf("%d records read, 2 are durable", n)
	}
	_ = r.store.Close(r.ctx)
	r.store = nil
}

func totalSize(segments []segment.Descriptor) (n int64) {
	for _, d := range segments {
		n += d.Size
	}
	return n
}

// Readers see the log as it was or as it will be, at every step of a truncation.
func TestAReadBesideATruncationNeverMeetsAFileThatIsBeingCut(t *testing.T) {
	const cut = 4
	begin := func(t *testing.T) *orderRig {
		r := newOrderRig(t, engine.FsyncOnCommit, false)
		r.until(func() bool { return len(r.log.Segments()) == 4 })
		return r
	}
	check := func(t *testing.T, r *orderRig, when string) {
		t.Helper()
		records, err := r.log.ReadRange(r.ctx, 0, 1<<20)
		if err != nil || len(records) != cut {
			t.Errorf("%s: %d records, %v", when, len(records), err)
		}
	}
	t.Run("a read that was under way plans again", func(t *testing.T) {
		for id := range uint64(3) {
			r := begin(t)
			held := r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Read, Path: named(segment.LogName(id)), Stall: true})
			done := make(chan struct{})
			go func() {
				check(t, r, "across")
				close(done)
			}()
			<-held.Reached()
			// Held is this one read; those of the truncation go on.
			if err := r.log.Truncate(r.ctx, cut); err != nil {
				t.Fatal(err)
			}
			held.Release()
			<-done
		}
	})
	t.Run("a read that begins meanwhile sees what stays", func(t *testing.T) {
		r := begin(t)
		after := 0
		stop := beforeEveryOp(r.disk, func(int) {
			if r.log.TailOffset() == cut { // the log was switched
				after++
				check(t, r, "during")
			}
		})
		err := r.log.Truncate(r.ctx, cut)
		if stop(); err != nil || after < 7 {
			t.Errorf("%d operations after the switch, %v", after, err)
		}
		check(t, r, "after")
	})
}

// The retired segment may be removed by hand, too, and is not durable then.
func TestARetiredSegmentWithoutANameIsNotReportedDurable(t *testing.T) {
	r, seal := heldSeal(t, engine.FsyncPeriodic, 0)
	defer seal.Release()
	segments := r.log.Segments()
	before := r.log.DurableOffset()
	if err := os.Remove(filepath.Join(r.log.Dir(), segment.LogName(segments[len(segments)-2].ID))); err != nil {
		t.Fatal(err)
	}
	errorAs[*engine.PoisonedError](t, r.log.Sync(r.ctx))
	if got := r.log.DurableOffset(); got != before {
		t.Errorf("durable went from %d to %d", before, got)
	}
}
