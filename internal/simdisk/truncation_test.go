package simdisk_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"

	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
)

// TestAPowerLossDuringTruncationLeavesAPrefix cuts the power in front of every
// change that a truncation makes. What is left opens, holds everything below the
// offset, and is a prefix of what was there.
func TestAPowerLossDuringTruncationLeavesAPrefix(t *testing.T) {
	eachScenario(t, func(t *testing.T, s scenario, sum *verdicts) {
		for _, seed := range seeds(t, 4) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorkload(t, s, seed, sum)
				w.host = simulated{newDisk(), adversarial(seed)}
				w.truncate()
			})
		}
	})
}

func (w *workload) truncate() {
	type cut struct {
		image
		at string
	}
	var cuts []cut
	err := w.with(w.host, func(l *engine.Log) error {
		w.log = l
		for range 10 + w.rand.Below(30) {
			if err := w.append(); err != nil {
				return err
			}
		}
		w.syncs.Wait()
		offset := w.rand.Below(uint64(len(w.want)))
		// Each change in two images, and one image more once it is done.
		take := func(at string) {
			for range 2 {
				i := w.crash(simdisk.CrashOptions{Writeback: w.writeback, Seed: w.rand.Next()})
				i.held = min(i.held, offset)
				i.durable = i.held
				cuts = append(cuts, cut{i, fmt.Sprintf("truncating %d records to %d, %s", len(w.want), offset, at)})
			}
		}
		if w.mode != engine.FsyncOnCommit {
			if err := l.Sync(context.Background()); err != nil {
				return err
			}
		}
		w.host.model().BeforeChange(func(c simdisk.Change) {
			take(fmt.Sprintf("in front of %s %s (%v at %d)", c.What, filepath.Base(c.Path), c.Kind, c.Pos))
		})
		err := l.Truncate(context.Background(), offset)
		w.host.model().BeforeChange(nil)
		take("done")
		return err
	})
	if err != nil {
		w.Fatalf("FELIX_POWER_LOSS_SEED=%#x: %v", w.seed, err)
	}
	for _, c := range cuts {
		found := c.host.crash(simdisk.CrashOptions{})
		tail, err := w.check(c.image)
		w.sum.count(c.image, tail, err)
		if err != nil {
			w.Fatalf("FELIX_POWER_LOSS_SEED=%#x, image seed %#x, %s: %v\nthe crash left\n%s",
				w.seed, c.seed, c.at, err, listing(w, found))
		}
	}
}
