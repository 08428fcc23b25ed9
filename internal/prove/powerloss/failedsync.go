package powerloss

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/journal"
	"felix.local/felix/recovery"
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
	var appended error // what ended the appends
	hit := hits(&fault)
	err := w.live(func(*engine.Store) error {
		w.host.model().FailSync(fault)
		for range 60 {
			if appended = w.append(); appended != nil {
				break
			}
		}
		w.syncs.Wait()
		for _, kind := range []simdisk.CrashKind{simdisk.ProcessDeath, simdisk.PowerLoss} {
			for range max(1, w.imagesPerCheck/2) {
				images = append(images, w.crash(simdisk.CrashOptions{Kind: kind, Writeback: w.writeback, Seed: w.rand.Next()}))
			}
		}
		return nil
	})
	poisoned, err := judgeFailure(*hit.Load(), appended, err)
	if err != nil {
		return err
	}
	if poisoned {
		w.sum.Poisoned++
	}
	// Once it is closed, too: nothing then vouches for what a poisoned log lost.
	for _, kind := range []simdisk.CrashKind{simdisk.ProcessDeath, simdisk.PowerLoss} {
		images = append(images, w.crash(simdisk.CrashOptions{Kind: kind, Writeback: w.writeback, Seed: w.rand.Next()}))
	}
	return w.judge(images)
}

// hits notes the path of what a fault hits: that of the matching completion it
// waits for. It is empty until then.
func hits(fault *simdisk.SyncFault) *atomic.Pointer[string] {
	hit := &atomic.Pointer[string]{}
	hit.Store(new(string))
	at, seen := fault.At, 0
	fault.Path = func(path string) bool { // one call at a time
		if seen++; seen == at {
			hit.Store(&path)
		}
		return true
	}
	return hit
}

// judgeFailure says whether a log was poisoned whose sync of a path failed, if one
// did, by what ended its appends and what closing said. It has to be, and nothing
// else may end an append, with three exceptions. The mark is only stale when it
// could not be written, though closing may tell. A segment whose header could
// not be written is removed again: that append fails, and the log goes on. And that
// the store ended in order is written when every log is closed, and that the journal
// holds nothing: where it cannot be, closing tells, and the next start takes it for a
// crash.
func judgeFailure(hit string, appended, closed error) (poisoned bool, err error) {
	poisoned = poisonedBy(closed) || poisonedBy(appended)
	create := (*recovery.CreateError)(nil)
	unmade := errors.As(appended, &create) && create.Stage == recovery.StageHeader && errors.Is(appended, syscall.EIO)
	marked := filepath.Base(hit) == recovery.MarkName
	identity := (*engine.IdentityError)(nil)
	unended := errors.As(closed, &identity) && errors.Is(closed, syscall.EIO) &&
		(hit == filepath.Dir(identity.Path) || filepath.Dir(hit) == filepath.Dir(identity.Path))
	emptied := filepath.Base(hit) == journal.DirName || filepath.Base(hit) == journal.CurrentName+".tmp"
	unended = unended || emptied && errors.Is(closed, syscall.EIO)
	switch {
	case hit == "":
		return poisoned, errors.Join(appended, closed)
	case appended != nil && !unmade && !poisonedBy(appended):
		return poisoned, fmt.Errorf("a sync of %s failed, and an append with it: %w", hit, appended)
	case closed != nil && !poisonedBy(closed) && !unended && !(marked && errors.Is(closed, syscall.EIO)):
		return poisoned, fmt.Errorf("a sync of %s failed, and closing with it: %w", hit, closed)
	case !poisoned && !unmade && !marked && !unended:
		return poisoned, fmt.Errorf("a sync of %s failed, and the log goes on", hit)
	}
	return poisoned, nil
}

func poisonedBy(err error) bool {
	poisoned := (*engine.PoisonedError)(nil)
	return errors.As(err, &poisoned)
}
