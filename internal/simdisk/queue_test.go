package simdisk_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/internal/simdisk"
)

// stepped is a disk whose operations the test completes, with a durable file of
// one page of a.
func stepped(t *testing.T) (*rig, *simdisk.Queue, device.File) {
	r := newRig(t)
	f := r.created("f")
	r.writeDsync(f, 0, fill('a', page))
	q := r.NewQueue(simdisk.QueueOptions{Mode: simdisk.Stepped})
	t.Cleanup(func() { _ = q.Close() })
	return r, q, f
}

func completed(op *device.Op) bool {
	select {
	case <-op.Done():
		return true
	default:
		return false
	}
}

func TestInStepModeTheTestDecidesWhatCompletes(t *testing.T) {
	r, q, f := stepped(t)
	one := &device.Op{Kind: device.Write, File: f, Buf: fill('b', page)}
	two := &device.Op{Kind: device.Write, File: f, Buf: fill('c', page)}
	q.Submit(one, two)
	pending := q.Pending()
	if len(pending) != 2 || pending[0].Len != page || pending[0].Path != path("f") || completed(one) || completed(two) {
		t.Fatal(pending)
	}
	if got := summary(t, r.Disk, "f"); got != "a8" {
		t.Fatal("landed before its step:", got)
	}
	q.Step(pending[1].ID)
	q.Step(pending[0].ID)
	r.must(two.Wait())
	r.must(one.Wait())
	if got := summary(t, r.Disk, "f"); got != "b8" {
		t.Fatal(got)
	}
}

func TestAFlushCoversWhatHadLandedWhenItWasIssued(t *testing.T) {
	r, q, f := stepped(t)
	write := &device.Op{Kind: device.Write, File: f, Buf: fill('b', page)}
	flush := &device.Op{Kind: device.Flush, File: f}
	q.Submit(write, flush)
	q.Step(1) // the write, after the flush was issued
	q.Step(2)
	r.must(write.Wait())
	r.must(flush.Wait())
	if got := outcomes(t, r.Disk, func(d *simdisk.Disk) string { return summary(t, d, "f") }); got["a8"] == 0 {
		t.Fatal("the flush covered a write that was under way:", got)
	}
	again := &device.Op{Kind: device.Flush, File: f}
	q.Submit(again)
	q.Step(3)
	r.must(again.Wait())
	if got := summary(t, r.Crash(simdisk.CrashOptions{}), "f"); got != "b8" {
		t.Fatal(got)
	}
}

func TestAFlushDoesNotCoverWhatWasWrittenWhileItWasUnderWay(t *testing.T) {
	r, q, f := stepped(t)
	r.write(f, 0, fill('b', sector))
	flush := &device.Op{Kind: device.Flush, File: f}
	q.Submit(flush)
	r.write(f, sector, fill('c', sector))
	q.Step(1)
	r.must(flush.Wait())
	got := outcomes(t, r.Disk, func(d *simdisk.Disk) string { return summary(t, d, "f") })
	if got["b1 a7"] == 0 || got["b1 c1 a6"] == 0 || len(got) != 2 {
		t.Fatal(got)
	}
}

func TestAFlushUnderWayCoversNothing(t *testing.T) {
	r, q, f := stepped(t)
	r.write(f, 0, fill('b', page))
	flush := &device.Op{Kind: device.Flush, File: f}
	q.Submit(flush)
	if got := outcomes(t, r.Disk, func(d *simdisk.Disk) string { return summary(t, d, "f") }); got["a8"] == 0 || got["b8"] == 0 {
		t.Fatal(got)
	}
	q.Step(1)
	r.must(flush.Wait())
}

func TestAnOlderFlushDoesNotUndoANewerSync(t *testing.T) {
	r, q, f := stepped(t)
	r.write(f, page, fill('b', page))
	older := &device.Op{Kind: device.Flush, File: f}
	q.Submit(older)
	r.writeDsync(f, page, fill('c', sector))
	r.write(f, 0, fill('d', page))
	newer := &device.Op{Kind: device.Flush, File: f}
	q.Submit(newer)
	r.writeDsync(f, 2*page, fill('e', sector))
	q.Step(2)
	q.Step(1)
	r.must(older.Wait())
	r.must(newer.Wait())
	if got := summary(t, r.Crash(simdisk.CrashOptions{}), "f"); got != "d8 c1 b7 e1" {
		t.Fatal(got)
	}
}

func TestAnOlderFlushAddsWhatADsyncWriteDoesNotCover(t *testing.T) {
	r, q, f := stepped(t)
	r.write(f, page, fill('b', page))
	flush := &device.Op{Kind: device.Flush, File: f}
	q.Submit(flush)
	r.writeDsync(f, page+sector, fill('c', sector))
	q.Step(1)
	r.must(flush.Wait())
	if got := summary(t, r.Crash(simdisk.CrashOptions{}), "f"); got != "a8 b1 c1 b6" {
		t.Fatal(got)
	}
}

func TestADirectoryFlushCoversTheNamesAtItsIssue(t *testing.T) {
	r, q, _ := stepped(t)
	r.create("before")
	dir, err := r.OpenDir(root)
	r.must(err)
	flush := &device.Op{Kind: device.FlushAll, File: dir}
	q.Submit(flush)
	r.create("during")
	q.Step(1)
	r.must(flush.Wait())
	got := outcomes(t, r.Disk, func(d *simdisk.Disk) string { return fmt.Sprint(namesOf(t, d, root)) })
	if len(got) != 2 || got["[before f]"] == 0 || got["[before during f]"] == 0 {
		t.Fatal(got)
	}
}

func TestAWriteUnderWayHasHappenedOrNotOrInPart(t *testing.T) {
	r, q, f := stepped(t)
	for _, kind := range []device.Kind{device.Write, device.WriteDsync} {
		op := &device.Op{Kind: kind, File: f, Buf: fill('b', 2*sector)}
		q.Submit(op)
		got := outcomes(t, r.Disk, func(d *simdisk.Disk) string { return summary(t, d, "f") })
		if len(got) != 3 || got["a8"] == 0 || got["b1 a7"] == 0 || got["b2 a6"] == 0 {
			t.Fatal(kind, got)
		}
		q.Step(q.Pending()[0].ID)
		r.must(op.Wait())
		r.writeDsync(f, 0, fill('a', page))
	}
}

func TestADsyncWriteInPiecesCoversItsLastPieceOnly(t *testing.T) {
	r, q, f := stepped(t)
	op := &device.Op{Kind: device.WriteDsync, File: f, Buf: fill('b', 3*sector)}
	q.Submit(op)
	q.Land(1, sector)
	if q.Pending()[0].Landed != sector {
		t.Fatal(q.Pending())
	}
	q.Step(1)
	r.must(op.Wait())
	if op.N != 3*sector || op.Pieces != 2 {
		t.Fatal(op.N, op.Pieces)
	}
	got := outcomes(t, r.Disk, func(d *simdisk.Disk) string { return summary(t, d, "f") })
	if got["a1 b2 a5"] == 0 || got["b3 a5"] == 0 || len(got) != 2 {
		t.Fatal(got)
	}
}

func TestASettledOperationIsDurableBeforeItsCompletionComes(t *testing.T) {
	r, q, f := stepped(t)
	op := &device.Op{Kind: device.WriteDsync, File: f, Buf: fill('b', page)}
	q.Submit(op)
	q.Settle(1)
	if completed(op) {
		t.Fatal("completed")
	}
	if got := outcomes(t, r.Disk, func(d *simdisk.Disk) string { return summary(t, d, "f") }); len(got) != 1 || got["b8"] == 0 {
		t.Fatal(got)
	}
	q.Step(1)
	r.must(op.Wait())
}

func TestAwaitFindsAnOperationThatIsStillToCome(t *testing.T) {
	r, q, f := stepped(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	done := make(chan error)
	go func() {
		op, err := q.Await(ctx, func(op simdisk.PendingOp) bool { return op.Kind == device.Flush })
		if err == nil {
			q.Step(op.ID)
		}
		done <- err
	}()
	flush := &device.Op{Kind: device.Flush, File: f}
	q.Submit(&device.Op{Kind: device.Write, File: f, Buf: fill('b', 1)}, flush)
	r.must(<-done)
	r.must(flush.Wait())
	cancel()
	if _, err := q.Await(ctx, func(op simdisk.PendingOp) bool { return op.Kind == device.Flush }); err == nil {
		t.Fatal("no error at the end of the context")
	}
}

// completionOrder submits writes together and gives the order of their completion
// by position.
func completionOrder(t *testing.T, o simdisk.QueueOptions) string {
	r := newRig(t)
	f := r.created("f")
	q := r.NewQueue(o)
	order := make(chan int64, 20)
	r.BeforeChange(func(c simdisk.Change) {
		if c.What == "settle" {
			order <- c.Pos
		}
	})
	ops := make([]*device.Op, cap(order))
	for i := range ops {
		ops[i] = &device.Op{Kind: device.Write, File: f, Buf: fill('a', 1), Pos: int64(i)}
	}
	q.Submit(ops...)
	for _, op := range ops {
		r.must(op.Wait())
	}
	r.must(q.Close())
	close(order)
	text := ""
	for pos := range order {
		text += fmt.Sprint(pos, " ")
	}
	return text
}

func TestTheOrderOfCompletionsFollowsTheSeed(t *testing.T) {
	inOrder := completionOrder(t, simdisk.QueueOptions{})
	seen := map[string]bool{}
	for seed := range uint64(5) {
		o := simdisk.QueueOptions{Mode: simdisk.Adversarial, Seed: seed}
		first := completionOrder(t, o)
		if again := completionOrder(t, o); again != first {
			t.Fatalf("seed %d: %s, and then %s", seed, first, again)
		}
		seen[first] = true
	}
	if len(seen) != 5 || seen[inOrder] {
		t.Fatal(seen)
	}
}

func TestDelaysPassOnTheClockOfABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		f := r.created("f")
		q := r.NewQueue(simdisk.QueueOptions{Mode: simdisk.Adversarial, Seed: 1, Sleep: true, DelayMax: time.Hour})
		before := time.Now()
		for range 50 {
			r.must(device.Do(q, &device.Op{Kind: device.Flush, File: f}))
		}
		if took := time.Since(before); took < time.Second || took > 50*time.Hour {
			t.Fatal(took)
		}
		r.must(q.Close())
	})
}

func TestWritesTakePiecesAsOftenAsAsked(t *testing.T) {
	for _, percent := range []int{0, 50, 100} {
		r := newRig(t)
		f := r.created("f")
		q := r.NewQueue(simdisk.QueueOptions{Mode: simdisk.Adversarial, Seed: 1, ShortPercent: percent})
		short := 0
		for i := range 100 {
			op := &device.Op{Kind: device.WriteDsync, File: f, Buf: fill('a', page), Pos: int64(i * 7)}
			r.must(device.Do(q, op))
			if op.Pieces > 1 {
				short++
			}
		}
		if short < percent-20 || short > percent+20 {
			t.Fatalf("%d of 100 writes took several pieces, asked for %d", short, percent)
		}
		r.must(q.Close())
	}
}

func TestBadQueueOptionsPanic(t *testing.T) {
	for _, o := range []simdisk.QueueOptions{
		{Mode: 9}, {InFlightMax: -1}, {DelayMax: -1}, {ShortPercent: -1}, {ShortPercent: 101},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v was taken", o)
				}
			}()
			newDisk().NewQueue(o)
		}()
	}
}
