package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
)

func TestUnderOnCommitReadersSeeOnlyWhatIsDurable(t *testing.T) {
	disk, faults := withFaults(t)
	r := newRig(t, faults)
	r.appendSizes(10)
	held := hold(t, disk, faultdisk.WriteDsync, isLog, 1)
	pending, err := r.log.AppendAsync(r.ctx, engine.Record{Payload: payload(1, 10)})
	if err != nil {
		t.Fatal(err)
	}
	<-held.Reached()
	if tail, durable := r.log.TailOffset(), r.log.DurableOffset(); tail != 1 || durable != 1 {
		t.Errorf("tail %d, durable %d while the device holds offset 1", tail, durable)
	}
	if got := r.read(1, 100); len(got) != 0 {
		t.Error("a reader sees a record that is not durable")
	}
	if got := r.read(0, 100); len(got) != 1 {
		t.Errorf("a reader sees %d records of 1 that is durable", len(got))
	}
	select {
	case <-pending.Done():
		t.Error("acknowledged before it was durable")
	default:
	}
	tail := make(chan error)
	go func() { tail <- r.log.WaitTail(r.ctx, 1) }()
	held.Release()
	if err := <-tail; err != nil {
		t.Error(err)
	}
	if got := r.read(1, 100); len(got) != 1 {
		t.Error("the tail moved and the record cannot be read")
	}
	if _, err := pending.Wait(r.ctx); err != nil {
		t.Error(err)
	}
}

func TestUnderNoneAndPeriodicReadersSeeWhatIsWritten(t *testing.T) {
	for _, mode := range []engine.FsyncMode{engine.FsyncNone, engine.FsyncPeriodic} {
		t.Run(mode.String(), func(t *testing.T) {
			disk, faults := withFaults(t)
			r := newRig(t, faults, func(c *engine.Config) { c.FsyncMode, c.FsyncInterval = mode, 1<<62 })
			held := hold(t, disk, faultdisk.Flush, isLog, 1)
			r.appendSizes(10)
			if err := r.log.WaitTail(r.ctx, 0); err != nil {
				t.Fatal(err)
			}
			if got := r.read(0, 100); len(got) != 1 {
				t.Error("an acknowledged record cannot be read")
			}
			if r.log.DurableOffset() != 0 || r.log.UnsyncedBytes() == 0 {
				t.Errorf("durable %d, %d bytes unsynced before any flush", r.log.DurableOffset(), r.log.UnsyncedBytes())
			}
			synced := make(chan error)
			go func() { synced <- r.log.Sync(r.ctx) }()
			<-held.Reached()
			r.appendSizes(10) // behind the flush: it does not cover this one
			held.Release()
			if err := <-synced; err != nil {
				t.Fatal(err)
			}
			if durable := r.log.DurableOffset(); durable != 1 {
				t.Errorf("the flush covers offsets below %d, want 1", durable)
			}
		})
	}
}

func TestSyncMakesEverythingDurableAndThenCostsNothing(t *testing.T) {
	disk, faults := withFaults(t)
	r := newRig(t, faults, func(c *engine.Config) { c.FsyncMode = engine.FsyncNone })
	r.appendSizes(10, 10)
	r.appendSizes(10)
	if err := r.log.Sync(r.ctx); err != nil {
		t.Fatal(err)
	}
	if r.log.DurableOffset() != 3 || r.log.UnsyncedBytes() != 0 || r.store.Stats().UnsyncedBytes != 0 {
		t.Fatalf("durable %d, %d bytes unsynced after Sync", r.log.DurableOffset(), r.log.UnsyncedBytes())
	}
	if err := r.log.WaitDurable(r.ctx, 2); err != nil {
		t.Fatal(err)
	}
	before := disk.Count(faultdisk.Flushes)
	if err := r.log.Sync(r.ctx); err != nil {
		t.Fatal(err)
	}
	if n := disk.Count(faultdisk.Flushes) - before; n != 0 {
		t.Errorf("a Sync with nothing to do made %d flushes", n)
	}
}

func TestTheTimerFlushesUnderPeriodicAndAnIdleLogIsNotFlushed(t *testing.T) {
	disk, faults := withFaults(t)
	r := newRig(t, faults, func(c *engine.Config) { c.FsyncMode, c.FsyncInterval = engine.FsyncPeriodic, 1e6 })
	idle, err := r.store.OpenLog(r.ctx, testKey(1))
	if err != nil {
		t.Fatal(err)
	}
	flushes := func(l *engine.Log) (n int) {
		for _, e := range disk.Log(faultdisk.Flush) {
			if strings.HasPrefix(e.Path, l.Dir()) && isLog(e.Path) {
				n++
			}
		}
		return n
	}
	before := flushes(idle)
	for offset := range uint64(20) {
		r.appendSizes(10)
		if err := r.log.WaitDurable(r.ctx, offset); err != nil {
			t.Fatal(err)
		}
	}
	if n := flushes(idle) - before; n != 0 {
		t.Errorf("the idle log was flushed %d times", n)
	}
	// 20 appends, each waited for: one flush each covers them, and no more.
	if n := flushes(r.log); n > 21 {
		t.Errorf("%d flushes for 20 dirty ticks", n)
	}
}

func TestWaitingEndsWithTheContextAndWithTheLog(t *testing.T) {
	r := newRig(t)
	ended, cancel := context.WithCancel(r.ctx)
	cancel()
	for _, err := range []error{r.log.WaitDurable(ended, 0), r.log.WaitTail(ended, 0)} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	outcome := make(chan error)
	go func() { outcome <- r.log.WaitTail(r.ctx, 0) }()
	go func() { outcome <- r.log.WaitDurable(r.ctx, 0) }()
	if err := r.log.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-outcome; !errors.Is(err, engine.ErrClosed) {
			t.Errorf("got %v from a wait that the log's end cut short", err)
		}
	}
}
