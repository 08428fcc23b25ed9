package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"felix.local/felix/engine"
	"felix.local/felix/sidecar"
)

// appendUnled appends to a log that follows a leader, as one does that was opened again
// and that no generation was started on.
func (r *rig) appendUnled(sizes ...int) {
	r.Helper()
	r.log.Unfollow()
	r.appendSizes(sizes...)
}

// A record that another generation wrote shows that what lies in front differs,
// without a byte of it.
func TestAnotherGenerationInFrontIsADifference(t *testing.T) {
	l := shipped(t)
	f := newRig(t)
	f.must(f.log.ApplyShipment(f.ctx, l.piece(0, 7)))
	s := l.piece(7, 3)
	s.Generations = []sidecar.Epoch{epoch(1, 0)}
	err := f.log.ApplyShipment(f.ctx, s)
	if e := errorAs[*engine.DivergedError](t, err); e.Offset != 6 {
		t.Error(e)
	}
}

// Where one of the two does not know who wrote the record in front, nothing is
// appended behind it, unless it is known to be the leader's all the same.
func TestNothingIsAppendedBehindARecordOfAnUnknownGeneration(t *testing.T) {
	l := shipped(t)
	piece := func(from uint64, n int) engine.Shipment {
		s := l.piece(from, n)
		s.Commit = min(s.Commit, 3)
		return s
	}
	for name, forget := range map[string]func(*rig, *engine.Shipment){
		"the follower lost its history": func(f *rig, _ *engine.Shipment) {
			f.close()
			f.must(os.WriteFile(filepath.Join(f.root, testKey(0).DirName(), sidecar.EpochsName), []byte("rot"), 0o640))
			f.open()
		},
		"the leader does not know": func(f *rig, s *engine.Shipment) {
			f.reopen()
			s.Generations = nil
		},
	} {
		f := newRig(t)
		f.must(f.log.ApplyShipment(f.ctx, piece(0, 6)))
		f.appendUnled(77)
		s := piece(7, 3)
		forget(f, &s)
		errorAs[*engine.HistoryError](t, f.log.ApplyShipment(f.ctx, s))
		if tail := f.log.TailOffset(); tail != 7 {
			t.Errorf("%s: the log ends at %d", name, tail)
		}
		f.wantCommit(3)
		// From the commit offset on the bytes decide, and from the base on.
		for _, from := range []uint64{0, 3} {
			err := f.log.ApplyShipment(f.ctx, piece(from, 10))
			if e := errorAs[*engine.DivergedError](t, err); e.Offset != 6 {
				t.Errorf("%s: from %d: %v", name, from, e)
			}
		}
		f.must(f.log.Truncate(f.ctx, 6))
		s = piece(6, 4)
		s.Generations = nil
		errorAs[*engine.HistoryError](t, f.log.ApplyShipment(f.ctx, s))
		f.must(f.log.ApplyShipment(f.ctx, piece(3, 3)))
		f.must(f.log.ApplyShipment(f.ctx, s)) // what lies in front was compared
		if held, want := f.readAll(), l.readAll(); len(held) != 10 || !sameStored(held[9], want[9]) {
			t.Errorf("%s: %d records", name, len(held))
		}
	}
}

// A log from before there were generations is shipped in pieces all the same, before
// any of it is committed.
func TestALogWithoutAHistoryIsShippedInPieces(t *testing.T) {
	l := newRig(t)
	l.appendSizes(make([]int, 6)...)
	l.accept(1, "a")
	l.wantStart(1, 6, true)
	f := newRig(t)
	for from := range uint64(7) {
		f.must(f.log.ApplyShipment(f.ctx, l.piece(from, 1)))
	}
	f.wantGenerations(epoch(1, 6))
	if n := len(f.readAll()); n != 7 {
		t.Errorf("%d records", n)
	}
	// What was dropped was not compared any more, nor was anything for another leader.
	f.must(f.log.Truncate(f.ctx, 4))
	f.appendUnled(9)
	errorAs[*engine.HistoryError](t, f.log.ApplyShipment(f.ctx, l.piece(5, 2)))
	l.accept(2, "b")
	errorAs[*engine.HistoryError](t, f.log.ApplyShipment(f.ctx, l.piece(3, 1)))
}

// A difference between two records that one generation wrote is not repaired by
// cutting behind it.
func TestADifferenceWithinAGenerationIsNotPassedOver(t *testing.T) {
	l := shipped(t)
	f := newRig(t)
	s := l.piece(0, 8)
	s.Commit = 0
	f.must(f.log.ApplyShipment(f.ctx, s))
	f.must(f.log.Truncate(f.ctx, 7))
	f.appendUnled(99) // generation 2 wrote it here, and another there
	s = l.piece(0, 10)
	s.Commit = 0
	differ := errorAs[*engine.DivergedError](t, f.log.ApplyShipment(f.ctx, s))
	if differ.Offset != 7 {
		t.Fatal(differ)
	}
	_, err := f.log.TruncationPoint(differ.Offset, func(g uint64) (uint64, bool) { return l.log.GenerationEnd(g, l.log.TailOffset()) })
	errorAs[*engine.HistoryError](t, err)
}

func TestTheTruncationPoint(t *testing.T) {
	history := func(entries ...sidecar.Epoch) []sidecar.Epoch { return entries }
	for _, c := range []struct {
		name       string
		own        []sidecar.Epoch
		leader     []sidecar.Epoch
		leaderTail uint64
		accepted   uint64
		diverged   uint64
		commit     uint64
		want       uint64
		err        error
	}{
		{"nothing differs", history(epoch(1, 0)), history(epoch(1, 0)), 20, 2, 10, 10, 10, nil},
		{"the same generation, longer here", history(epoch(1, 0)), history(epoch(1, 0), epoch(2, 6)), 9, 2, 9, 6, 6, nil},
		{"a generation that the leader does not know", history(epoch(1, 0), epoch(2, 7)), history(epoch(1, 0), epoch(3, 8)), 9, 3, 9, 7, 7, nil},
		{"and the common one ends earlier there", history(epoch(1, 0), epoch(2, 7)), history(epoch(1, 0), epoch(3, 4)), 9, 3, 9, 4, 4, nil},
		{"two that the leader does not know", history(epoch(1, 0), epoch(2, 5), epoch(3, 8)), history(epoch(1, 0), epoch(4, 7)), 9, 4, 9, 0, 5, nil},
		{"a common one without a record", history(epoch(1, 0), epoch(2, 7), epoch(3, 7)), history(epoch(2, 7), epoch(4, 7)), 9, 4, 9, 0, 7, nil},
		{"below the commit offset", history(epoch(1, 0)), history(epoch(1, 0), epoch(2, 6)), 9, 2, 9, 7, 0, new(engine.BelowCommitError)},
		{"no history here", nil, history(epoch(1, 0)), 9, 2, 9, 0, 0, new(engine.HistoryError)},
		{"no history there", history(epoch(1, 0)), nil, 9, 2, 9, 0, 0, new(engine.HistoryError)},
		{"no common generation", history(epoch(1, 0)), history(epoch(2, 0)), 9, 2, 9, 0, 0, new(engine.HistoryError)},
		{"the common one begins elsewhere", history(epoch(1, 0), epoch(2, 8)), history(epoch(1, 0), epoch(2, 3), epoch(3, 5)), 9, 3, 9, 0, 0, new(engine.HistoryError)},
		{"what the leader itself wrote is missing there", history(epoch(1, 0), epoch(2, 5)), history(epoch(1, 0), epoch(2, 5)), 8, 2, 8, 0, 0, new(engine.HistoryError)},
		{"no leader was accepted", history(epoch(1, 0)), history(epoch(1, 0)), 8, 0, 8, 0, 0, new(engine.HistoryError)},
		{"a difference at that point", history(epoch(1, 0), epoch(2, 7)), history(epoch(1, 0), epoch(3, 8)), 9, 3, 7, 7, 7, nil},
		{"a difference within the common one", history(epoch(1, 0), epoch(2, 7)), history(epoch(1, 0), epoch(3, 8)), 9, 3, 6, 0, 0, new(engine.HistoryError)},
		{"a difference although nothing has to go", history(epoch(1, 0)), history(epoch(1, 0)), 20, 2, 9, 0, 0, new(engine.HistoryError)},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.appendSizes(make([]int, 10)...)
			r.accept(c.accepted, "a")
			for _, e := range c.own {
				r.must(r.log.RecordGeneration(r.ctx, e.Generation, e.Start))
			}
			r.advance(c.commit)
			var leader sidecar.Epochs
			for _, e := range c.leader {
				leader.Record(e.Generation, e.Start)
			}
			got, err := r.log.TruncationPoint(c.diverged, func(generation uint64) (uint64, bool) { return leader.EndOf(generation, c.leaderTail) })
			if fmt.Sprintf("%T", err) != fmt.Sprintf("%T", c.err) || c.err == nil && got != c.want {
				t.Errorf("%d, %v; want %d, %T", got, err, c.want, c.err)
			}
			if tail := r.log.TailOffset(); tail != 10 {
				t.Errorf("the log ends at %d: nothing was to be cut yet", tail)
			}
		})
	}
}
