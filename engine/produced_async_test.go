package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/producer"
)

// pipeline is how many batches a client of the Kafka protocol has under way.
const pipeline = 5

func (r *rig) produceAsync(batch engine.ProducerBatch, payloads ...string) engine.Pending {
	r.Helper()
	p, err := r.log.AppendProducedAsync(r.ctx, batch, records(payloads...)...)
	if err != nil {
		r.Fatalf("%+v: %v", batch, err)
	}
	return p
}

func completed(p engine.Pending) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// asyncRig is a log whose writes are held from the second on: one of another
// producer is in flight, and what comes is staged behind it. It runs in a bubble.
type asyncRig struct {
	*flushRig
	held  *faultdisk.Injected
	front engine.Pending
}

func newAsyncRig(t *testing.T, mode engine.FsyncMode, errno syscall.Errno) *asyncRig {
	a := &asyncRig{flushRig: newFlushRig(t, mode, false, func(c *engine.Config) {
		c.SegmentBytes, c.FsyncInterval = 1<<20, 1<<40
	})}
	a.produce(batchBy(1, 0), "0")
	a.held = a.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Path: isLog, Stall: true, Errno: errno})
	t.Cleanup(a.held.Remove)
	a.front = a.produceAsync(batchBy(2, 0), "in front")
	<-a.held.Reached()
	return a
}

func (a *asyncRig) close() { _ = a.store.Close(context.Background()) }

func eachModeInBubble(t *testing.T, test func(t *testing.T, mode engine.FsyncMode)) {
	for _, mode := range []engine.FsyncMode{engine.FsyncNone, engine.FsyncPeriodic, engine.FsyncOnCommit} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, mode) })
		})
	}
}

// The batches that one producer has under way are written, and flushed, together.
func TestBatchesThatAProducerHasUnderWayShareAFlush(t *testing.T) {
	eachModeInBubble(t, func(t *testing.T, mode engine.FsyncMode) {
		a := newAsyncRig(t, mode, 0)
		defer a.close()
		before := a.disk.Count(faultdisk.Writes)
		var handles []engine.Pending
		for sequence := range uint64(pipeline) {
			handles = append(handles, a.produceAsync(batchBy(1, 1+sequence), "a", "b"))
		}
		// All five again: each answer rests on the append that carries its records.
		for sequence := range uint64(pipeline) {
			handles = append(handles, a.produceAsync(batchBy(1, 1+sequence), "a", "b"))
		}
		synctest.Wait()
		for i, p := range handles {
			if completed(p) {
				t.Errorf("handle %d is complete while the write before it is held", i)
			}
		}
		a.held.Release()
		for i, p := range handles {
			first := uint64(2 + 2*(i%pipeline))
			got, err := p.Wait(a.ctx)
			if want := (engine.AppendResult{First: first, Last: first + 1}); err != nil || got != want || p.Offsets() != want {
				t.Errorf("handle %d: %+v, %v, want %+v", i, got, err, want)
			}
			if again := i >= pipeline; p.Duplicate() != again {
				t.Errorf("handle %d: a duplicate: %v", i, p.Duplicate())
			}
		}
		synctest.Wait()
		if n := a.disk.Count(faultdisk.Writes) - before; n != 1 {
			t.Errorf("%d writes for what was staged together", n)
		}
		if mode == engine.FsyncOnCommit {
			if durable := a.log.DurableOffset(); durable != 2+2*pipeline {
				t.Errorf("durable %d", durable)
			}
		}
	})
}

// What is decided at once is no handle, and what is acknowledged is a complete one.
func TestAnAsynchronousBatchIsAnsweredAsABlockingOne(t *testing.T) {
	eachModeInBubble(t, func(t *testing.T, mode engine.FsyncMode) {
		a := newAsyncRig(t, mode, 0)
		defer a.close()
		for batch, want := range map[engine.ProducerBatch]engine.SequenceReason{
			batchBy(1, 2): engine.SequenceGap,
			batchBy(3, 1): engine.SequenceUnknown,
		} {
			_, err := a.log.AppendProducedAsync(a.ctx, batch, records("x")...)
			if refused := errorAs[*engine.SequenceError](t, err); refused.Reason != want {
				t.Errorf("%+v: %v", batch, err)
			}
		}
		held := a.produceAsync(batchBy(1, 0), "0")
		if got, err := held.Wait(a.ctx); !completed(held) || err != nil || got != (engine.AppendResult{}) || !held.Duplicate() {
			t.Errorf("held: %+v, %v", got, err)
		}
		reused := a.produceAsync(batchBy(1, 0), "other")
		if _, err := reused.Wait(a.ctx); !completed(reused) || errorAs[*engine.SequenceError](t, err).Reason != engine.SequenceReused {
			t.Errorf("reused: %v", err)
		}
		resting := a.produceAsync(batchBy(2, 0), "other in front")
		if completed(resting) {
			t.Error("a batch was refused for records that are not acknowledged")
		}
		a.held.Release()
		if _, err := resting.Wait(a.ctx); errorAs[*engine.SequenceError](t, err).Reason != engine.SequenceReused {
			t.Errorf("reused, once it is there: %v", err)
		}
		// As many as are remembered, so that the first is forgotten.
		for sequence := range uint64(producer.BatchesMax) {
			a.produce(batchBy(1, 1+sequence), "n")
		}
		if _, err := a.produceAsync(batchBy(1, 0), "0").Wait(a.ctx); errorAs[*engine.SequenceError](t, err).Reason != engine.SequenceExpired {
			t.Errorf("expired: %v", err)
		}
		if _, err := a.log.AppendProducedAsync(a.ctx, batchBy(1, 1)); err == nil {
			t.Error("a batch without a record has a handle")
		}
	})
}

// What is missing of a batch is written, and the handle is that of the whole.
func TestAnAsynchronousBatchIsCompleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsyncRig(t, engine.FsyncOnCommit, 0)
		defer a.close()
		part := records("a", "b")
		for i := range part {
			part[i].Mark = producer.Marks(1, 1, 3)(uint32(i))
		}
		if _, err := a.log.AppendAsync(a.ctx, part...); err != nil {
			t.Fatal(err)
		}
		p := a.produceAsync(batchBy(1, 1), "a", "b", "c")
		again := a.produceAsync(batchBy(1, 1), "a", "b", "c")
		if _, err := a.log.AppendProducedAsync(a.ctx, batchBy(1, 3), records("e")...); err == nil {
			t.Error("a gap was staged")
		}
		a.held.Release()
		for _, p := range []engine.Pending{p, again} {
			if got, err := p.Wait(a.ctx); err != nil || got != (engine.AppendResult{First: 2, Last: 4}) || !p.Duplicate() {
				t.Errorf("%+v, %v", got, err)
			}
		}
		if tail := a.log.TailOffset(); tail != 5 {
			t.Errorf("the log ends at %d", tail)
		}
	})
}

// The first write hangs and then fails, with batches of the same producer behind it
// and retries of all of them: none succeeds, all are complete in the order of their
// offsets, and the state is as before when the first of them is.
func TestAsynchronousBatchesFailTogetherAndAreForgotten(t *testing.T) {
	for _, c := range []struct {
		mode   engine.FsyncMode
		errno  syscall.Errno
		usable bool
	}{
		{engine.FsyncNone, syscall.EIO, true},
		{engine.FsyncPeriodic, syscall.ENOSPC, true},
		{engine.FsyncOnCommit, syscall.ENOSPC, true},
		{engine.FsyncOnCommit, syscall.EIO, false},
	} {
		t.Run(fmt.Sprintf("%v %v", c.mode, c.errno), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAsyncRig(t, c.mode, c.errno)
				defer a.close()
				handles := []engine.Pending{a.front, a.produceAsync(batchBy(2, 0), "in front")}
				for range 2 {
					for sequence := range uint64(pipeline) {
						handles = append(handles, a.produceAsync(batchBy(1, 1+sequence), "a", "b"))
					}
				}
				cancelled, cancel := context.WithCancel(a.ctx)
				cancel()
				if _, err := handles[2].Wait(cancelled); errorAs[*engine.UnknownOutcomeError](t, err).First != 2 {
					t.Error(err)
				}
				a.held.Release()
				<-handles[0].Done()
				if next, _ := a.log.NextProducerSequence(1); next != 1 {
					t.Errorf("a batch failed, and the next of the producer behind it is %d", next)
				}
				for i, p := range handles {
					if _, err := p.Wait(a.ctx); !errors.Is(err, c.errno) || errors.Is(err, engine.ErrPoisoned) == c.usable {
						t.Errorf("handle %d: %v", i, err)
					}
				}
				if !c.usable {
					_, err := a.log.AppendProducedAsync(a.ctx, batchBy(1, 1), records("a", "b")...)
					if !errors.Is(err, engine.ErrPoisoned) {
						t.Errorf("after the poison: %v", err)
					}
					if p := a.produceAsync(batchBy(1, 0), "0"); !completed(p) || !p.Duplicate() {
						t.Error("what was durable before is not answered")
					}
					return
				}
				for sequence := range uint64(pipeline) {
					p := a.produceAsync(batchBy(1, 1+sequence), "a", "b")
					got, err := p.Wait(a.ctx)
					if want := (engine.AppendResult{First: 1 + 2*sequence, Last: 2 + 2*sequence}); err != nil || got != want || p.Duplicate() {
						t.Errorf("tried again: %+v, %v", got, err)
					}
				}
			})
		})
	}
}

// Under on_commit the same for a flush that follows the write.
func TestAnAsynchronousRetryFailsWithTheFlushItRestsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFlushRig(t, engine.FsyncOnCommit, true, func(c *engine.Config) {
			c.SegmentBytes, c.RolloverThresholdPercent = 512, 50
		})
		defer func() { _ = r.store.Close(r.ctx) }()
		// The first batch in a segment that was prepared is flushed with its header.
		held := r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Path: isSegment(1), Stall: true, Errno: syscall.EIO})
		t.Cleanup(held.Remove)
		var last engine.Pending
		sequence := uint64(0)
		for ; held.Hits() == 0 && sequence < 100; sequence++ {
			last = r.produceAsync(batchBy(1, sequence), "a record that fills its segment")
			synctest.Wait()
		}
		retry := r.produceAsync(batchBy(1, sequence-1), "a record that fills its segment")
		synctest.Wait()
		if completed(last) || completed(retry) || held.Hits() == 0 {
			t.Fatalf("complete: %v and %v, %d flushes held", completed(last), completed(retry), held.Hits())
		}
		held.Release()
		for _, p := range []engine.Pending{last, retry} {
			if got, err := p.Wait(r.ctx); !errors.Is(err, engine.ErrPoisoned) || !errors.Is(err, syscall.EIO) {
				t.Errorf("%+v, %v", got, err)
			}
		}
	})
}

// Producers with several batches under way each, whose writes find no room now and
// then: each goes back to the first batch that failed, and in the end every record is
// there once.
func TestProducersWithSeveralBatchesUnderWayStoreEachRecordOnce(t *testing.T) {
	eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
		disk, onDisk := withFaults(t)
		r := newRig(t, onDisk, mode)
		noRoomNowAndThen(disk)
		clients := make([]client, 8)
		var all sync.WaitGroup
		for i := range clients {
			clients[i].id = uint64(i + 1)
			all.Go(func() {
				for c := &clients[i]; c.acked < 40; {
					if err := c.send(r, min(pipeline, 40-c.acked)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		if s := r.store.Stats(); s.Full == 0 || s.Rolls == 0 {
			t.Errorf("%d appends found no room, %d rolls", s.Full, s.Rolls)
		}
		eachOnce(t, r, clients)
		r.reopen()
		eachOnce(t, r, clients)
	})
}

// send has n batches under way and goes back to the first that failed. One behind
// that is refused, since what is before it is not there any more, is as good as
// failed.
func (c *client) send(r *rig, n uint64) error {
	var handles []engine.Pending
	for sequence := c.acked; sequence < c.acked+n; sequence++ {
		batch := batchBy(c.id, sequence)
		p, err := r.log.AppendProducedAsync(r.ctx, batch, records(c.batch(sequence)...)...)
		var refused *engine.SequenceError
		if gap := errors.As(err, &refused); err != nil && !errors.Is(err, engine.ErrFull) && !gap {
			return fmt.Errorf("%+v: %w", batch, err)
		}
		if err != nil {
			break
		}
		handles = append(handles, p)
	}
	failed := false
	for _, p := range handles {
		_, err := p.Wait(r.ctx)
		switch {
		case err == nil && failed:
			return fmt.Errorf("the batch of producer %d at %d succeeded behind one that failed", c.id, p.Offsets().First)
		case err == nil:
			c.acked++
		case !errors.Is(err, engine.ErrFull):
			return err
		default:
			failed = true
		}
	}
	return nil
}
