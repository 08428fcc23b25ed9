package engine_test

import (
	"reflect"
	"slices"
	"testing"
	"testing/synctest"

	"felix.local/felix/engine"
	"felix.local/felix/segment"
	"felix.local/felix/sidecar"
)

// shipped is a leader's log to ship from: generation 1 wrote 0 to 4, generation 2
// from 5 on, which is the record that starts it; with marks, ten records, eight of
// which are committed.
func shipped(t testing.TB, change ...func(*engine.Config)) *rig {
	t.Helper()
	return shippedIn(t, newRig(t, change...))
}

func shippedIn(t testing.TB, r *rig) *rig {
	t.Helper()
	r.accept(1, "a")
	r.start(1)
	r.appendSizes(10, 20, 30)
	_, err := r.log.AppendProduced(r.ctx, engine.ProducerBatch{Producer: 7}, engine.Record{Payload: []byte("x")}, engine.Record{Payload: []byte("y")})
	r.must(err)
	r.accept(2, "a")
	r.wantStart(2, 5, true)
	r.appendSizes(40, 50, 60, 70)
	r.advance(8)
	return r
}

// readShipment reads as the leader that the log follows.
func (r *rig) readShipment(from uint64, maxBytes int64) (engine.Shipment, error) {
	leader, _ := r.log.AcceptedLeader()
	return r.log.ReadShipment(r.ctx, r.log.AcceptedGeneration(), leader, from, maxBytes)
}

// piece is what ReadShipment gives from an offset on, up to n records.
func (r *rig) piece(from uint64, n int) engine.Shipment {
	r.Helper()
	s, err := r.readShipment(from, 1<<20)
	r.must(err)
	s.Records = s.Records[:min(n, len(s.Records))]
	return s
}

// changed is a copy of a shipment in which one record is another.
func changed(s engine.Shipment, offset uint64, change func(*segment.Record)) engine.Shipment {
	s.Records = slices.Clone(s.Records)
	change(&s.Records[offset-s.First])
	return s
}

func TestAShipmentSaysAllThatAFollowerHasToKnow(t *testing.T) {
	l := shipped(t)
	for _, c := range []struct {
		from, next  uint64
		generations []sidecar.Epoch
	}{
		{0, 10, []sidecar.Epoch{epoch(1, 0), epoch(2, 5)}},
		{4, 10, []sidecar.Epoch{epoch(1, 0), epoch(2, 5)}},
		{5, 10, []sidecar.Epoch{epoch(1, 0), epoch(2, 5)}},
		{6, 10, []sidecar.Epoch{epoch(2, 5)}},
		{10, 10, []sidecar.Epoch{epoch(2, 5)}},
	} {
		s, err := l.readShipment(c.from, 1<<20)
		l.must(err)
		if s.First != c.from || s.Next() != c.next || !reflect.DeepEqual(s.Generations, c.generations) {
			t.Errorf("from %d: %d to %d, %v", c.from, s.First, s.Next(), s.Generations)
		}
		if s.Generation != 2 || s.Leader != "a" || s.Base != 0 || s.Tail != 10 || s.Commit != 8 {
			t.Errorf("from %d: %+v", c.from, s)
		}
	}
	s, err := l.readShipment(0, 1)
	l.must(err)
	if s.Next() != 1 || !reflect.DeepEqual(s.Generations, []sidecar.Epoch{epoch(1, 0)}) {
		t.Errorf("a page of one record: to %d, %v", s.Next(), s.Generations)
	}
	_, err = l.readShipment(11, 1)
	if e := errorAs[*engine.DivergedError](t, err); e.Offset != 10 {
		t.Error(e)
	}
	l.must(l.log.ResetTo(l.ctx, 20))
	_, err = l.readShipment(19, 1)
	errorAs[*engine.TrimmedError](t, err)
}

func TestAnAppliedShipmentIsStoredAsItWasSent(t *testing.T) {
	eachMode(t, func(t *testing.T, choose func(*engine.Config)) {
		l := shipped(t)
		for size := 1; size <= 10; size++ {
			f := newRig(t, choose)
			for from := 0; from < 10; from += size {
				s := l.piece(uint64(from), size)
				f.must(f.log.ApplyShipment(f.ctx, s))
				f.must(f.log.ApplyShipment(f.ctx, s)) // which changes nothing
				f.wantCommit(min(8, s.Next()))
			}
			for range 2 {
				held, want := f.readAll(), l.readAll()
				for i := range want {
					if !sameStored(held[i], want[i]) {
						t.Errorf("record %d: %+v, want %+v", i, held[i], want[i])
					}
				}
				f.wantGenerations(l.log.Generations()...)
				f.wantPromise(2, "a", false)
				f.wantCommit(8)
				if class := f.log.ProducerSequence(7, 0); class.First != 3 || class.Last != 4 {
					t.Errorf("the follower knows of the producer: %+v", class)
				}
				f.reopen()
			}
		}
	})
}

func TestALargeShipmentIsAppliedInPieces(t *testing.T) {
	l := newRig(t, func(c *engine.Config) { c.SegmentBytes = 16 << 20 })
	l.accept(1, "a")
	for range 40 {
		l.appendSizes(1, 100_000, 3)
	}
	f := newRig(t, func(c *engine.Config) { c.SegmentBytes, c.StagedBytesPerLogMax = 1<<20, 1<<20 })
	for from := uint64(0); from < 120; {
		s, err := l.readShipment(from, 64<<20)
		l.must(err)
		f.must(f.log.ApplyShipment(f.ctx, s))
		from = s.Next()
	}
	if tail := f.log.TailOffset(); tail != 120 {
		t.Errorf("the follower ends at %d", tail)
	}
	if segments := f.checkChain(); len(segments) < 4 {
		t.Errorf("%d segments of 1 MiB hold 4 MB", len(segments))
	}
}

func TestARecordWithoutATimeGetsTheFollowers(t *testing.T) {
	l := shipped(t)
	f := newRig(t, func(c *engine.Config) { c.NowMicros = func() uint64 { return 99 } })
	s := changed(l.piece(0, 2), 1, func(r *segment.Record) { r.TimestampMicros = 0 })
	f.must(f.log.ApplyShipment(f.ctx, s))
	f.must(f.log.ApplyShipment(f.ctx, s))
	if held := f.readAll(); held[0].TimestampMicros != fixedMicros || held[1].TimestampMicros != 99 {
		t.Errorf("%+v", held)
	}
}

// What differs is found at its offset, and nothing is appended behind it.
func TestADifferenceIsFoundAtItsOffset(t *testing.T) {
	l := shipped(t)
	for name, c := range map[string]struct {
		offset uint64
		change func(*segment.Record)
	}{
		"a payload":                {1, func(r *segment.Record) { r.Payload = append([]byte{1}, r.Payload[1:]...) }},
		"the length of a payload":  {2, func(r *segment.Record) { r.Payload = r.Payload[:5] }},
		"a timestamp":              {0, func(r *segment.Record) { r.TimestampMicros++ }},
		"a mark":                   {3, func(r *segment.Record) { r.Mark.Sequence++ }},
		"no mark":                  {4, func(r *segment.Record) { r.Mark = segment.Mark{} }},
		"a generation that starts": {5, func(r *segment.Record) { r.Payload = segment.GenerationStartPayload(3) }},
		"none that starts":         {5, func(r *segment.Record) { r.Mark = segment.Mark{} }},
		"a generation instead of a mark": {6, func(r *segment.Record) {
			r.Mark.Kind, r.Payload = segment.GenerationStart, segment.GenerationStartPayload(2)
		}},
	} {
		f := newRig(t)
		f.must(f.log.ApplyShipment(f.ctx, l.piece(0, 7)))
		before := f.readAll()
		err := f.log.ApplyShipment(f.ctx, changed(l.piece(0, 10), c.offset, c.change))
		if e := errorAs[*engine.DivergedError](t, err); e.Offset != c.offset || e.Reason == "" {
			t.Errorf("%s: %+v", name, e)
		}
		if after := f.readAll(); !reflect.DeepEqual(before, after) {
			t.Errorf("%s: the log ends at %d", name, len(after))
		}
	}
}

// rising is a history of n generations.
func rising(n int) []sidecar.Epoch {
	history := make([]sidecar.Epoch, n)
	for i := range history {
		history[i] = epoch(uint64(i)+1, 0)
	}
	return history
}

func TestWhatCannotBeAppliedIsRefused(t *testing.T) {
	l := shipped(t)
	f := newRig(t)
	err := f.log.ApplyShipment(f.ctx, l.piece(1, 9))
	if e := errorAs[*engine.ShipmentGapError](t, err); e.First != 1 || e.Tail != 0 {
		t.Error(e)
	}
	whole := l.piece(0, 10)
	for name, s := range map[string]engine.Shipment{
		"a gap":                        {Generation: 2, First: 0, Records: []segment.Record{whole.Records[0], whole.Records[2]}},
		"another first":                {Generation: 2, First: 1, Records: whole.Records[:1]},
		"offsets that have run out":    {Generation: 2, First: ^uint64(0), Records: []segment.Record{{Offset: ^uint64(0)}}},
		"a history that does not rise": {Generation: 2, Generations: []sidecar.Epoch{epoch(2, 0), epoch(1, 5)}},
		"a history that is too long":   {Generation: 2, Generations: rising(sidecar.EpochsMax + 1)},
		"a history that falls":         {Generation: 2, Generations: []sidecar.Epoch{epoch(1, 5), epoch(2, 0)}},
		"a generation to come":         {Generation: 2, Records: whole.Records[:1], Generations: []sidecar.Epoch{epoch(1<<63, 0)}},
	} {
		if err := f.log.ApplyShipment(f.ctx, s); err == nil {
			t.Errorf("%s is applied", name)
		} else {
			errorAs[*engine.InvalidRangeError](t, err)
		}
	}
	f.must(f.log.ApplyShipment(f.ctx, engine.Shipment{Generation: sidecar.EpochsMax, Generations: rising(sidecar.EpochsMax)}))
	f.accept(1000, "b")
	errorAs[*engine.SupersededError](t, f.log.ApplyShipment(f.ctx, whole))
	whole.Generation = 1000
	errorAs[*engine.PromisedError](t, f.log.ApplyShipment(f.ctx, whole))
	f.must(f.log.GiveUpGeneration(f.ctx))
	errorAs[*engine.GivenUpError](t, f.log.ApplyShipment(f.ctx, whole))
	if tail := f.log.TailOffset(); tail != 0 {
		t.Errorf("the follower ends at %d", tail)
	}
}

// A record that has no form on disk is refused before anything changes, wherever it
// comes from, and the log goes on.
func TestARecordThatTheFormatDoesNotHaveIsRefused(t *testing.T) {
	l := shipped(t)
	for name, change := range map[string]func(*segment.Record){
		"an unknown kind":               func(r *segment.Record) { r.Mark.Kind = segment.GenerationStart + 1 },
		"the last kind":                 func(r *segment.Record) { r.Mark.Kind = ^segment.Kind(0) },
		"a generation without a name":   func(r *segment.Record) { r.Payload = nil },
		"a generation of seven letters": func(r *segment.Record) { r.Payload = r.Payload[:7] },
	} {
		f := newRig(t)
		s := changed(l.piece(0, 10), 5, change)
		errorAs[*engine.UnsupportedError](t, f.log.ApplyShipment(f.ctx, s))
		record := engine.Record{Payload: s.Records[5].Payload, Mark: s.Records[5].Mark}
		_, err := f.log.Append(f.ctx, engine.Record{Payload: []byte("x")}, record)
		errorAs[*engine.UnsupportedError](t, err)
		_, err = f.log.AppendAsync(f.ctx, record)
		errorAs[*engine.UnsupportedError](t, err)
		if tail, generation := f.log.TailOffset(), f.log.AcceptedGeneration(); tail != 0 || generation != 0 {
			t.Errorf("%s: the log ends at %d, and generation %d is accepted", name, tail, generation)
		}
		f.appendSizes(10)
	}
}

// A follower that holds nothing is placed where the leader's log begins, and one
// that was left too far behind is placed there anew.
func TestAFollowerBeginsWhereItsLeadersLogDoes(t *testing.T) {
	l := shipped(t)
	f := newRig(t)
	f.must(f.log.ApplyShipment(f.ctx, l.piece(0, 2)))
	f.must(f.log.ResetTo(f.ctx, 7))
	f.must(f.log.ApplyShipment(f.ctx, l.piece(7, 2)))
	f.wantGenerations(epoch(2, 5))
	// A piece that begins in front of it is compared as far as it is held.
	f.must(f.log.ApplyShipment(f.ctx, l.piece(0, 10)))
	f.must(f.log.ApplyShipment(f.ctx, l.piece(0, 3)))
	held := f.readAll()
	if len(held) != 3 || held[0].Offset != 7 {
		t.Errorf("%+v", held)
	}
	f.wantGenerations(epoch(1, 0), epoch(2, 5))
	f.wantCommit(8)
}

// What lies behind a shipment was not compared with the leader's.
func TestTheCommitOffsetRisesAsFarAsTheShipment(t *testing.T) {
	l := shipped(t)
	f := newRig(t)
	s := l.piece(0, 10)
	s.Commit = 0
	f.must(f.log.ApplyShipment(f.ctx, s))
	f.wantCommit(0)
	f.must(f.log.ApplyShipment(f.ctx, l.piece(0, 3)))
	f.wantCommit(3)
	f.must(f.log.ApplyShipment(f.ctx, l.piece(3, 7)))
	f.wantCommit(8)
}

// A power loss while a shipment is applied leaves a beginning of it and labels of
// nothing that is not there; what was counted as held after it, is. Sent again, it
// ends up as the leader has it.
func TestAPowerLossWhileAShipmentIsApplied(t *testing.T) {
	l := shipped(t, smallSegments)
	want := l.readAll()
	synctest.Test(t, func(t *testing.T) {
		r := newSimRig(t, smallSegments)
		r.must(r.log.ApplyShipment(r.ctx, l.piece(0, 3)))
		synctest.Wait()
		returned := false
		seen := make(map[uint64]int)
		r.eachImage(func() error {
			err := r.log.ApplyShipment(r.ctx, l.piece(3, 7))
			synctest.Wait() // for what goes on in the background, which looks at this too
			returned = true
			return err
		}, func(image *rig) {
			tail := image.log.TailOffset()
			seen[tail]++
			image.nonePastTheTail()
			if generation := image.log.AcceptedGeneration(); generation != 2 || image.log.CommitOffset() > tail || tail < 3 || returned && tail != 10 {
				t.Errorf("returned %v: tail %d, commit %d, generation %d", returned, tail, image.log.CommitOffset(), generation)
			}
			if returned {
				image.wantGenerations(epoch(1, 0), epoch(2, 5))
			}
			image.must(image.log.ApplyShipment(image.ctx, l.piece(tail, 10)))
			for i, record := range image.readAll() {
				if !sameStored(record, want[i]) {
					t.Errorf("record %d: %+v", i, record)
				}
			}
			image.wantGenerations(epoch(1, 0), epoch(2, 5))
		})
		if seen[3] == 0 || seen[10] == 0 {
			t.Error(seen)
		}
	})
}
