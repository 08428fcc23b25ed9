package engine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/internal/simdisk"
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

// A leader that was replaced neither ships what it has as its successor's, nor starts
// its generation.
func TestALeaderThatWasReplacedShipsNothing(t *testing.T) {
	l := shipped(t)
	ship := func(generation uint64, leader string) error {
		s, err := l.log.ReadShipment(l.ctx, generation, leader, 0, 1<<20)
		if (err == nil) != (len(s.Records) == 10) {
			t.Errorf("generation %d, %q: %d records and %v", generation, leader, len(s.Records), err)
		}
		return err
	}
	start := func(generation uint64, leader string) error {
		_, _, err := l.log.StartGeneration(l.ctx, generation, leader)
		return err
	}
	l.must(ship(2, "a"))
	errorAs[*engine.InvalidRangeError](t, ship(3, "b"))
	l.accept(3, "b")
	for _, do := range []func(uint64, string) error{ship, start} {
		if e := errorAs[*engine.SupersededError](t, do(2, "a")); e.Accepted != 3 {
			t.Error(e)
		}
		if e := errorAs[*engine.PromisedError](t, do(3, "a")); e.Leader != "b" {
			t.Error(e)
		}
	}
	l.must(ship(3, "b"))
	l.must(l.log.GiveUpGeneration(l.ctx))
	errorAs[*engine.GivenUpError](t, ship(3, "b"))
	errorAs[*engine.GivenUpError](t, start(3, "b"))
	if tail := l.log.TailOffset(); tail != 10 {
		t.Errorf("the log ends at %d", tail)
	}
	l.wantGenerations(epoch(1, 0), epoch(2, 5))
}

// One that is replaced while it reads ships nothing either.
func TestALeaderThatIsReplacedWhileItReadsShipsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := simdisk.New()
		sim.MakeDir(simRoot)
		faults := faultdisk.New(sim, sim.NewQueue(simdisk.QueueOptions{}), faultdisk.Options{})
		l := shippedIn(t, newRigIn(t, simRoot, func(c *engine.Config) { c.FS, c.Queue = faults.FS(), faults.Queue() }))
		held := hold(t, faults, faultdisk.Read, isLog, 1)
		read := make(chan error, 1)
		go func() {
			_, err := l.log.ReadShipment(l.ctx, 2, "a", 0, 1<<20)
			read <- err
		}()
		<-held.Reached()
		l.accept(3, "b")
		held.Remove()
		errorAs[*engine.SupersededError](t, <-read)
		l.close()
	})
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
		f.appendSizes(77) // an old leader's
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
	f.appendSizes(9)
	errorAs[*engine.HistoryError](t, f.log.ApplyShipment(f.ctx, l.piece(5, 2)))
	l.accept(2, "b")
	errorAs[*engine.HistoryError](t, f.log.ApplyShipment(f.ctx, l.piece(3, 1)))
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
	} {
		if err := f.log.ApplyShipment(f.ctx, s); err == nil {
			t.Errorf("%s is applied", name)
		} else {
			errorAs[*engine.InvalidRangeError](t, err)
		}
	}
	f.must(f.log.ApplyShipment(f.ctx, engine.Shipment{Generation: 2, Generations: rising(sidecar.EpochsMax)}))
	f.accept(3, "b")
	errorAs[*engine.SupersededError](t, f.log.ApplyShipment(f.ctx, whole))
	whole.Generation = 3
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

// A leader that is replaced while its records wait to be staged adds none of them.
func TestALeaderThatIsReplacedAddsNothingMore(t *testing.T) {
	l := shipped(t)
	synctest.Test(t, func(t *testing.T) {
		sim := simdisk.New()
		sim.MakeDir(simRoot)
		faults := faultdisk.New(sim, sim.NewQueue(simdisk.QueueOptions{}), faultdisk.Options{})
		f := newRigIn(t, simRoot, func(c *engine.Config) { c.FS, c.Queue = faults.FS(), faults.Queue() })
		f.must(f.log.ApplyShipment(f.ctx, l.piece(0, 4)))
		held := hold(t, faults, faultdisk.Flush, isLog, 1) // a seal's, which closes the gate
		sealed, applied := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := f.log.Seal(f.ctx)
			sealed <- err
		}()
		<-held.Reached()
		go func() { applied <- f.log.ApplyShipment(f.ctx, l.piece(4, 6)) }()
		synctest.Wait() // it was accepted, and waits at the gate
		f.accept(3, "b")
		held.Remove()
		f.must(<-sealed)
		errorAs[*engine.SupersededError](t, <-applied)
		if tail := f.log.TailOffset(); tail != 4 {
			t.Errorf("the follower ends at %d", tail)
		}
		f.close()
	})
}

// A leader that is replaced while its records are written gets no acknowledgement of
// them: the next one was told that the log ends in front of them.
func TestALeaderThatIsReplacedGetsNoAcknowledgement(t *testing.T) {
	l := shipped(t)
	for name, c := range map[string]struct {
		replace func(*rig)
		want    error
	}{
		"by another leader": {func(f *rig) { f.accept(3, "b") }, new(engine.SupersededError)},
		"by nobody":         {func(f *rig) { f.must(f.log.GiveUpGeneration(f.ctx)) }, new(engine.GivenUpError)},
	} {
		synctest.Test(t, func(t *testing.T) {
			sim := simdisk.New()
			sim.MakeDir(simRoot)
			faults := faultdisk.New(sim, sim.NewQueue(simdisk.QueueOptions{}), faultdisk.Options{})
			f := newRigIn(t, simRoot, func(c *engine.Config) { c.FS, c.Queue = faults.FS(), faults.Queue() })
			f.must(f.log.ApplyShipment(f.ctx, l.piece(0, 6)))
			held := hold(t, faults, faultdisk.Writes, isLog, 1)
			applied := make(chan error, 1)
			go func() { applied <- f.log.ApplyShipment(f.ctx, l.piece(6, 4)) }()
			<-held.Reached()
			c.replace(f)
			held.Remove()
			if err := <-applied; fmt.Sprintf("%T", err) != fmt.Sprintf("%T", c.want) {
				t.Errorf("replaced %s: %v, want %T", name, err, c.want)
			}
			f.wantCommit(6)
			f.close()
		})
	}
}

// A generation that is given up while its records wait to be staged adds none.
func TestAGenerationThatIsGivenUpAddsNothingMore(t *testing.T) {
	large := func(c *engine.Config) { c.SegmentBytes = 16 << 20 }
	l := newRig(t, large)
	l.appendSizes(200_000, 200_000) // which are appended in two pieces
	l.accept(1, "a")
	synctest.Test(t, func(t *testing.T) {
		sim := simdisk.New()
		sim.MakeDir(simRoot)
		faults := faultdisk.New(sim, sim.NewQueue(simdisk.QueueOptions{}), faultdisk.Options{})
		f := newRigIn(t, simRoot, large, func(c *engine.Config) { c.FS, c.Queue = faults.FS(), faults.Queue() })
		held := hold(t, faults, faultdisk.Writes, isLog, 1)
		applied := make(chan error, 1)
		go func() { applied <- f.log.ApplyShipment(f.ctx, l.piece(0, 2)) }()
		<-held.Reached()
		f.must(f.log.GiveUpGeneration(f.ctx))
		held.Remove()
		errorAs[*engine.GivenUpError](t, <-applied)
		if tail := f.log.TailOffset(); tail != 1 {
			t.Errorf("the follower ends at %d", tail)
		}
		f.close()
	})
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

// A difference between two records that one generation wrote is not repaired by
// cutting behind it.
func TestADifferenceWithinAGenerationIsNotPassedOver(t *testing.T) {
	l := shipped(t)
	f := newRig(t)
	s := l.piece(0, 8)
	s.Commit = 0
	f.must(f.log.ApplyShipment(f.ctx, s))
	f.must(f.log.Truncate(f.ctx, 7))
	f.appendSizes(99) // generation 2 wrote it here, and another there
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
			for from := tail; from <= 10; {
				s := l.piece(from, 10)
				err := image.log.ApplyShipment(image.ctx, s)
				var diverged *engine.DivergedError
				if errors.As(err, &diverged) { // stored and not yet labelled
					cut, err := image.log.TruncationPoint(diverged.Offset, func(g uint64) (uint64, bool) { return l.log.GenerationEnd(g, 10) })
					image.must(err)
					image.must(image.log.Truncate(image.ctx, cut))
					from = cut
					continue
				}
				image.must(err)
				from = s.Next() + 1
			}
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

// Records are not dropped under a shipment that is applied: it was compared with them.
func TestNothingIsDroppedWhileAShipmentIsApplied(t *testing.T) {
	large := func(c *engine.Config) { c.SegmentBytes = 16 << 20 }
	l := newRig(t, large)
	l.appendSizes(1, 2, 3, 200_000, 200_000) // which are appended in two pieces
	l.accept(1, "a")
	for name, drop := range map[string]func(*rig) error{
		"truncate": func(f *rig) error { return f.log.Truncate(f.ctx, 2) },
		"reset":    func(f *rig) error { return f.log.ResetTo(f.ctx, 2) },
		"restore":  func(f *rig) error { return f.log.RestoreTo(f.ctx, 2) },
	} {
		synctest.Test(t, func(t *testing.T) {
			sim := simdisk.New()
			sim.MakeDir(simRoot)
			faults := faultdisk.New(sim, sim.NewQueue(simdisk.QueueOptions{}), faultdisk.Options{})
			f := newRigIn(t, simRoot, large, func(c *engine.Config) { c.FS, c.Queue = faults.FS(), faults.Queue() })
			f.must(f.log.ApplyShipment(f.ctx, l.piece(0, 3)))
			held := hold(t, faults, faultdisk.Writes, isLog, 1)
			applied, dropped := make(chan error, 1), make(chan error, 1)
			go func() { applied <- f.log.ApplyShipment(f.ctx, l.piece(0, 5)) }()
			<-held.Reached()
			go func() { dropped <- drop(f) }()
			synctest.Wait()
			held.Remove()
			if err := <-applied; err != nil {
				t.Errorf("%s: the shipment is answered with %v", name, err)
			}
			f.must(<-dropped)
			if tail := f.log.TailOffset(); tail != 2 {
				t.Errorf("%s: the log ends at %d", name, tail)
			}
			f.close()
		})
	}
}
