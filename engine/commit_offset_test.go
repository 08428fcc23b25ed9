package engine_test

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/sidecar"
)

func (r *rig) advance(offset uint64) {
	r.Helper()
	r.must(r.log.AdvanceCommitOffset(offset))
}

func (r *rig) wantCommit(want uint64) {
	r.Helper()
	if got := r.log.CommitOffset(); got != want {
		r.Errorf("the commit offset is %d, want %d", got, want)
	}
}

// stored is the commit offset in the file of a simulated disk, 0 without one.
func (r *simRig) stored() uint64 {
	r.Helper()
	b, err := simdisk.ReadFile(r.disk, filepath.Join(r.log.Dir(), sidecar.ReplicaName))
	if err != nil {
		return 0
	}
	replica, err := sidecar.DecodeReplica(b)
	r.must(err)
	return replica.Commit
}

// isReplica matches the temporary of replica, which each of its writes makes.
func isReplica(path string) bool { return filepath.Base(path) == "replica.tmp" }

func TestTheCommitOffsetOnlyRisesAndStaysWithinTheLog(t *testing.T) {
	eachMode(t, func(t *testing.T, choose func(*engine.Config)) {
		r := newRig(t, choose)
		r.appendSizes(1, 1, 1)
		r.wantCommit(0)
		r.advance(2)
		r.wantCommit(2)
		r.advance(1)
		r.wantCommit(2)
		errorAs[*engine.InvalidRangeError](t, r.log.AdvanceCommitOffset(4))
		r.wantCommit(2)
		r.reopen()
		r.wantCommit(2)
		r.must(r.log.Close(r.ctx))
		errorAs[*engine.ClosedError](t, r.log.AdvanceCommitOffset(3))
	})
}

func TestALogThatIsNotReplicatedHasNoReplicaFile(t *testing.T) {
	r := newRig(t)
	r.appendSizes(1, 1, 1)
	r.must(r.log.Truncate(r.ctx, 1))
	r.must(r.log.HoldRetentionAtCommit(r.ctx, false))
	r.advance(0)
	r.reopen()
	if got := r.files(); got != "no ballot, no replica" || r.small("epochs") != nil {
		t.Error(got)
	}
}

// Under on_commit a write begins with the advance; those made while it is under way
// are all in the next one, and no append waits for either.
func TestOneWriteBehindCarriesAllAdvancesMadeMeanwhile(t *testing.T) {
	disk, choose := withFaults(t)
	r := newRig(t, choose)
	r.appendSizes(make([]int, 50)...)
	held := hold(t, disk, faultdisk.Rename, isReplica, 1)
	r.advance(1)
	<-held.Reached()
	for commit := uint64(2); commit <= 50; commit++ {
		r.advance(commit)
		r.appendSizes(1)
	}
	r.wantCommit(50)
	mark := len(disk.Log(faultdisk.Rename))
	held.Remove()
	r.must(r.log.Close(r.ctx)) // which ends the write under way, and would write what is missing
	writes := 0
	for _, e := range disk.Log(faultdisk.Rename)[mark:] {
		if isReplica(e.Path) {
			writes++
		}
	}
	if writes != 1 {
		t.Errorf("%d writes for 49 advances made while one was under way", writes)
	}
	if got := r.files(); got != "no ballot, replica 0 commit 50" {
		t.Error(got)
	}
}

func TestTheCommitOffsetIsWrittenWhenItsModeSays(t *testing.T) {
	for _, mode := range []engine.FsyncMode{engine.FsyncNone, engine.FsyncPeriodic, engine.FsyncOnCommit} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newSimRig(t, func(c *engine.Config) { c.FsyncMode = mode })
				r.appendSizes(make([]int, 100)...)
				before := r.disk.Counts().Renames
				started := time.Now()
				for commit := uint64(1); commit <= 100; commit++ {
					r.advance(commit)
					synctest.Wait()
					if got := r.stored(); mode == engine.FsyncOnCommit && got != commit {
						t.Fatalf("the file says %d after an advance to %d", got, commit)
					}
					time.Sleep(90 * time.Millisecond)
				}
				writes := r.disk.Counts().Renames - before
				if seconds := uint64(time.Since(started) / time.Second); mode != engine.FsyncOnCommit && (writes > seconds+1 || writes < seconds-1) {
					t.Errorf("%d writes in %d seconds", writes, seconds)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if got := r.stored(); got != 100 {
					t.Errorf("the file says %d a second after an advance to 100", got)
				}
				// What did not move is not written.
				before = r.disk.Counts().Renames
				time.Sleep(10 * time.Second)
				if n := r.disk.Counts().Renames - before; n != 0 {
					t.Errorf("%d writes without an advance", n)
				}
			})
		})
	}
}

// A write that failed is tried again a second later, however often the offset moves
// meanwhile, until it lands; appends and the log go on.
func TestAFailedWriteOfTheCommitOffsetIsTriedAgainEverySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		sim := simdisk.New()
		sim.MakeDir(simRoot)
		faults := faultdisk.New(sim, sim.NewQueue(simdisk.QueueOptions{}), faultdisk.Options{})
		r := &simRig{disk: sim, rig: newRigIn(t, simRoot, func(c *engine.Config) {
			c.FS, c.Queue = faults.FS(), faults.Queue()
			c.Logger = slog.New(slog.NewTextHandler(&text, nil))
		})}
		r.appendSizes(make([]int, 100)...)
		time.Sleep(10 * time.Millisecond) // nothing below happens at a tick
		fault := faults.Inject(faultdisk.Fault{
			Kinds: faultdisk.Write, Path: isReplica, Times: faultdisk.Forever, Errno: syscall.ENOSPC,
		})
		for commit := uint64(1); commit <= 60; commit++ {
			r.advance(commit)
			time.Sleep(50 * time.Millisecond)
		}
		if n := r.store.Stats().ReplicaWriteFailures; n < 3 || n > 5 {
			t.Errorf("%d writes failed within three seconds", n)
		}
		if n := strings.Count(text.String(), "commit offset could not be written"); n != 1 {
			t.Errorf("%d warnings: %s", n, &text)
		}
		r.appendSizes(1)
		fault.Remove()
		if got := r.stored(); got != 0 {
			t.Errorf("the file says %d", got)
		}
		time.Sleep(1100 * time.Millisecond)
		if got := r.stored(); got != 60 {
			t.Errorf("the file says %d a second after writes work again", got)
		}
		r.advance(61)
		synctest.Wait()
		if got := r.stored(); got != 61 {
			t.Errorf("the file says %d: a write begins at once again", got)
		}
		r.close()
	})
}

func TestAClosedLogSaysThatItsCommitOffsetWasNotWritten(t *testing.T) {
	disk, choose := withFaults(t)
	r := newRig(t, choose, func(c *engine.Config) { c.FsyncMode = engine.FsyncNone })
	r.appendSizes(1)
	r.advance(1)
	defer disk.Inject(faultdisk.Fault{Kinds: faultdisk.Write, Path: isReplica, Times: faultdisk.Forever, Errno: syscall.EIO}).Remove()
	if err := r.log.Close(r.ctx); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "replica") {
		t.Error(err)
	}
}

// The file follows the offset and never leads: what a power loss leaves is one that
// was advanced to, and once nothing is under way the last one.
func TestAPowerLossLeavesACommitOffsetThatWasAdvancedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSimRig(t)
		r.appendSizes(make([]int, 9)...)
		r.accept(2, "a")
		r.advance(4)
		synctest.Wait()
		settled := false
		seen := make(map[uint64]int)
		r.eachImage(func() error {
			r.advance(7)
			r.advance(9)
			synctest.Wait()
			synctest.Wait() // for what goes on in the background, which looks at this too
			settled = true
			return nil
		}, func(image *rig) {
			commit := image.log.CommitOffset()
			seen[commit]++
			if commit != 4 && commit != 7 && commit != 9 || settled && commit != 9 {
				t.Errorf("settled %v: the commit offset is %d", settled, commit)
			}
			image.wantPromise(2, "a", false)
		})
		if seen[4] == 0 || seen[9] == 0 {
			t.Error(seen)
		}
	})
}

func TestRetentionIsHeldAtTheCommitOffset(t *testing.T) {
	r := newRig(t, func(c *engine.Config) { c.SegmentBytes, c.RetentionBytes = 512, 1 })
	for range 20 {
		r.appendSizes(200) // two of them in a segment
	}
	r.must(r.log.HoldRetentionAtCommit(r.ctx, true))
	trim := func(want uint64) {
		t.Helper()
		if _, err := r.log.EnforceRetention(r.ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := r.log.TrimBefore(r.ctx, r.log.TailOffset()); err != nil {
			t.Fatal(err)
		}
		if got := r.log.BaseOffset(); got != want {
			t.Errorf("the log begins at %d, want %d", got, want)
		}
	}
	trim(0)
	r.advance(1)
	trim(0) // offset 1 is in the first segment
	r.advance(2)
	trim(2)
	r.advance(7)
	trim(6)
	r.reopen()
	if !r.log.RetentionHeld() {
		t.Error("a restart forgot that retention is held")
	}
	trim(6)
	r.must(r.log.HoldRetentionAtCommit(r.ctx, false))
	trim(18)
	r.reopen()
	if r.log.RetentionHeld() {
		t.Error("retention is held again after a restart")
	}
}

// A hold is there after every power loss once it returned, and until it is let go.
func TestAPowerLossNeverLetsGoOfAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSimRig(t)
		r.appendSizes(1, 1)
		returned := false
		r.eachImage(func() error {
			err := r.log.HoldRetentionAtCommit(r.ctx, true)
			synctest.Wait() // for what goes on in the background, which looks at this too
			returned = true
			return err
		}, func(image *rig) {
			if returned && !image.log.RetentionHeld() {
				t.Error("the hold is gone after a power loss")
			}
		})
	})
}

func TestRecordsBelowTheCommitOffsetAreNotDropped(t *testing.T) {
	refused := func(t *testing.T, err error, offset, commit uint64) {
		t.Helper()
		if e := errorAs[*engine.BelowCommitError](t, err); e.Offset != offset || e.Commit != commit {
			t.Errorf("%+v, want offset %d, commit %d", e, offset, commit)
		}
	}
	r := newRig(t)
	r.appendSizes(make([]int, 10)...)
	r.advance(5)
	refused(t, r.log.Truncate(r.ctx, 4), 4, 5)
	refused(t, r.log.Truncate(r.ctx, 0), 0, 5)
	refused(t, r.log.ResetTo(r.ctx, 4), 4, 5)
	if n := len(r.readAll()); n != 10 {
		t.Errorf("%d records are left", n)
	}
	r.must(r.log.Truncate(r.ctx, 5))
	refused(t, r.log.ResetTo(r.ctx, 0), 0, 5)
	r.must(r.log.ResetTo(r.ctx, 7))
	r.wantCommit(5)

	// A power loss under none may leave a log that ends below its commit offset: then
	// its tail is the bound.
	r.appendSizes(make([]int, 3)...)
	r.advance(10)
	dir := r.log.Dir()
	r.reopen()
	r.must(r.log.RestoreTo(r.ctx, 9))
	r.close()
	writeReplica(t, dir, sidecar.Replica{Commit: 100})
	r.open()
	refused(t, r.log.Truncate(r.ctx, 8), 8, 9)
	r.must(r.log.Truncate(r.ctx, 9))
	refused(t, r.log.ResetTo(r.ctx, 8), 8, 9)
	r.must(r.log.ResetTo(r.ctx, 9))
	r.wantCommit(100)
}
