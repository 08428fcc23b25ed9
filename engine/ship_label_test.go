package engine_test

import (
	"testing"
	"testing/synctest"

	"felix.local/felix/sidecar"
)

// Records that nobody is known to have written are labelled by a shipment that holds all
// of them up to the end: a history names all that lies behind what it names.
func TestRecordsWithoutALabelGetOneWithTheLastOfThem(t *testing.T) {
	l := shipped(t)
	unlabelled := func() *rig {
		f := newRig(t)
		s := l.piece(0, 10)
		s.Generations, s.Commit = nil, 0
		f.must(f.log.ApplyShipment(f.ctx, s))
		return f
	}
	f := unlabelled()
	f.wantGenerations()
	f.must(f.log.ApplyShipment(f.ctx, l.piece(0, 8)))
	f.wantGenerations()
	f.must(f.log.ApplyShipment(f.ctx, l.piece(8, 2)))
	f.wantGenerations(epoch(2, 8))
	f = unlabelled()
	f.must(f.log.ApplyShipment(f.ctx, l.piece(0, 10)))
	f.wantGenerations(epoch(1, 0), epoch(2, 5))
}

func TestALabelLeavesWhatIsNotedBehindItsRecords(t *testing.T) {
	for _, c := range []struct {
		name           string
		held           []sidecar.Epoch
		from, to       uint64
		entries, wants []sidecar.Epoch
	}{
		{"one that begins where they end", []sidecar.Epoch{epoch(1, 0), epoch(4, 8)}, 3, 6, []sidecar.Epoch{epoch(1, 0), epoch(4, 6)}, []sidecar.Epoch{epoch(1, 0), epoch(4, 8)}},
		{"one within that is older than what lies behind", []sidecar.Epoch{epoch(1, 0), epoch(4, 6)}, 3, 6, []sidecar.Epoch{epoch(1, 0), epoch(2, 4)}, []sidecar.Epoch{epoch(1, 0), epoch(2, 4), epoch(4, 6)}},
		{"one that is newer than what lies behind", []sidecar.Epoch{epoch(1, 0), epoch(4, 8)}, 3, 6, []sidecar.Epoch{epoch(1, 0), epoch(2, 4)}, []sidecar.Epoch{epoch(1, 0), epoch(4, 8)}},
		{"what lies behind is of nobody known", nil, 3, 6, []sidecar.Epoch{epoch(1, 0)}, nil},
		{"the first of them are of nobody known", []sidecar.Epoch{epoch(1, 0), epoch(2, 4)}, 3, 10, []sidecar.Epoch{epoch(3, 7)}, []sidecar.Epoch{epoch(1, 0), epoch(2, 4), epoch(3, 7)}},
		{"what lies in front is newer", []sidecar.Epoch{epoch(1, 0), epoch(4, 2)}, 3, 10, []sidecar.Epoch{epoch(3, 3)}, []sidecar.Epoch{epoch(1, 0), epoch(4, 2)}},
		{"none was known, and the one in front ends", nil, 5, 10, []sidecar.Epoch{epoch(1, 0), epoch(2, 5)}, []sidecar.Epoch{epoch(2, 5)}},
		{"one that begins within", []sidecar.Epoch{epoch(1, 0), epoch(4, 5)}, 3, 6, []sidecar.Epoch{epoch(2, 3)}, []sidecar.Epoch{epoch(1, 0), epoch(2, 3), epoch(4, 6)}},
		{"two that begin at the end", []sidecar.Epoch{epoch(1, 0), epoch(4, 6), epoch(5, 6)}, 3, 6, []sidecar.Epoch{epoch(2, 3)}, []sidecar.Epoch{epoch(1, 0), epoch(2, 3), epoch(4, 6), epoch(5, 6)}},
		{"what is older than the label", []sidecar.Epoch{epoch(1, 0)}, 3, 6, []sidecar.Epoch{epoch(2, 3)}, []sidecar.Epoch{epoch(1, 0)}},
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
