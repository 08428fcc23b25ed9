package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/internal/simdisk"
)

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
