package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

func TestNoRecordOfANewSegmentIsAcknowledgedBeforeTheFormerIsSealed(t *testing.T) {
	eachMode(t, func(t *testing.T, choose func(*engine.Config)) {
		var c engine.Config
		choose(&c)
		r := newOrderRig(t, c.FsyncMode, false)
		former, acked := r.active().ID, 0
		r.until(func() bool {
			r.quiet() // every reservation that was asked for is there
			acked = r.now()
			return r.active().ID != former
		})
		next := former + 1
		events := []event{
			{kinds: faultdisk.Flush, name: segment.IndexName(former)},
			{kinds: faultdisk.Truncate, name: segment.LogName(former)},
			flushOf(former),
			{kinds: faultdisk.Create, name: segment.LogName(next)},
			{kinds: faultdisk.WriteDsync, name: segment.LogName(next)},
			r.flushDir(),
			markSync(),
			{kinds: faultdisk.Writes, name: segment.LogName(next), at: anyRecord},
		}
		records := r.only(0, event{kinds: faultdisk.Writes, name: segment.LogName(former), at: anyRecord})
		last := records[len(records)-1]
		if c.FsyncMode != engine.FsyncOnCommit {
			events = append([]event{flushOf(former)}, events...) // of the data
		}
		found := r.inOrder(last.End, events...)
		if write := found[len(found)-1]; write.End > acked {
			t.Errorf("acknowledged at %d, written at %d", acked, write.End)
		}
		if marks := r.mark.mu.marks; marks[len(marks)-1].Segment != next {
			t.Errorf("the last mark is %+v", marks[len(marks)-1])
		}
		for _, e := range r.only(0, event{kinds: faultdisk.Writes, name: segment.LogName(next), at: anyRecord}) {
			if !found[len(found)-2].Before(e) {
				t.Errorf("%v started before the mark had moved", e)
			}
		}
	})
}

func TestABatchBehindAnUnsyncedHeaderEndsWithAFlush(t *testing.T) {
	r := newOrderRig(t, engine.FsyncOnCommit, true)
	var acked int
	r.until(func() bool {
		acked = r.now()
		return r.store.Stats().RollsBackground > 0
	})
	next := segment.LogName(r.active().ID)
	found := r.inOrder(0,
		event{kinds: faultdisk.Create, name: next}, r.flushDir(),
		event{kinds: faultdisk.Write, name: next}, // the header
		event{kinds: faultdisk.Write, name: next, at: anyRecord},
		flushOf(r.active().ID))
	if flush := found[len(found)-1]; flush.End > acked {
		t.Errorf("acknowledged at %d, flushed at %d", acked, flush.End)
	}
	r.appendSizes(80)
	after := r.only(acked, event{kinds: faultdisk.Writes, name: next, at: anyRecord})
	if len(after) != 1 || after[0].Kind != faultdisk.WriteDsync {
		t.Errorf("behind the flush, a dsync write commits alone: %v", after)
	}
}

// splitQueue carries dsync writes out in more than one transfer.
type splitQueue struct{ device.Queue }

func (q splitQueue) Submit(ops ...*device.Op) {
	for _, op := range ops {
		if op.Kind != device.WriteDsync || !strings.HasSuffix(op.File.Name(), ".log") || op.Pos == 0 {
			q.Queue.Submit(op)
			continue
		}
		op.Prepare()
		go func() {
			half := len(op.Buf) / 2
			first := device.Op{Kind: op.Kind, File: op.File, Buf: op.Buf[:half], Pos: op.Pos}
			rest := device.Op{Kind: op.Kind, File: op.File, Buf: op.Buf[half:], Pos: op.Pos + int64(half)}
			err := errors.Join(device.Do(q.Queue, &first), device.Do(q.Queue, &rest))
			op.Pieces = 2
			op.Complete(len(op.Buf), err)
		}()
	}
}

func TestADsyncWriteInSeveralPiecesIsFollowedByAFlush(t *testing.T) {
	r := newOrderRig(t, engine.FsyncOnCommit, false, func(q device.Queue) device.Queue { return splitQueue{q} })
	for range 3 {
		before := r.now()
		r.appendSizes(80)
		acked := r.now()
		name := segment.LogName(r.active().ID)
		found := r.inOrder(before,
			event{kinds: faultdisk.WriteDsync, name: name, at: anyRecord},
			event{kinds: faultdisk.WriteDsync, name: name, at: anyRecord},
			flushOf(r.active().ID))
		if found[2].End > acked {
			t.Error("acknowledged before the flush")
		}
	}
}

func TestADsyncWriteStartsOnlyWhereTheDurableBoundStands(t *testing.T) {
	for _, background := range []bool{false, true} {
		w := newFaultWorld(fastDir(t), sharedPool(t), faultConfig(engine.FsyncOnCommit, background), faultdisk.Options{})
		r := newFaultRun(deadline(t), w)
		r.workload()
		log := w.disk.Log(faultdisk.All)
		writes := 0
		for _, e := range log {
			if e.Kind != faultdisk.WriteDsync || !strings.HasSuffix(e.Name, ".log") || e.Pos == 0 {
				continue
			}
			writes++
			var before []faultdisk.Event
			for _, b := range log {
				if b.Before(e) {
					before = append(before, b)
				}
			}
			id, _ := segment.ParseLogName(e.Name)
			if problem := durableState(before).through(filepath.Dir(e.Path), id, e.Pos); problem != "" {
				t.Errorf("%v starts where %s", e, problem)
			}
		}
		if writes < 10 || len(r.faults)+len(r.errs) > 0 {
			t.Errorf("%d dsync writes, %v, %v", writes, r.faults, r.errs)
		}
	}
}

func TestAMarkNeverSaysMoreThanReturnedSyncs(t *testing.T) {
	eachMode(t, func(t *testing.T, choose func(*engine.Config)) {
		for _, background := range []bool{false, true} {
			var c engine.Config
			choose(&c)
			w := newFaultWorld(fastDir(t), sharedPool(t), faultConfig(c.FsyncMode, background), faultdisk.Options{})
			r := newFaultRun(deadline(t), w)
			r.workload()
			if problems := w.mark.problems(); len(problems) > 0 || len(w.mark.mu.marks) < 6 || len(r.faults)+len(r.errs) > 0 {
				t.Errorf("%d marks: %v, %v, %v", len(w.mark.mu.marks), problems, r.faults, r.errs)
			}
		}
	})
}

func TestTruncateRemovesNewestFirstAndShortensLast(t *testing.T) {
	r := newOrderRig(t, engine.FsyncOnCommit, false)
	r.until(func() bool { return len(r.log.Segments()) == 5 })
	segments := r.log.Segments()
	cut := segments[2].BaseOffset + 2
	before := r.now()
	if err := r.log.Truncate(r.ctx, cut); err != nil {
		t.Fatal(err)
	}
	remove := func(id uint64) event { return event{kinds: faultdisk.Remove, name: segment.LogName(id)} }
	survivor := segments[2].ID
	// The mark first: until the cut is flushed a power loss may leave zeros where
	// the mark vouched for records.
	r.inOrder(before, markSync(),
		remove(segments[4].ID), r.flushDir(), remove(segments[3].ID), r.flushDir(),
		event{kinds: faultdisk.Truncate, name: segment.LogName(survivor)}, flushOf(survivor))
	if n := len(r.only(before, event{kinds: faultdisk.Remove, name: segment.LogName(survivor)})); n != 0 {
		t.Error("the survivor was removed")
	}
	if got := r.log.TailOffset(); got != cut {
		t.Errorf("tail %d, want %d", got, cut)
	}
	r.appendSizes(80)
	r.reopen()
	r.checkPayloads(func(uint64) int { return 80 })
}

func TestATruncationBelowTheBaseMakesItsSegmentBeforeTheOldOneGoes(t *testing.T) {
	r := newOrderRig(t, engine.FsyncOnCommit, false)
	r.until(func() bool { return len(r.log.Segments()) == 5 })
	lazy := r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Write, Path: named(recovery.MarkName), Stall: true})
	// The mark that the roll made durable is the one that the truncation leads
	// back to; meanwhile the timer has replaced it.
	r.appendSizes(80)
	<-lazy.Reached()
	lazy.Remove()
	if _, err := r.log.EnforceRetention(r.ctx); err != nil {
		t.Fatal(err)
	}
	base, oldest := r.log.BaseOffset(), r.log.Segments()[0].ID
	if base < 3 {
		t.Fatalf("base %d", base)
	}
	before := r.now()
	if err := r.log.Truncate(r.ctx, base-3); err != nil {
		t.Fatal(err)
	}
	r.inOrder(before,
		event{kinds: faultdisk.Create, name: segment.LogName(oldest + 1)}, r.flushDir(),
		event{kinds: faultdisk.Remove, name: segment.LogName(oldest)}, r.flushDir(), markSync())
	b, err := os.ReadFile(filepath.Join(r.log.Dir(), recovery.MarkName))
	if err != nil {
		t.Fatal(err)
	}
	if mark, ok := recovery.DecodeMark(b); !ok || mark.Segment != r.active().ID || mark.Synced != r.active().Size {
		t.Errorf("the mark is %+v, the log ends with %+v", mark, r.active())
	}
	if r.log.BaseOffset() != base-3 || r.log.TailOffset() != base-3 {
		t.Fatalf("[%d, %d), want an empty log at %d", r.log.BaseOffset(), r.log.TailOffset(), base-3)
	}
	r.appendSizes(80)
	r.reopen()
	if n := len(r.readAll()); n != 1 || r.log.BaseOffset() != base-3 {
		t.Fatalf("%d records from %d", n, r.log.BaseOffset())
	}
}

func TestRetentionRemovesOldestFirstWithADirectoryFlushEach(t *testing.T) {
	r := newOrderRig(t, engine.FsyncOnCommit, false)
	r.until(func() bool { return len(r.log.Segments()) == 6 })
	segments := r.log.Segments()
	before := r.now()
	result, err := r.log.EnforceRetention(r.ctx)
	if err != nil || result.Segments < 3 {
		t.Fatalf("%+v %v", result, err)
	}
	var wanted []event
	for _, d := range segments[:result.Segments] {
		wanted = append(wanted, event{kinds: faultdisk.Remove, name: segment.LogName(d.ID)}, r.flushDir())
	}
	r.inOrder(before, wanted...)
	if got := len(r.log.Segments()); got != len(segments)-result.Segments || r.log.BaseOffset() != segments[result.Segments].BaseOffset {
		t.Fatalf("%d segments left from %d on: %+v", got, r.log.BaseOffset(), result)
	}
}

func TestARewindIsDurableBeforeTheNextWrite(t *testing.T) {
	eachMode(t, func(t *testing.T, choose func(*engine.Config)) {
		var c engine.Config
		choose(&c)
		r := newOrderRig(t, c.FsyncMode, false)
		r.appendSizes(80, 80)
		size := r.active().Size
		r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Path: isLog, Errno: syscall.ENOSPC, Lands: faultdisk.Half})
		before := r.now()
		_, err := r.log.Append(r.ctx, engine.Record{Payload: make([]byte, 60)})
		errorAs[*engine.FullError](t, err)
		r.appendSizes(80)
		name := segment.LogName(r.active().ID)
		found := r.inOrder(before,
			event{kinds: faultdisk.Truncate, name: name}, flushOf(r.active().ID),
			event{kinds: faultdisk.Writes, name: name, at: size})
		if found[0].Pos != size {
			t.Errorf("cut to %d, want %d", found[0].Pos, size)
		}
		if n := len(r.only(before, event{kinds: faultdisk.Writes, name: name, at: anyRecord})); n != 1 {
			t.Errorf("%d writes after the failed one", n)
		}
		r.reopen()
		r.checkPayloads(func(uint64) int { return 80 })
	})
}

func TestAFailedFlushIsNeverRepeated(t *testing.T) {
	r := newOrderRig(t, engine.FsyncPeriodic, false)
	r.appendSizes(80)
	r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Path: isLog, Errno: syscall.EIO})
	first := r.log.Sync(r.ctx)
	poison := errorAs[*engine.PoisonedError](t, first)
	if !errors.Is(poison.Cause, syscall.EIO) {
		t.Fatal(poison.Cause)
	}
	flushes := r.disk.Count(faultdisk.Flushes)
	_, appended := r.log.Append(r.ctx, engine.Record{})
	for _, err := range []error{r.log.Sync(r.ctx), appended, r.log.WaitDurable(r.ctx, 0), r.store.Close(r.ctx)} {
		if !errors.Is(err, engine.ErrPoisoned) || !errors.Is(err, syscall.EIO) {
			t.Error(err)
		}
	}
	r.store = nil
	if n := r.disk.Count(faultdisk.Flushes) - flushes; n != 0 {
		t.Errorf("%d flushes after one that failed", n)
	}
	r.open()
}
