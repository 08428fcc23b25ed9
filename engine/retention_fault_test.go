package engine_test

import (
	"errors"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/segment"
)

// A flush names a file, and proves nothing when that file has lost its name. That
// retention took the name away from a segment that was sealed meanwhile is no such
// loss.
func TestRetentionBesideAFlushPoisonsNothing(t *testing.T) {
	for _, background := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newFlushRig(t, engine.FsyncPeriodic, background)
			if err := r.put(); err != nil {
				t.Fatal(err)
			}
			held := hold(t, r.disk, faultdisk.Flush, isLog, 1)
			synced, rolled := make(chan error, 1), make(chan error, 1)
			go func() { synced <- r.log.Sync(r.ctx) }()
			synctest.Wait()
			go func() { rolled <- r.putUntil(func() bool { return r.active().ID >= 4 }) }()
			synctest.Wait() // rolled, or at the flush that is held
			if _, err := r.log.EnforceRetention(r.ctx); err != nil {
				t.Error(err)
			}
			held.Remove()
			for _, err := range []error{<-synced, <-rolled, r.log.Sync(r.ctx), r.log.Poisoned()} {
				if err != nil {
					t.Error(err)
				}
			}
			if got, err := r.log.EnforceRetention(r.ctx); err != nil || got.BaseOffset == 0 {
				t.Errorf("trimmed %+v, %v", got, err)
			}
			r.readAll()
		})
	}
}

// A flush of two rounds may be in the second when the segment of the first is
// sealed; it is trimmed once the round has made the next header durable.
func TestRetentionBesideTheSecondRoundOfAFlushPoisonsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFlushRig(t, engine.FsyncPeriodic, true, func(c *engine.Config) {
			c.Preallocate = false // or the seal would need a flush of its own
			c.RetentionBytes = 1
		})
		retired := r.active().ID
		seal := hold(t, r.disk, faultdisk.Flush, named(segment.IndexName(retired)), 1)
		if err := r.putUntil(func() bool { return r.store.Stats().RollsBackground > 0 }); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the seal has flushed the records and is at the index
		second := hold(t, r.disk, faultdisk.Flush, isSegment(retired+1), 1)
		synced := make(chan error, 1)
		go func() { synced <- r.log.Sync(r.ctx) }()
		synctest.Wait()
		if second.Hits() == 0 {
			t.Fatal("the second round did not begin")
		}
		seal.Release()
		synctest.Wait()
		// The header that the second round carries is the only other one.
		if got, err := r.log.EnforceRetention(r.ctx); err != nil || got.Segments != 0 {
			t.Errorf("trimmed %+v, %v", got, err)
		}
		second.Release()
		if err := <-synced; err != nil {
			t.Error(err)
		}
		if got, err := r.log.EnforceRetention(r.ctx); err != nil || got.Segments != 1 {
			t.Errorf("trimmed %+v, %v", got, err)
		}
		if durable, tail := r.log.DurableOffset(), r.log.TailOffset(); durable != tail {
			t.Errorf("durable %d, tail %d", durable, tail)
		}
	})
}

// Names that cannot be removed are found out before readers are told that records
// are gone, or else those records are there again.
func TestARemovalThatFailsLeavesTheLogAsItWas(t *testing.T) {
	for suffix, hidden := range map[string]bool{".index": false, ".log": true} {
		for trimmed := range 2 { // segments that go before the one that stays
			synctest.Test(t, func(t *testing.T) {
				r := newOrderRig(t, engine.FsyncOnCommit, false)
				r.until(func() bool { return r.active().ID >= 5 })
				kept := r.log.Segments()[trimmed:]
				want := r.read(kept[0].BaseOffset, 1<<20)
				same := func(when string) {
					t.Helper()
					if got := r.log.BaseOffset(); got != kept[0].BaseOffset {
						t.Errorf("%s of %s: the base is %d, want %d", when, suffix, got, kept[0].BaseOffset)
					}
					if got := r.log.Segments(); !reflect.DeepEqual(got, kept) {
						t.Errorf("%s of %s: %+v, want %+v", when, suffix, got, kept)
					}
					if got := r.read(kept[0].BaseOffset, 1<<20); !reflect.DeepEqual(got, want) {
						t.Errorf("%s of %s: %d records read, %d before", when, suffix, len(got), len(want))
					}
				}
				stuck := r.disk.Inject(faultdisk.Fault{
					Kinds: faultdisk.Remove, Path: func(path string) bool { return strings.HasSuffix(path, suffix) },
					At: trimmed + 1, Stall: true, Errno: syscall.EACCES,
				})
				t.Cleanup(stuck.Release)
				var got engine.RetentionResult
				ended := make(chan error, 1)
				go func() {
					var err error
					got, err = r.log.EnforceRetention(r.ctx)
					ended <- err
				}()
				synctest.Wait()
				if !hidden {
					same("during the removal")
				}
				stuck.Release()
				err := <-ended
				if errorAs[*engine.LogError](t, err); !errors.Is(err, syscall.EACCES) {
					t.Error(err)
				}
				if got.Segments != trimmed || got.BaseOffset != kept[0].BaseOffset {
					t.Errorf("%+v", got)
				}
				if n := r.store.Stats().RetentionFailures; n != 1 {
					t.Errorf("%d failures counted", n)
				}
				same("after the removal")
				r.reopen()
				same("after the next open")
				if got, err := r.log.EnforceRetention(r.ctx); err != nil || got.Segments == 0 {
					t.Errorf("the next pass: %+v, %v", got, err)
				}
				r.appendSizes(80)
				r.readAll()
			})
		}
	}
}
