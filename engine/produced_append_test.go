package engine_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/producer"
	"felix.local/felix/segment"
)

// noRoomNowAndThen has writes of segments find no room, again and again.
func noRoomNowAndThen(disk *faultdisk.Disk) {
	for at := 5; at < 400; at += 7 {
		disk.Inject(faultdisk.Fault{
			Kinds: faultdisk.Writes, Path: isLog, At: at, Errno: syscall.ENOSPC, Lands: faultdisk.Half,
		})
	}
}

// Producers beside each other, whose writes find no room now and then, try until
// they succeed: group commit gathers their batches, a failure takes several, and in
// the end each record is there once.
func TestProducersBesideEachOtherOnAFullDiskStoreEachRecordOnce(t *testing.T) {
	eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
		disk, onDisk := withFaults(t)
		r := newRig(t, onDisk, mode)
		noRoomNowAndThen(disk)
		clients := make([]client, 8)
		var all sync.WaitGroup
		for i := range clients {
			clients[i].id = uint64(i + 1)
			all.Go(func() {
				c := &clients[i]
				for c.acked < 40 {
					batch := batchBy(c.id, c.acked)
					_, err := r.log.AppendProduced(r.ctx, batch, records(c.batch(c.acked)...)...)
					switch {
					case err == nil:
						c.acked++
					case !errors.Is(err, engine.ErrFull):
						t.Errorf("%+v: %v", batch, err)
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
		said := answers(r.log)
		r.reopen()
		if told := answers(r.log); told != said {
			t.Errorf("the log said\n%s\nand says\n%s", differing(said, told), differing(told, said))
		}
		eachOnce(t, r, clients)
	})
}

// A batch that is held is answered on a disk without room: nothing is written.
func TestABatchThatIsHeldIsAnsweredOnAFullDisk(t *testing.T) {
	r := newRig(t)
	r.produce(batchBy(1, 0), "a")
	r.reopen(func(c *engine.Config) { c.MinFreeBytes = 1 << 62 })
	if got := r.produce(batchBy(1, 0), "a"); got != produced(0, 0, true) {
		t.Errorf("%+v", got)
	}
	if _, err := r.log.AppendProduced(r.ctx, batchBy(1, 1), records("b")...); !errors.Is(err, engine.ErrFull) {
		t.Errorf("the next one: %v", err)
	}
}

// A log that was written before there were marks begins a new segment for the first
// one, and one that is continued stays whole.
func TestTheFirstBatchInAnOldSegmentRollsIt(t *testing.T) {
	root := memoryDir(t)
	placeSegment(t, filepath.Join(root, testKey(0).DirName()), 0, segment.Header{Version: 2, CreatedAtMicros: 5}, "a", "b")
	r := newRigIn(t, root)
	if got := r.produce(batchBy(1, 0), "c", "d"); got != produced(2, 3, false) {
		t.Errorf("%+v", got)
	}
	r.wantVersions("[v2:0-2 v3:2-4]")
	r.snapshotTells(t)
	if n := r.store.Stats().ProducerStateRebuilt; n != 0 {
		t.Errorf("%d opens read sealed segments that can hold no mark", n)
	}
}

func TestAnAppendForAPlaceGoesThereOrNowhere(t *testing.T) {
	r := newRig(t)
	if got, err := r.log.AppendAt(r.ctx, 0, records("a", "b")...); err != nil || got != (engine.AppendResult{First: 0, Last: 1}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, first := range []uint64{0, 1, 3} {
		_, err := r.log.AppendAt(r.ctx, first, records("c")...)
		if wrong := errorAs[*engine.OffsetMismatchError](t, err); wrong.First != first || wrong.Tail != 2 || wrong.Error() == "" {
			t.Errorf("%+v", wrong)
		}
	}
	// Marks of a leader's records are kept.
	mark := producer.Marks(9, 0, 1)(0)
	if _, err := r.log.AppendAt(r.ctx, 2, engine.Record{Payload: []byte("c"), Mark: mark, TimestampMicros: 7}); err != nil {
		t.Error(err)
	}
	if got := r.produce(batchBy(9, 0), "c"); got != produced(2, 2, true) {
		t.Errorf("%+v", got)
	}
}

// The offset that counts is that of the staged tail: what is under way comes first.
func TestAnAppendForAPlaceReckonsWithWhatIsStaged(t *testing.T) {
	disk, onDisk := withFaults(t)
	r := newRig(t, onDisk)
	held := hold(t, disk, faultdisk.Writes, isLog, 1)
	p, err := r.log.AppendAsync(r.ctx, records("a", "b")...)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.log.AppendAt(r.ctx, 0, records("c")...)
	if wrong := errorAs[*engine.OffsetMismatchError](t, err); wrong.Tail != 2 {
		t.Errorf("%+v", wrong)
	}
	done := make(chan error, 1)
	go func() {
		_, err := r.log.AppendAt(r.ctx, 2, records("c")...)
		done <- err
	}()
	held.Release()
	if _, err := p.Wait(r.ctx); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestABatchThatIsNoneIsRefused(t *testing.T) {
	r := newRig(t)
	marked := records("a")
	marked[0].Mark = producer.Marks(1, 0, 1)(0)
	for name, err := range map[string]error{
		"no record":         third(r.log.AppendProduced(r.ctx, batchBy(1, 0))),
		"marked":            third(r.log.AppendProduced(r.ctx, batchBy(1, 0), marked...)),
		"no record more":    second(r.log.ContinueProduced(r.ctx, 1, 0)),
		"sequence too high": third(r.log.AppendProduced(r.ctx, engine.ProducerBatch{Sequence: 1 << 31, Numbering: engine.ByRecord}, records("a")...)),
	} {
		var invalid *engine.InvalidRangeError
		if !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.closeLog()
	_, err := r.log.AppendProduced(r.ctx, batchBy(1, 0), records("a")...)
	errorAs[*engine.ClosedError](t, err)
	_, err = r.log.AppendAt(r.ctx, 0, records("a")...)
	errorAs[*engine.ClosedError](t, err)
}

func third(_ engine.ProducedResult, err error) error { return err }
func second(_ engine.AppendResult, err error) error  { return err }

// closeLog closes the log and keeps its handle.
func (r *rig) closeLog() {
	r.Helper()
	if err := r.log.Close(r.ctx); err != nil {
		r.Fatal(err)
	}
}

// Sequences that count records go round at 2^31.
func TestSequencesThatCountRecordsGoRound(t *testing.T) {
	r := newRig(t)
	const round = 1 << 31
	last := engine.Record{Payload: []byte("a"), Mark: producer.Marks(1, round-2, 1)(0)}
	r.append(last)
	counted := func(sequence uint64) engine.ProducerBatch {
		return engine.ProducerBatch{Producer: 1, Sequence: sequence, Numbering: engine.ByRecord}
	}
	first := uint64(1)
	for _, sequence := range []uint64{round - 1, 2, 5} {
		if got := r.produce(counted(sequence), "x", "y", "z"); got != produced(first, first+2, false) {
			t.Errorf("%d: %+v", sequence, got)
		}
		if got := r.produce(counted(sequence), "x", "y", "z"); got != produced(first, first+2, true) {
			t.Errorf("%d again: %+v", sequence, got)
		}
		first += 3
	}
	for sequence, want := range map[uint64]engine.SequenceReason{
		round - 1: engine.SequenceExpired, 2: engine.SequenceExpired, 6: engine.SequenceGap, 9: engine.SequenceGap,
	} {
		_, err := r.log.AppendProduced(r.ctx, counted(sequence), records("x", "y", "z")...)
		if refused := errorAs[*engine.SequenceError](t, err); refused.Reason != want || refused.Expected != 8 {
			t.Errorf("%d: %v", sequence, err)
		}
	}
	if next := fmt.Sprint(r.log.NextProducerSequence(1)); next != "6 true" {
		t.Errorf("next, if it counted batches: %s", next)
	}
}
