package engine_test

import (
	"context"
	"syscall"
	"testing"
	"testing/synctest"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/internal/simdisk"
)

// faultyRig is a rig on a disk whose operations can be held and failed.
func faultyRig(t testing.TB, change ...func(*engine.Config)) (*rig, *faultdisk.Disk) {
	sim := simdisk.New()
	sim.MakeDir(simRoot)
	faults := faultdisk.New(sim, sim.NewQueue(simdisk.QueueOptions{}), faultdisk.Options{})
	return newRigIn(t, simRoot, append(change, func(c *engine.Config) { c.FS, c.Queue = faults.FS(), faults.Queue() })...), faults
}

// successive are two leaders of one shard: b took over from a at 4, at generation 2.
func successive(t testing.TB) (a, b *rig) {
	t.Helper()
	a, b = newRig(t), newRig(t)
	a.accept(1, "a")
	a.start(1)
	a.appendSizes(10, 20, 30, 40)
	b.must(b.log.ApplyShipment(b.ctx, a.piece(0, 4)))
	b.accept(2, "b")
	b.wantStart(2, 4, true)
	b.appendSizes(50, 60)
	return a, b
}

// inTheBackground runs do.
func inTheBackground(do func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	return done
}

// wantSame checks that a log holds the records of another, and no other.
func (r *rig) wantSame(other *rig) {
	r.Helper()
	held, want := r.readAll(), other.readAll()
	if len(held) != len(want) {
		r.Errorf("%d records, want %d", len(held), len(want))
	}
	for i := range min(len(held), len(want)) {
		if !sameStored(held[i], want[i]) {
			r.Errorf("record %d: %d bytes, %+v; want %d, %+v", i, len(held[i].Payload), held[i].Mark, len(want[i].Payload), want[i].Mark)
		}
	}
}

// catchUp ships what the log lacks after it was found to differ at diverged.
func (r *rig) catchUp(leader *rig, diverged uint64) {
	r.Helper()
	cut, err := r.log.TruncationPoint(diverged, func(g uint64) (uint64, bool) {
		return leader.log.GenerationEnd(g, leader.log.TailOffset())
	})
	r.must(err)
	r.must(r.log.Truncate(r.ctx, cut))
	r.must(r.log.ApplyShipment(r.ctx, leader.piece(cut, 1000)))
	r.wantSame(leader)
	r.wantGenerations(leader.log.Generations()...)
}

// A record of a former leader's that is on its way when the next one ships lands in
// front of what that one ships, under its own generation's name, and is found.
func TestARecordOnItsWayIsComparedWithTheNextLeaders(t *testing.T) {
	a, b := successive(t)
	a.appendSizes(99) // at 4, nobody else's
	for _, from := range []uint64{3, 4} {
		for name, send := range map[string]func(*rig) (given func() error){
			"an append of its own": func(f *rig) func() error {
				own := inTheBackground(func() error {
					_, err := f.log.Append(f.ctx, engine.Record{Payload: make([]byte, 99)})
					return err
				})
				return func() error { return <-own }
			},
			"a shipment that was given up": func(f *rig) func() error {
				ctx, cancel := context.WithCancel(f.ctx)
				applied := inTheBackground(func() error { return f.log.ApplyShipment(ctx, a.piece(4, 1)) })
				return func() error {
					cancel()
					errorAs[*engine.UnknownOutcomeError](f, <-applied)
					return nil
				}
			},
		} {
			synctest.Test(t, func(t *testing.T) {
				f, faults := faultyRig(t)
				f.must(f.log.ApplyShipment(f.ctx, a.piece(0, 4)))
				f.log.Unfollow() // it leads at generation 1 itself, as far as it knows
				held := hold(t, faults, faultdisk.Writes, isLog, 1)
				wait := send(f)
				<-held.Reached()
				if name == "a shipment that was given up" {
					f.must(wait())
				}
				applied := inTheBackground(func() error { return f.log.ApplyShipment(f.ctx, b.piece(from, 3)) })
				synctest.Wait()
				f.wantGenerations(epoch(1, 0))
				held.Remove()
				if name == "an append of its own" {
					f.must(wait())
				}
				diverged := errorAs[*engine.DivergedError](t, <-applied)
				if diverged.Offset != 4 {
					t.Errorf("%s, from %d: %v", name, from, diverged)
				}
				f.wantGenerations(epoch(1, 0))
				f.catchUp(b, diverged.Offset)
				f.close()
			})
		}
	}
}

// A shipment gives up waiting for what is on its way when its context ends.
func TestAShipmentThatWaitsForWhatIsOnItsWayCanBeGivenUp(t *testing.T) {
	a, b := successive(t)
	synctest.Test(t, func(t *testing.T) {
		f, faults := faultyRig(t)
		f.must(f.log.ApplyShipment(f.ctx, a.piece(0, 4)))
		f.log.Unfollow()
		held := hold(t, faults, faultdisk.Writes, isLog, 1)
		own := inTheBackground(func() error {
			_, err := f.log.Append(f.ctx, engine.Record{Payload: make([]byte, 99)})
			return err
		})
		<-held.Reached()
		ctx, cancel := context.WithCancel(f.ctx)
		applied := inTheBackground(func() error { return f.log.ApplyShipment(ctx, b.piece(4, 3)) })
		synctest.Wait()
		cancel()
		errorAs[*engine.LogError](t, <-applied)
		held.Remove()
		f.must(<-own)
		f.wantGenerations(epoch(1, 0))
		f.close()
	})
}

// From the first shipment on a log takes nothing but shipments, until a generation
// starts on it.
func TestALogThatFollowsTakesNoAppendsOfItsOwn(t *testing.T) {
	a, b := successive(t)
	_, err := a.log.AppendProduced(a.ctx, engine.ProducerBatch{Producer: 7}, engine.Record{Payload: []byte("x")})
	a.must(err)
	appends := map[string]func(engine.Record) error{
		"an append":           func(r engine.Record) error { _, err := a.log.Append(a.ctx, r); return err },
		"an asynchronous one": func(r engine.Record) error { _, err := a.log.AppendAsync(a.ctx, r); return err },
		"one at the tail": func(r engine.Record) error {
			_, err := a.log.AppendAt(a.ctx, a.log.TailOffset(), r)
			return err
		},
		"a producer's": func(r engine.Record) error {
			_, err := a.log.AppendProduced(a.ctx, engine.ProducerBatch{Producer: 7, Sequence: 1}, r)
			return err
		},
		"a producer's retry": func(r engine.Record) error {
			_, err := a.log.AppendProduced(a.ctx, engine.ProducerBatch{Producer: 7}, r)
			return err
		},
	}
	x := engine.Record{Payload: []byte("x")}
	a.accept(2, "b")
	a.appendSizes(5) // under generation 1, and there when the leader ships
	diverged := errorAs[*engine.DivergedError](t, a.log.ApplyShipment(a.ctx, b.piece(4, 3)))
	tail := a.log.TailOffset()
	for name, do := range appends {
		if e := errorAs[*engine.PromisedError](t, do(x)); e.Generation != 2 || e.Leader != "b" {
			t.Errorf("%s: %v", name, e)
		}
	}
	if got := a.log.TailOffset(); got != tail {
		t.Errorf("the log ends at %d and then at %d", tail, got)
	}
	a.catchUp(b, diverged.Offset)
	a.must(a.log.GiveUpGeneration(a.ctx))
	for name, do := range appends {
		if e := errorAs[*engine.GivenUpError](t, do(x)); e.Generation != 2 {
			t.Errorf("%s: %v", name, e)
		}
	}
	a.accept(3, "a")
	errorAs[*engine.PromisedError](t, appends["an append"](x)) // it does not lead yet
	a.wantStart(3, 7, true)
	for name, do := range map[string]func(engine.Record) error{"an append": appends["an append"], "one at the tail": appends["one at the tail"]} {
		if err := do(x); err != nil {
			t.Errorf("%s, at its own generation: %v", name, err)
		}
	}
}

// A log that is told where to cut takes no appends of its own either: behind the cut
// they would bear the name of the generation in front.
func TestALogThatIsToBeCutTakesNoAppendsOfItsOwn(t *testing.T) {
	_, b := successive(t)
	f := newRig(t)
	f.must(f.log.ApplyShipment(f.ctx, b.piece(0, 4)))
	f.accept(3, "f")
	f.wantStart(3, 4, true)
	f.appendSizes(1, 2, 3, 4, 5)
	b.accept(4, "b")
	b.wantStart(4, 7, true)
	_, err := b.readShipment(f.log.TailOffset(), 1)
	differ := errorAs[*engine.DivergedError](t, err)
	f.accept(4, "b")
	cut, err := f.log.TruncationPoint(differ.Offset, func(g uint64) (uint64, bool) { return b.log.GenerationEnd(g, 8) })
	f.must(err)
	f.must(f.log.Truncate(f.ctx, cut))
	_, err = f.log.Append(f.ctx, engine.Record{Payload: []byte("x")})
	errorAs[*engine.PromisedError](t, err)
	f.must(f.log.ApplyShipment(f.ctx, b.piece(cut, 10)))
	f.wantSame(b)
}

// A note whose records are refused goes again, from the file too: what the log gets
// instead would bear the name.
func TestANoteWhoseRecordsAreRefusedIsTakenBack(t *testing.T) {
	a, b := successive(t)
	synctest.Test(t, func(t *testing.T) {
		f, faults := faultyRig(t)
		f.must(f.log.ApplyShipment(f.ctx, a.piece(0, 4)))
		for _, generations := range []bool{true, false} {
			s := b.piece(3, 4)
			if !generations {
				s.Generations = nil // nobody known: the whole history goes, and comes back
			}
			f.advance(4)
			full := faults.Inject(faultdisk.Fault{Kinds: faultdisk.Writes | faultdisk.Allocate, Path: isLog, Times: faultdisk.Forever, Errno: syscall.ENOSPC})
			errorAs[*engine.FullError](t, f.log.ApplyShipment(f.ctx, s))
			full.Remove()
			f.wantGenerations(epoch(1, 0))
			f.reopen()
			f.wantGenerations(epoch(1, 0))
		}
		f.must(f.log.ApplyShipment(f.ctx, b.piece(3, 4)))
		f.wantSame(b)
		f.close()
	})
}

// One whose records may be there all the same stays.
func TestANoteWhoseRecordsMayBeThereStays(t *testing.T) {
	a, b := successive(t)
	for name, end := range map[string]func(*faultdisk.Disk, *rig){
		"the log is poisoned": func(faults *faultdisk.Disk, f *rig) {
			faults.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Path: isLog, Times: faultdisk.Forever, Errno: syscall.EIO})
			errorAs[*engine.PoisonedError](f, f.log.ApplyShipment(f.ctx, b.piece(4, 3)))
		},
		"the shipment is given up": func(faults *faultdisk.Disk, f *rig) {
			held := hold(f, faults, faultdisk.Writes, isLog, 1)
			ctx, cancel := context.WithCancel(f.ctx)
			applied := inTheBackground(func() error { return f.log.ApplyShipment(ctx, b.piece(4, 3)) })
			<-held.Reached()
			cancel()
			errorAs[*engine.UnknownOutcomeError](f, <-applied)
			held.Remove()
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, faults := faultyRig(t, func(c *engine.Config) { c.FsyncMode = engine.FsyncOnCommit })
			f.must(f.log.ApplyShipment(f.ctx, a.piece(0, 4)))
			end(faults, f)
			synctest.Wait()
			if got, _ := f.log.GenerationAt(4); got != 2 {
				t.Errorf("%s: the record at 4 is generation %d's: %v", name, got, f.log.Generations())
			}
			_ = f.store.Close(f.ctx)
		})
	}
}

// A leader that was replaced while its shipment is compared notes nothing any more.
func TestALeaderThatWasReplacedNotesNothing(t *testing.T) {
	a, b := successive(t)
	synctest.Test(t, func(t *testing.T) {
		f, faults := faultyRig(t)
		f.must(f.log.ApplyShipment(f.ctx, a.piece(0, 4)))
		held := hold(t, faults, faultdisk.Read, isLog, 1)
		applied := inTheBackground(func() error { return f.log.ApplyShipment(f.ctx, b.piece(3, 4)) })
		<-held.Reached()
		f.accept(3, "f")
		f.wantStart(3, 4, true)
		held.Remove()
		errorAs[*engine.SupersededError](t, <-applied)
		f.appendSizes(70)
		f.wantGenerations(epoch(1, 0), epoch(3, 4))
		if tail := f.log.TailOffset(); tail != 6 {
			t.Errorf("the log ends at %d", tail)
		}
		f.close()
	})
}
