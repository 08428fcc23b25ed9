package engine_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/producer"
)

func batchBy(id, sequence uint64) engine.ProducerBatch {
	return engine.ProducerBatch{Producer: id, Sequence: sequence}
}

func produced(first, last uint64, duplicate bool) engine.ProducedResult {
	return engine.ProducedResult{AppendResult: engine.AppendResult{First: first, Last: last}, Duplicate: duplicate}
}

func (r *rig) produce(batch engine.ProducerBatch, payloads ...string) engine.ProducedResult {
	r.Helper()
	got, err := r.log.AppendProduced(r.ctx, batch, records(payloads...)...)
	if err != nil {
		r.Fatalf("%+v: %v", batch, err)
	}
	return got
}

// try is an append of a producer under way.
type try struct {
	result chan engine.ProducedResult
	err    chan error
}

func (r *rig) try(batch engine.ProducerBatch, payloads ...string) try {
	t := try{make(chan engine.ProducedResult, 1), make(chan error, 1)}
	go func() {
		got, err := r.log.AppendProduced(r.ctx, batch, records(payloads...)...)
		t.result <- got
		t.err <- err
	}()
	return t
}

func (t try) answered() bool { return len(t.err) > 0 }

// Where the newest batch of a producer is when others arrive.
type place string

const (
	stagedBehind place = "staged"
	inFlight     place = "in flight"
	onDisk       place = "durable"
)

// verdictRig holds 66 batches of producer 1, of one record each, and of the
// 67th, of three records, as much as its place says. It runs in a bubble.
type verdictRig struct {
	*flushRig
	held   *faultdisk.Injected
	newest []try
}

const newestSequence = 66

func newVerdictRig(t *testing.T, mode engine.FsyncMode, where place, errno syscall.Errno) *verdictRig {
	v := &verdictRig{flushRig: newFlushRig(t, mode, false, func(c *engine.Config) {
		c.SegmentBytes, c.FsyncInterval = 1<<20, 1<<40
	})}
	for sequence := range uint64(newestSequence) {
		v.produce(batchBy(1, sequence), fmt.Sprint(sequence))
	}
	if err := v.log.Sync(v.ctx); err != nil {
		t.Fatal(err)
	}
	if where == onDisk {
		v.produce(batchBy(1, newestSequence), "a", "b", "c")
		if err := v.log.Sync(v.ctx); err != nil {
			t.Fatal(err)
		}
		return v
	}
	v.held = v.disk.Inject(faultdisk.Fault{
		Kinds: faultdisk.Writes, Path: isLog, Stall: true, Errno: errno,
	})
	t.Cleanup(v.held.Remove)
	if where == stagedBehind {
		v.newest = append(v.newest, v.try(batchBy(2, 0), "in front"))
		synctest.Wait()
	}
	v.newest = append(v.newest, v.try(batchBy(1, newestSequence), "a", "b", "c"))
	synctest.Wait()
	for _, under := range v.newest {
		if under.answered() {
			t.Fatal("a batch was acknowledged whose write is held")
		}
	}
	return v
}

// first is the offset of the newest batch.
func (v *verdictRig) first() uint64 { return newestSequence + uint64(max(0, len(v.newest)-1)) }

func eachPlace(t *testing.T, test func(t *testing.T, mode engine.FsyncMode, where place)) {
	for _, mode := range []engine.FsyncMode{engine.FsyncNone, engine.FsyncPeriodic, engine.FsyncOnCommit} {
		for _, where := range []place{stagedBehind, inFlight, onDisk} {
			t.Run(fmt.Sprintf("%v %s", mode, where), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { test(t, mode, where) })
			})
		}
	}
}

// Each verdict, while the producer's newest batch is staged, in flight or durable:
// what is refused or was acknowledged before is answered at once, and what rests on
// the newest batch once that is acknowledged.
func TestEveryVerdictWhereverTheNewestBatchIs(t *testing.T) {
	eachPlace(t, func(t *testing.T, mode engine.FsyncMode, where place) {
		v := newVerdictRig(t, mode, where, 0)
		defer func() { _ = v.store.Close(v.ctx) }()
		first := v.first()
		class := v.log.ProducerSequence(1, newestSequence)
		if class.Verdict != producer.Held || class.First != first || class.Last != first+2 {
			t.Errorf("the newest batch is %+v, want held at %d", class, first)
		}
		if next, ok := v.log.NextProducerSequence(1); !ok || next != newestSequence+1 {
			t.Errorf("next is %d, %v", next, ok)
		}
		counted := func(sequence uint64) engine.ProducerBatch {
			return engine.ProducerBatch{Producer: 1, Sequence: sequence, Numbering: engine.ByRecord}
		}
		type want struct {
			result engine.ProducedResult
			reason engine.SequenceReason
			rests  bool // on the newest batch
		}
		cases := []struct {
			what     string
			batch    engine.ProducerBatch
			payloads []string
			want     want
		}{
			{"held", batchBy(1, newestSequence), []string{"a", "b", "c"}, want{result: produced(first, first+2, true), rests: true}},
			{"reused", batchBy(1, newestSequence), []string{"a", "b", "x"}, want{reason: engine.SequenceReused, rests: true}},
			{"reused, shorter", batchBy(1, newestSequence), []string{"a", "b"}, want{reason: engine.SequenceReused, rests: true}},
			{"held before", batchBy(1, newestSequence-1), []string{"65"}, want{result: produced(65, 65, true)}},
			{"reused before", batchBy(1, newestSequence-1), []string{"66"}, want{reason: engine.SequenceReused}},
			{"expired", batchBy(1, 0), []string{"0"}, want{reason: engine.SequenceExpired, rests: true}},
			{"gap", batchBy(1, newestSequence+2), []string{"d"}, want{reason: engine.SequenceGap}},
			{"unknown", batchBy(3, 1), []string{"d"}, want{reason: engine.SequenceUnknown}},
			{"held, records counted", counted(newestSequence), []string{"a", "b", "c"}, want{result: produced(first, first+2, true), rests: true}},
			{"expired, records counted", counted(0), []string{"0"}, want{reason: engine.SequenceExpired, rests: true}},
			{"gap, records counted", counted(newestSequence + 2), []string{"d"}, want{reason: engine.SequenceGap}},
			{"unknown, records counted", engine.ProducerBatch{Producer: 3, Sequence: 1, Numbering: engine.ByRecord}, []string{"d"}, want{reason: engine.SequenceUnknown}},
		}
		tries := make([]try, len(cases))
		for i, c := range cases {
			tries[i] = v.try(c.batch, c.payloads...)
		}
		synctest.Wait()
		for i, c := range cases {
			if rests := c.want.rests && where != onDisk; tries[i].answered() == rests {
				t.Errorf("%s: answered %v while the newest batch is %s", c.what, tries[i].answered(), where)
			}
		}
		if v.held != nil {
			v.held.Release()
		}
		for i, c := range cases {
			result, err := <-tries[i].result, <-tries[i].err
			var refused *engine.SequenceError
			switch {
			case c.want.reason == 0 && (err != nil || result != c.want.result):
				t.Errorf("%s: %+v, %v, want %+v", c.what, result, err, c.want.result)
			case c.want.reason != 0 && (!errors.As(err, &refused) || refused.Reason != c.want.reason):
				t.Errorf("%s: %+v, %v, want %v", c.what, result, err, c.want.reason)
			}
		}
		for i, under := range v.newest {
			if err := <-under.err; err != nil {
				t.Errorf("batch %d: %v", i, err)
			}
		}
		// The next ones, at the tail: nothing of the above wrote anything.
		if got := v.produce(batchBy(1, newestSequence+1), "d"); got != produced(first+3, first+3, false) {
			t.Errorf("next: %+v", got)
		}
		if got := v.produce(batchBy(3, 0), "d"); got != produced(first+4, first+4, false) {
			t.Errorf("the first of another producer: %+v", got)
		}
	})
}

// The write of the newest batch fails, with batches of the same producer behind it
// and retries of all of them waiting. None of them has succeeded, what the batches
// left is taken back, and where the log goes on each of them is stored by its next
// try, once.
func TestRetriesOfABatchWhoseWriteFailsFailWithIt(t *testing.T) {
	eachPlace(t, func(t *testing.T, mode engine.FsyncMode, where place) {
		if where == onDisk {
			return
		}
		v := newVerdictRig(t, mode, where, syscall.EIO)
		defer func() { _ = v.store.Close(v.ctx) }()
		behind := []try{
			v.try(batchBy(1, newestSequence), "a", "b", "c"),
			v.try(batchBy(1, 0), "0"),
		}
		for i := range uint64(3) {
			behind = append(behind, v.try(batchBy(1, newestSequence+1+i), "d", "e"))
			synctest.Wait()
		}
		behind = append(behind, v.try(batchBy(1, newestSequence+2), "d", "e"))
		synctest.Wait()
		v.held.Release()
		for i, under := range append(v.newest, behind...) {
			if err := <-under.err; !errors.Is(err, syscall.EIO) {
				t.Errorf("try %d: %+v, %v", i, <-under.result, err)
			}
		}
		if class := v.log.ProducerSequence(1, newestSequence); class.Verdict != producer.Next {
			t.Errorf("the batch that failed is %+v", class)
		}
		if mode == engine.FsyncOnCommit {
			// What became durable before is answered all the same.
			if got := v.produce(batchBy(1, newestSequence-1), "65"); got != produced(65, 65, true) {
				t.Errorf("%+v", got)
			}
			for sequence := uint64(newestSequence); sequence < newestSequence+2; sequence++ {
				_, err := v.log.AppendProduced(v.ctx, batchBy(1, sequence), records("a", "b", "c")...)
				var refused *engine.SequenceError
				if gap := errors.As(err, &refused) && refused.Reason == engine.SequenceGap; !errors.Is(err, engine.ErrPoisoned) && !gap {
					t.Errorf("after the poison, %d: %v", sequence, err)
				}
			}
			return
		}
		if got := v.produce(batchBy(1, newestSequence), "a", "b", "c"); got != produced(66, 68, false) {
			t.Errorf("tried again: %+v", got)
		}
		for i := range uint64(3) {
			if got := v.produce(batchBy(1, newestSequence+1+i), "d", "e"); got != produced(69+2*i, 70+2*i, false) {
				t.Errorf("the one behind, tried again: %+v", got)
			}
		}
	})
}

// Under none and periodic a batch was acknowledged and the flush that was to follow
// fails: whether the records are on the device is not known, so a retry is not told
// that they are.
func TestARetryAfterAFailedFlushIsNotToldThatItsBatchIsThere(t *testing.T) {
	for _, mode := range []engine.FsyncMode{engine.FsyncNone, engine.FsyncPeriodic} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := newVerdictRig(t, mode, onDisk, 0)
				defer func() { _ = v.store.Close(v.ctx) }()
				v.produce(batchBy(1, newestSequence+1), "d")
				v.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Path: isLog, Errno: syscall.EIO})
				if err := v.log.Sync(v.ctx); !errors.Is(err, engine.ErrPoisoned) {
					t.Fatal(err)
				}
				if got := v.produce(batchBy(1, newestSequence), "a", "b", "c"); got != produced(66, 68, true) {
					t.Errorf("%+v", got)
				}
				for _, sequence := range []uint64{newestSequence + 1, 0} {
					if got, err := v.log.AppendProduced(v.ctx, batchBy(1, sequence), records("d")...); !errors.Is(err, engine.ErrPoisoned) {
						t.Errorf("%d: %+v, %v", sequence, got, err)
					}
				}
			})
		})
	}
}

// Under on_commit the same for a flush that follows the write, and hangs first.
func TestARetryThatWaitsForAHangingFlushFailsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFlushRig(t, engine.FsyncOnCommit, true, func(c *engine.Config) {
			c.SegmentBytes, c.RolloverThresholdPercent = 512, 50
		})
		defer func() { _ = r.store.Close(r.ctx) }()
		// The first batch in a segment that was prepared is flushed with its header.
		held := r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Path: isSegment(1), Stall: true, Errno: syscall.EIO})
		t.Cleanup(held.Remove)
		var last try
		sequence := uint64(0)
		for ; held.Hits() == 0 && sequence < 100; sequence++ {
			last = r.try(batchBy(1, sequence), "a record that fills its segment")
			synctest.Wait()
		}
		retry := r.try(batchBy(1, sequence-1), "a record that fills its segment")
		synctest.Wait()
		if last.answered() || retry.answered() || held.Hits() == 0 {
			t.Fatalf("answered %v and %v, %d flushes held", last.answered(), retry.answered(), held.Hits())
		}
		held.Release()
		for _, under := range []try{last, retry} {
			if err := <-under.err; !errors.Is(err, engine.ErrPoisoned) || !errors.Is(err, syscall.EIO) {
				t.Errorf("%+v, %v", <-under.result, err)
			}
		}
	})
}

// Whoever stops waiting for an earlier try learns that its outcome is open.
func TestARetryThatStopsWaitingLearnsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVerdictRig(t, engine.FsyncOnCommit, inFlight, 0)
		defer func() { _ = v.store.Close(v.ctx) }()
		ctx, cancel := context.WithCancel(v.ctx)
		cancel()
		_, err := v.log.AppendProduced(ctx, batchBy(1, newestSequence), records("a", "b", "c")...)
		if open := errorAs[*engine.UnknownOutcomeError](t, err); open.First != v.first() || open.Last != v.first()+2 {
			t.Error(err)
		}
		_, err = v.log.AppendProduced(ctx, batchBy(1, 0), records("0")...)
		if open := errorAs[*engine.UnknownOutcomeError](t, err); open.First != v.first() || open.Last != v.first()+2 {
			t.Error(err)
		}
		v.held.Release()
	})
}
