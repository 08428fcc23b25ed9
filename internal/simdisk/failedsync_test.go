package simdisk_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"

	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
)

// TestAFailedSyncLosesNothingAcknowledgedOrServed fails the k-th flush or dsync
// write of a log for many k, with the page cache showing the lost bytes and
// without. Then the process dies, which keeps the page cache, or the power goes.
// What the log serves after it was opened survives another power loss.
func TestAFailedSyncLosesNothingAcknowledgedOrServed(t *testing.T) {
	eachScenario(t, func(t *testing.T, s scenario, sum *verdicts) {
		for _, seed := range seeds(t, 2) {
			for at := 1; at <= 31; at += 10 {
				for _, revert := range []bool{false, true} {
					synctest.Test(t, func(t *testing.T) {
						w := newWorkload(t, s, seed, sum)
						w.host = simulated{newDisk(), adversarial(seed)}
						w.failSync(simdisk.SyncFault{At: at + int(w.rand.Below(10)), Revert: revert, Partly: w.rand.Below(3) * seed})
					})
				}
			}
		}
	})
}

func (w *workload) failSync(fault simdisk.SyncFault) {
	var images []image
	disk := w.host.model()
	err := w.with(w.host, func(l *engine.Log) error {
		w.log = l
		disk.FailSync(fault)
		for range 60 {
			if err := w.append(); err != nil {
				break
			}
		}
		w.syncs.Wait()
		for _, kind := range []simdisk.CrashKind{simdisk.ProcessDeath, simdisk.PowerLoss} {
			for range 3 {
				images = append(images, w.crash(simdisk.CrashOptions{Kind: kind, Writeback: w.writeback, Seed: w.rand.Next()}))
			}
		}
		return nil
	})
	// Closing may fail for the mark alone, which poisons nothing.
	var poisoned *engine.PoisonedError
	if err != nil && !errors.As(err, &poisoned) && !errors.Is(err, syscall.EIO) {
		w.Fatalf("FELIX_POWER_LOSS_SEED=%#x, %s: %v", w.seed, describe(fault), err)
	}
	if poisoned != nil {
		w.sum.poisoned++
	}
	for _, i := range images {
		found := i.host.crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath})
		tail, err := w.check(i)
		w.sum.count(i, tail, err)
		if err != nil {
			w.Fatalf("FELIX_POWER_LOSS_SEED=%#x, image seed %#x, %s, poisoned: %v: %v\nof %d records %d had to be there; the crash left\n%s",
				w.seed, i.seed, describe(fault), poisoned, err, i.written, i.held, listing(w, found))
		}
	}
}

func describe(f simdisk.SyncFault) string {
	return fmt.Sprintf("sync %d failed, page cache reverted %v, partly written by %d", f.At, f.Revert, f.Partly)
}
