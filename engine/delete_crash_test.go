package engine_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
)

// newDeleteRig has a shard of several segments, all of it durable, and one record
// in another.
func newDeleteRig(t testing.TB) *simRig {
	t.Helper()
	r := newSimRig(t, func(c *engine.Config) { c.SegmentBytes = 512 })
	for range 17 {
		r.appendSizes(80)
	}
	putOne(t, r.openWith(1, engine.LogOptions{}))
	return r
}

// whole says whether the shard is there with all of its records, or not at all;
// anything else is an error.
func (r *rig) whole() (bool, error) {
	if base, tail := r.log.BaseOffset(), r.log.TailOffset(); base != 0 || tail != 17 {
		if base == 0 && tail == 0 {
			return false, nil
		}
		return false, fmt.Errorf("[%d, %d) of [0, 17)", base, tail)
	}
	r.checkPayloads(func(uint64) int { return 80 })
	return true, nil
}

// neighbour checks that the other shard has its record.
func (r *rig) neighbour() {
	r.Helper()
	if l := r.openWith(1, engine.LogOptions{}); l.TailOffset() != 1 {
		r.Errorf("the other shard ends at %d", l.TailOffset())
	}
}

// A power loss at any moment of a deletion leaves the shard whole or gone; once
// the deletion has returned it is gone, also while its files are being removed.
func TestAPowerLossInADeletionLeavesAShardWholeOrGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newDeleteRig(t)
		var returned atomic.Bool
		counts := make(map[string]int)
		images := r.eachImage(func() error {
			err := r.store.DeleteLog(r.ctx, testKey(0))
			returned.Store(true)
			synctest.Wait() // until its files are removed
			return err
		}, func(image *rig) {
			is, err := image.whole()
			switch {
			case err != nil:
				t.Error(err)
			case is && returned.Load():
				t.Error("the shard came back after its deletion had returned")
			}
			image.neighbour()
			counts[fmt.Sprintf("whole %v, returned %v", is, returned.Load())]++
		})
		t.Logf("%d images: %v", images, counts)
		for _, want := range []string{"whole true, returned false", "whole false, returned false", "whole false, returned true"} {
			if counts[want] == 0 {
				t.Errorf("no image is %s", want)
			}
		}
	})
}

// A process that is killed at any moment of a deletion leaves it to the next, which
// deletes again; after that no power loss brings the shard back.
func TestADeletionThatWasInterruptedIsFinishedByTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newDeleteRig(t)
		images := 0
		r.disk.BeforeChange(func(simdisk.Change) {
			killed := &simRig{disk: r.disk.Crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath})}
			cfg := r.cfg
			cfg.FS, cfg.Queue = killed.disk, killed.disk.NewQueue(simdisk.QueueOptions{})
			store, err := engine.OpenStore(r.ctx, simRoot, cfg)
			if err != nil {
				t.Error(err)
				return
			}
			killed.rig = &rig{TB: t, ctx: r.ctx, root: simRoot, cfg: cfg, store: store}
			killed.delete(0)
			images += killed.eachImage(func() error { return nil }, func(image *rig) {
				if is, err := image.whole(); is || err != nil {
					t.Errorf("there after it was deleted twice: %v, %v", is, err)
				}
				image.neighbour()
			})
			killed.close()
		})
		r.delete(0)
		synctest.Wait()
		r.disk.BeforeChange(nil)
		if images < 20 {
			t.Errorf("%d images", images)
		}
	})
}

// A directory's flush that fails takes with it what it was to write: the one after
// it succeeds and proves nothing. The deletion fails, nothing of the shard is
// removed, and once a second one has returned the shard stays gone.
func TestADeletionAfterAFailedFlushIsNotBelievedTooEarly(t *testing.T) {
	failures := 0
	for at := 1; ; at++ {
		failed := false
		synctest.Test(t, func(t *testing.T) {
			r := newDeleteRig(t)
			r.disk.FailSync(simdisk.SyncFault{Dirs: true, At: at})
			err := r.store.DeleteLog(r.ctx, testKey(0))
			if failed = err != nil; !failed {
				return
			}
			if errorAs[*engine.LogError](t, err); !errors.Is(err, syscall.EIO) {
				t.Error(err)
			}
			// Another deletion has the goroutine look at all there is to free.
			r.delete(2)
			synctest.Wait()
			r.eachImage(func() error { return nil }, func(image *rig) {
				if _, err := image.whole(); err != nil {
					t.Errorf("flush %d failed: %v", at, err)
				}
				image.neighbour()
			})
			r.delete(0)
			look := func(image *rig) {
				if is, err := image.whole(); is || err != nil {
					t.Errorf("flush %d failed, deleted again: whole %v, %v", at, is, err)
				}
				image.neighbour()
			}
			r.eachImage(func() error { synctest.Wait(); return nil }, look)
			for _, e := range simNames(t, r.disk, simRoot+"/.deleted") {
				t.Errorf("%s is left", e)
			}
		})
		if !failed {
			break
		}
		failures++
	}
	if failures < 3 {
		t.Errorf("%d flushes of directories can fail, want 3", failures)
	}
}

func simNames(t testing.TB, disk *simdisk.Disk, dir string) (found []string) {
	t.Helper()
	entries, err := disk.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		found = append(found, e.Name)
	}
	return found
}

// A key that was opened again after a deletion that failed is another shard: its
// records outlast a power loss, and the old ones do not come back among them.
func TestAKeyOpenedAfterAFailedDeletionKeepsItsRecords(t *testing.T) {
	for at := 2; at <= 3; at++ { // those after the rename
		synctest.Test(t, func(t *testing.T) {
			r := newDeleteRig(t)
			r.disk.FailSync(simdisk.SyncFault{Dirs: true, At: at})
			if err := r.store.DeleteLog(r.ctx, testKey(0)); !errors.Is(err, syscall.EIO) {
				t.Fatal(err)
			}
			r.log = r.openWith(0, engine.LogOptions{})
			r.appendSizes(33, 33)
			r.eachImage(func() error { return nil }, func(image *rig) {
				if tail := image.log.TailOffset(); tail != 2 {
					t.Errorf("flush %d failed: the tail is %d", at, tail)
				}
				image.checkPayloads(func(uint64) int { return 33 })
			})
		})
	}
}
