package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"felix.local/felix/engine"
	"felix.local/felix/segment"
	"felix.local/felix/sidecar"
)

// Records that the leader does not know the writer of bear nobody's name: a third
// leader with others under the newest one's would be taken to hold these.
func TestRecordsOfAnUnknownGenerationBearNobodysName(t *testing.T) {
	for name, lose := range map[string]func(*engine.Shipment){
		"the whole history":        func(s *engine.Shipment) { s.Generations = nil },
		"the beginning of it":      func(s *engine.Shipment) { s.Generations = []sidecar.Epoch{epoch(3, 6)} },
		"what the last record has": func(s *engine.Shipment) { s.Generations, s.Records = nil, s.Records[:2] },
	} {
		a, b := successive(t)
		f := newRig(t)
		f.must(f.log.ApplyShipment(f.ctx, a.piece(0, 4)))
		f.advance(4)
		b.accept(3, "b")
		s := b.piece(3, 4)
		lose(&s)
		f.must(f.log.ApplyShipment(f.ctx, s))
		if generation, known := f.log.GenerationAt(4); known {
			t.Errorf("%s: record 4 is said to be generation %d's: %v", name, generation, f.log.Generations())
		}
		f.reopen()
		f.wantGenerations(s.Generations...)
		// Another leader holds others behind 4, of generation 1, and starts in the middle of
		// these.
		c := newRig(t)
		c.must(c.log.ApplyShipment(c.ctx, a.piece(0, 4)))
		c.appendUnled(77)
		c.accept(4, "c")
		c.wantStart(4, 5, true)
		err := f.log.ApplyShipment(f.ctx, c.piece(f.log.TailOffset()-1, 10))
		var unknown *engine.HistoryError
		var differs *engine.DivergedError
		if !errors.As(err, &unknown) && !errors.As(err, &differs) {
			t.Errorf("%s: a third leader's shipment is answered with %v", name, err)
		}
	}
}

// A leader whose history rotted and that was started again leads on, and what it ships
// hides no difference from the next one.
func TestALeaderThatLostItsHistoryHidesNoDifference(t *testing.T) {
	a, b := successive(t)
	f, c := newRig(t), newRig(t)
	f.must(f.log.ApplyShipment(f.ctx, a.piece(0, 4)))
	f.advance(4)
	c.must(c.log.ApplyShipment(c.ctx, a.piece(0, 4)))
	c.appendUnled(77, 78) // of generation 1, nobody else's
	b.close()
	b.must(os.WriteFile(filepath.Join(b.root, testKey(0).DirName(), sidecar.EpochsName), []byte("rot"), 0o640))
	b.open()
	b.accept(5, "b")
	b.wantStart(5, 7, true)
	f.must(f.log.ApplyShipment(f.ctx, b.piece(4, 2)))
	f.wantGenerations()
	c.accept(6, "c")
	c.wantStart(6, 6, true)
	c.appendSizes(5)
	errorAs[*engine.HistoryError](t, f.log.ApplyShipment(f.ctx, c.piece(6, 9)))
	// From the commit offset on the bytes decide.
	differ := errorAs[*engine.DivergedError](t, f.log.ApplyShipment(f.ctx, c.piece(4, 9)))
	if differ.Offset != 4 {
		t.Error(differ)
	}
}

// What a log has behind records of a newer generation is not its leader's, even where
// those are the same: generations rise. It keeps its name until it is cut.
func TestAnOlderRecordBehindANewerOneIsADifference(t *testing.T) {
	same := engine.Record{Payload: []byte("retried"), TimestampMicros: 5}
	f, b := newRig(t), newRig(t) // both began empty, and a producer sent one record to both
	f.accept(1, "a")
	f.start(1)
	f.append(same)
	f.append(engine.Record{Payload: []byte("of 1"), TimestampMicros: 6})
	b.accept(2, "b")
	b.start(2)
	b.append(same)
	b.append(engine.Record{Payload: []byte("of 2"), TimestampMicros: 7})
	b.append(engine.Record{Payload: []byte("of 2 too"), TimestampMicros: 8})
	errorAs[*engine.DivergedError](t, f.log.ApplyShipment(f.ctx, b.piece(2, 9)))
	differ := errorAs[*engine.DivergedError](t, f.log.ApplyShipment(f.ctx, b.piece(0, 1)))
	if differ.Offset != 1 {
		t.Error(differ)
	}
	f.wantGenerations(epoch(1, 0))
	f.wantCommit(0)
	f.must(f.log.Truncate(f.ctx, 1))
	f.must(f.log.ApplyShipment(f.ctx, b.piece(0, 9)))
	f.wantSame(b)
	f.wantGenerations(epoch(2, 0))
}

// A generation that was noted where the log ends, and wrote nothing, gives way to what
// a shipment brings there, before the first record of it is.
func TestAGenerationThatWroteNothingGivesWayToAShipments(t *testing.T) {
	l := shipped(t)
	f := newRig(t)
	f.must(f.log.ApplyShipment(f.ctx, l.piece(0, 4)))
	f.must(f.log.RecordGeneration(f.ctx, 3, 4)) // it crashed before it led
	l.accept(4, "a")
	l.wantStart(4, 10, true)
	f.must(f.log.ApplyShipment(f.ctx, l.piece(4, 2)))
	f.wantGenerations(epoch(1, 0), epoch(2, 5))
	for offset, want := range []uint64{1, 1, 1, 1, 1, 2} {
		if got, _ := f.log.GenerationAt(uint64(offset)); got != want {
			t.Errorf("record %d is generation %d's, want %d", offset, got, want)
		}
	}
	f.must(f.log.ApplyShipment(f.ctx, l.piece(6, 9)))
	f.wantSame(l)
	f.wantGenerations(l.log.Generations()...)
}

// Where the leader's word about a record does not follow from what is noted in front,
// nothing is known of that any more.
func TestAGenerationThatDoesNotFollowLeavesNothingKnownInFront(t *testing.T) {
	l := newRig(t) // its history begins behind what the follower takes for generation 2's
	l.appendSizes(1, 1, 1)
	l.must(l.log.RecordGeneration(l.ctx, 1, 3))
	l.appendSizes(1, 1)
	l.accept(3, "a")
	f := newRig(t)
	s := l.piece(0, 3)
	s.Generations = []sidecar.Epoch{epoch(2, 0)}
	f.must(f.log.ApplyShipment(f.ctx, s))
	f.wantGenerations(epoch(2, 0))
	f.must(f.log.ApplyShipment(f.ctx, l.piece(3, 2)))
	f.wantGenerations(epoch(1, 3))
	f.wantSame(l)
}

// Every note is durable before the first record that it is about is written.
func TestAWriterIsNotedBeforeItsFirstRecordIsWritten(t *testing.T) {
	l := shipped(t)
	f := newSimRig(t)
	f.eachImage(func() error { return f.log.ApplyShipment(f.ctx, l.piece(0, 10)) }, func(image *rig) {
		for _, r := range image.readAll() {
			want := uint64(1)
			if r.Offset >= 5 {
				want = 2
			}
			if got, _ := image.log.GenerationAt(r.Offset); got != want {
				t.Errorf("record %d, %v, is generation %d's", r.Offset, r.Mark.Kind == segment.GenerationStart, got)
			}
		}
	})
}
