package engine_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
)

// Whoever waits behind a flush that fails is told of the failure: a flush of its
// own would succeed now, and prove nothing.
func TestWhoWaitsBehindAFlushThatFailsGetsThePoisonAndNoSuccess(t *testing.T) {
	// A few less than wait; the other pairs have a holder that flushes nothing, or a
	// comer that needs no flush.
	pairsMin := map[engine.FsyncMode]int{engine.FsyncNone: 28, engine.FsyncPeriodic: 32, engine.FsyncOnCommit: 17}
	for _, mode := range []engine.FsyncMode{engine.FsyncNone, engine.FsyncPeriodic, engine.FsyncOnCommit} {
		for _, background := range []bool{false, true} {
			rolls := "inline"
			if background {
				rolls = "background"
			}
			t.Run(fmt.Sprintf("%v %s rolls", mode, rolls), func(t *testing.T) {
				pairs := 0
				for _, holder := range flushParties() {
					for _, comer := range flushParties()[1:] { // the timer is told nothing
						synctest.Test(t, func(t *testing.T) {
							b := &behindFlush{besideFlush: &besideFlush{
								flushRig: newFlushRig(t, mode, background), errno: syscall.EIO,
							}}
							if b.run(holder, comer) {
								pairs++
							}
							if len(b.problems) > 0 {
								t.Errorf("%s behind %s: %v", comer.name, holder.name, b.problems)
							}
						})
					}
				}
				t.Logf("%d pairs", pairs)
				if pairs < pairsMin[mode] {
					t.Errorf("in %d pairs one waited for the other's flush, want %d at least", pairs, pairsMin[mode])
				}
			})
		}
	}
}

// behindFlush is a pair of parties of which the second waits for the first one's
// flush, which fails.
type behindFlush struct{ *besideFlush }

// run says whether the second one waited.
func (b *behindFlush) run(holder, comer flushParty) bool {
	b.Helper()
	for range 2 {
		if err := b.put(); err != nil {
			b.Fatal(err)
		}
	}
	b.held = b.disk.Inject(faultdisk.Fault{
		Kinds: faultdisk.Flush, Path: isLog, Stall: true, Errno: b.errno, DropDirty: true,
	})
	b.Cleanup(b.held.Release)
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- holder.do(b.flushRig) }()
	b.settle()
	if b.held.Hits() == 0 {
		return false
	}
	bound := b.log.DurableOffset()
	go func() { second <- comer.do(b.flushRig) }()
	b.settle()
	// A roll in the background may flush after the append that switched.
	holding, waited := len(first) == 0, len(second) == 0
	if now := b.log.DurableOffset(); now != bound {
		b.problem("durable is %d, was %d when the flush began", now, bound)
	}
	b.held.Release()
	if err := <-first; holding {
		b.told(holder, err)
	}
	if err := <-second; waited {
		b.told(comer, err)
	}
	synctest.Wait()
	if now := b.log.DurableOffset(); now != bound {
		b.problem("durable is %d, was %d when the flush failed", now, bound)
	}
	if flushes, _ := b.segmentFlushes(); !errors.Is(flushes[len(flushes)-1].Err, b.errno) {
		b.problem("%v after the flush that failed", flushes[len(flushes)-1])
	}
	_ = b.store.Close(b.ctx)
	b.store, b.durable = nil, bound
	b.compare()
	return waited
}

// told checks what one of the two got. The timer's flush is nobody's call.
func (b *behindFlush) told(party flushParty, err error) {
	switch closing := errors.Is(err, engine.ErrClosed); {
	case party.name == flushParties()[0].name || closing:
	case !errors.Is(err, engine.ErrPoisoned) || !errors.Is(err, b.errno):
		b.problem("%s got %v", party.name, err)
	}
}

// Of two flushes the first succeeds and the second fails: who waits for what the
// first one covers has a success, who waits for more the poison, and the bound
// stays where the first one put it.
func TestEachWaiterIsJudgedByTheFlushThatCoversWhatItWaitsFor(t *testing.T) {
	for _, mode := range []engine.FsyncMode{engine.FsyncNone, engine.FsyncPeriodic} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFlushRig(t, mode, false)
				put := func(n int) {
					for range n {
						if err := r.put(); err != nil {
							t.Fatal(err)
						}
					}
				}
				fault := faultdisk.Fault{Kinds: faultdisk.Flush, Path: isLog, Stall: true}
				succeeds := r.disk.Inject(fault)
				t.Cleanup(succeeds.Release)
				fault.At, fault.Errno, fault.DropDirty = 2, syscall.EIO, true
				fails := r.disk.Inject(fault)
				t.Cleanup(fails.Release)

				wait := func(n int, do func() error) chan error {
					out := make(chan error, n)
					for range n {
						go func() { out <- do() }()
					}
					return out
				}
				sync := func() error { return r.log.Sync(r.ctx) }
				upTo := func(offset uint64) func() error {
					return func() error { return r.log.WaitDurable(r.ctx, offset) }
				}
				put(2)
				early := []chan error{wait(3, sync), wait(3, upTo(1))}
				<-succeeds.Reached()
				synctest.Wait()
				put(2) // written while it is under way, and not covered
				late := []chan error{wait(3, sync), wait(3, upTo(2)), wait(3, upTo(3))}
				synctest.Wait()
				told := func() (n int) {
					for _, out := range append(early, late...) {
						n += len(out)
					}
					return n
				}
				if n, durable := told(), r.log.DurableOffset(); n != 0 || durable != 0 {
					t.Errorf("%d were told while the first flush is under way; durable %d", n, durable)
				}
				succeeds.Release()
				<-fails.Reached()
				synctest.Wait()
				if n, durable := told(), r.log.DurableOffset(); n != 6 || durable != 2 {
					t.Errorf("%d were told of the first flush, not 6; durable %d", n, durable)
				}
				for _, out := range early {
					for range len(out) {
						if err := <-out; err != nil {
							t.Errorf("covered by the flush that succeeded: %v", err)
						}
					}
				}
				fails.Release()
				synctest.Wait()
				if n := told(); n != 9 {
					t.Errorf("%d of 9 were told of the second flush", n)
				}
				for _, out := range late {
					for range len(out) {
						if err := <-out; !errors.Is(err, engine.ErrPoisoned) || !errors.Is(err, syscall.EIO) {
							t.Errorf("covered by the flush that failed: %v", err)
						}
					}
				}
				if durable, n := r.log.DurableOffset(), len(r.readAll()); durable != 2 || n != 2 {
					t.Errorf("durable %d, %d records read", durable, n)
				}
				if flushes, overlapping := r.segmentFlushes(); len(flushes) != 2 || overlapping != "" {
					t.Errorf("flushed %v %s", flushes, overlapping)
				}
				_ = r.store.Close(r.ctx)
				r.store = nil
				again := openCopy(t, r.root, "", sharedPool(t))
				if tail := again.log.TailOffset(); tail != 2 {
					t.Errorf("%d records are there, 2 are durable and the rest was lost", tail)
				}
				again.close()
			})
		})
	}
}
