package simdisk_test

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
)

// The power-loss scenarios run a small log on a disk, cut the power again and
// again, and open what is left. FELIX_POWER_LOSS_SEED replays one seed,
// FELIX_POWER_LOSS_SEEDS sets how many are run.

// scenario is one way to run the workload.
type scenario struct {
	name      string
	mode      engine.FsyncMode
	threshold int // of a roll; 100 rolls inline only
	writeback simdisk.Writeback
}

func scenarios() []scenario {
	var list []scenario
	for _, mode := range []engine.FsyncMode{engine.FsyncOnCommit, engine.FsyncPeriodic, engine.FsyncNone} {
		for _, threshold := range []int{100, 60} {
			for _, order := range []simdisk.Writeback{simdisk.InOrder, simdisk.AnySubset} {
				name := fmt.Sprintf("%v, %s rolls, pages %s", mode,
					map[int]string{100: "inline", 60: "background"}[threshold],
					map[simdisk.Writeback]string{simdisk.InOrder: "in order", simdisk.AnySubset: "in any order"}[order])
				list = append(list, scenario{name, mode, threshold, order})
			}
		}
	}
	return list
}

const firstSeed = 0x5eed0001

// seeds are those to run, by the environment.
func seeds(t *testing.T, count int) []uint64 {
	t.Helper()
	if s := os.Getenv("FELIX_POWER_LOSS_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 0, 64)
		if err != nil {
			t.Fatal("FELIX_POWER_LOSS_SEED:", err)
		}
		return []uint64{seed}
	}
	if s := os.Getenv("FELIX_POWER_LOSS_SEEDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal("FELIX_POWER_LOSS_SEEDS:", err)
		}
		count = n
	} else if testing.Short() {
		count = 1
	}
	list := make([]uint64, count)
	for i := range list {
		list[i] = firstSeed + uint64(i)
	}
	return list
}

// eachScenario runs a test for every scenario and prints the counts.
func eachScenario(t *testing.T, run func(t *testing.T, s scenario, sum *verdicts)) {
	var mu sync.Mutex
	var all verdicts
	t.Cleanup(func() { t.Log(&all) })
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			var sum verdicts
			run(t, s, &sum)
			t.Log(&sum)
			mu.Lock()
			defer mu.Unlock()
			all.add(&sum)
		})
	}
}

// adversarial is the queue of a simulated workload.
func adversarial(seed uint64) simdisk.QueueOptions {
	return simdisk.QueueOptions{Mode: simdisk.Adversarial, Seed: seed, ShortPercent: 5, Sleep: true}
}

func TestAPowerLossTakesNothingAcknowledged(t *testing.T) {
	eachScenario(t, func(t *testing.T, s scenario, sum *verdicts) {
		for _, seed := range seeds(t, 8) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorkload(t, s, seed, sum)
				w.host = simulated{newDisk(), adversarial(seed)}
				w.run()
			})
		}
	})
}

// TestAPowerLossOnRealFilesTakesNothingAcknowledged runs the same workload on the
// filesystem of the temporary directory, with fewer images, since each takes real
// flushes to open.
func TestAPowerLossOnRealFilesTakesNothingAcknowledged(t *testing.T) {
	for name, open := range backends() {
		t.Run(name, func(t *testing.T) {
			open(t).Close() // skips where there is none
			eachScenario(t, func(t *testing.T, s scenario, sum *verdicts) {
				if s.writeback == simdisk.InOrder && os.Getenv("FELIX_POWER_LOSS_SEEDS") == "" {
					t.Skip("only with FELIX_POWER_LOSS_SEEDS: pages in any order include this")
				}
				for _, seed := range seeds(t, 1) {
					w := newWorkload(t, s, seed, sum)
					w.host = newReal(t, open)
					w.checkpoints, w.imagesPerCheck, w.pauseMax = 5, 1, 3*time.Millisecond
					w.run()
				}
			})
		})
	}
}

// TestAPowerLossDuringRecoveryTakesNothing crashes the recovery of an image in
// front of everything it changes.
func TestAPowerLossDuringRecoveryTakesNothing(t *testing.T) {
	eachScenario(t, func(t *testing.T, s scenario, sum *verdicts) {
		for _, seed := range seeds(t, 1) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorkload(t, s, seed, sum)
				w.host = simulated{newDisk(), adversarial(seed)}
				w.checkpoints, w.imagesPerCheck, w.crashRecovery = 6, 1, true
				w.run()
			})
		}
	})
}
