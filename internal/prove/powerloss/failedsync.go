package powerloss

import (
	"errors"
	"fmt"
	"syscall"

	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
)

// failedSyncs fails the k-th flush or dsync write of a log for many k, with the
// page cache showing the lost bytes and without. Then the process dies, which
// keeps the page cache, or the power goes. What the log serves after it was opened
// survives another power loss.
func (w *workload) failedSyncs() error {
	for at := 1; at <= 31; at += 10 {
		for _, revert := range []bool{false, true} {
			one := newWorkload(w.scenario, w.seed, w.imagesPerCheck, newSimulated(w.host.(simulated).queue))
			one.judged = w.judged
			fault := simdisk.SyncFault{At: at + int(one.rand.Below(10)), Revert: revert, Partly: one.rand.Below(3) * w.seed}
			err := one.failSync(fault)
			w.sum.add(one.sum)
			w.judged = one.judged
			if err != nil {
				return fmt.Errorf("sync %d failed, page cache reverted %v, partly written by %d: %w", fault.At, fault.Revert, fault.Partly, err)
			}
		}
	}
	return nil
}

func (w *workload) failSync(fault simdisk.SyncFault) error {
	var images []image
	err := w.live(func() error {
		w.host.model().FailSync(fault)
		for range 60 {
			if err := w.append(); err != nil {
				break
			}
		}
		w.syncs.Wait()
		for _, kind := range []simdisk.CrashKind{simdisk.ProcessDeath, simdisk.PowerLoss} {
			for range max(1, w.imagesPerCheck/2) {
				i := w.crash(simdisk.CrashOptions{Kind: kind, Writeback: w.writeback, Seed: w.rand.Next()})
				images = append(images, i)
				if kind == simdisk.ProcessDeath {
					w.sum.Deaths++
				}
			}
		}
		return nil
	})
	// Closing may fail for the mark alone, which poisons nothing.
	var poisoned *engine.PoisonedError
	if err != nil && !errors.As(err, &poisoned) && !errors.Is(err, syscall.EIO) {
		return err
	}
	if poisoned != nil {
		w.sum.Poisoned++
	}
	return w.judge(images)
}
