package engine_test

import (
	"testing"
	"testing/synctest"

	"felix.local/felix/sidecar"
)

// Records that a crash left without a label get it when they are sent again, piece by
// piece, and the next shipment goes on behind them.
func TestAShipmentThatEndsBelowTheTailLabelsItsRecords(t *testing.T) {
	l := shipped(t)
	f := newRig(t)
	f.must(f.log.ApplyShipment(f.ctx, l.piece(0, 5)))
	s := l.piece(5, 5)
	s.Generations, s.Commit = nil, 0 // as a crash between the records and their label
	f.must(f.log.ApplyShipment(f.ctx, s))
	f.wantGenerations(epoch(1, 0))
	f.must(f.log.ApplyShipment(f.ctx, l.piece(5, 3)))
	f.wantGenerations(epoch(1, 0), epoch(2, 5))
	f.must(f.log.ApplyShipment(f.ctx, l.piece(8, 2)))
	f.wantGenerations(epoch(1, 0), epoch(2, 5))
}

func TestALabelLeavesWhatIsNotedBehindItsRecords(t *testing.T) {
	for _, c := range []struct {
		name           string
		held           []sidecar.Epoch
		from, to       uint64
		entries, wants []sidecar.Epoch
	}{
		{"a newer one behind", []sidecar.Epoch{epoch(1, 0), epoch(4, 8)}, 3, 6, []sidecar.Epoch{epoch(1, 0), epoch(2, 4)}, []sidecar.Epoch{epoch(1, 0), epoch(2, 4), epoch(4, 8)}},
		{"one that begins within", []sidecar.Epoch{epoch(1, 0), epoch(4, 5)}, 3, 6, []sidecar.Epoch{epoch(2, 3)}, []sidecar.Epoch{epoch(1, 0), epoch(2, 3), epoch(4, 6)}},
		{"two that begin at the end", []sidecar.Epoch{epoch(1, 0), epoch(4, 6), epoch(5, 6)}, 3, 6, []sidecar.Epoch{epoch(2, 3)}, []sidecar.Epoch{epoch(1, 0), epoch(2, 3), epoch(4, 6), epoch(5, 6)}},
		{"what is older than the label", []sidecar.Epoch{epoch(1, 0)}, 3, 6, []sidecar.Epoch{epoch(2, 3)}, []sidecar.Epoch{epoch(1, 0), epoch(2, 3)}},
		{"the same", []sidecar.Epoch{epoch(1, 0), epoch(2, 5)}, 3, 6, []sidecar.Epoch{epoch(1, 0), epoch(2, 5)}, []sidecar.Epoch{epoch(1, 0), epoch(2, 5)}},
		{"what the leader has behind", []sidecar.Epoch{epoch(1, 0)}, 3, 6, []sidecar.Epoch{epoch(1, 0), epoch(2, 6)}, []sidecar.Epoch{epoch(1, 0)}},
		{"no record", []sidecar.Epoch{epoch(1, 0)}, 3, 3, []sidecar.Epoch{epoch(2, 3)}, []sidecar.Epoch{epoch(1, 0)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.appendSizes(make([]int, 10)...)
			for _, e := range c.held {
				r.must(r.log.RecordGeneration(r.ctx, e.Generation, e.Start))
			}
			r.must(r.log.LabelGenerations(r.ctx, c.from, c.to, c.entries))
			r.wantGenerations(c.wants...)
			r.reopen()
			r.wantGenerations(c.wants...)
		})
	}
}

// A crash while a shipment is applied leaves no record under a former generation's
// name: a leader that holds others under that name would be taken to hold these.
func TestAPowerLossLeavesNoShippedRecordUnderAFormerGenerationsName(t *testing.T) {
	l := shipped(t)
	want := l.log.Generations()
	synctest.Test(t, func(t *testing.T) {
		r := newSimRig(t)
		r.must(r.log.ApplyShipment(r.ctx, l.piece(0, 3)))
		synctest.Wait()
		seen := make(map[uint64]int)
		r.eachImage(func() error { return r.log.ApplyShipment(r.ctx, l.piece(3, 7)) }, func(image *rig) {
			tail := image.log.TailOffset()
			seen[tail]++
			for offset := range tail {
				got, _ := image.log.GenerationAt(offset)
				wrote := want[0].Generation
				if offset >= want[1].Start {
					wrote = want[1].Generation
				}
				if got != wrote {
					t.Errorf("record %d of %d is generation %d's here, and generation %d wrote it", offset, tail, got, wrote)
				}
			}
		})
		if seen[3] == 0 || seen[10] == 0 {
			t.Error(seen)
		}
	})
}
