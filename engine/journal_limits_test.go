package engine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/journal"
	"felix.local/felix/sidecar"
)

// poisonLag has a log lose its segment while bytes of it lag behind the journal.
func (r *rig) poisonLag(disk *faultdisk.Disk, n int) {
	r.Helper()
	if err := appendEach(r.ctx, r.log, n, 100); err != nil {
		r.Fatal(err)
	}
	failing := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Write, Errno: syscall.EIO, Path: inShard(0)})
	r.store.Checkpoint()
	failing.Remove()
	if r.log.Poisoned() == nil {
		r.Fatal("the log is not poisoned")
	}
}

// fillJournal appends to a log until no file of the journal is free.
func (r *rig) fillJournal(l *engine.Log) {
	r.Helper()
	for n := 0; r.store.Stats().JournalFull == 0; n++ {
		if n == 5000 {
			r.Fatal("the journal is never full")
		}
		if err := appendEach(r.ctx, l, 1, 1500); err != nil {
			r.Fatal(err)
		}
	}
}

// hangCheckpoint has the segment of the first log hang while it is brought up to the
// journal, which pins the frames behind it.
func (r *rig) hangCheckpoint(disk *faultdisk.Disk) (release func()) {
	r.Helper()
	if err := appendEach(r.ctx, r.log, 3, 100); err != nil {
		r.Fatal(err)
	}
	held := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Path: inShard(0), Stall: true})
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.store.Checkpoint()
	}()
	<-held.Reached()
	return func() {
		held.Release()
		<-done
	}
}

// A poisoned log whose records the journal alone holds cannot be opened again in this
// run: what would be appended takes their offsets. It can be deleted, and made anew.
func TestAPoisonedLogWithRecordsInTheJournalWaitsForTheNextStart(t *testing.T) {
	r, disk := newJournalRig(t)
	r.poisonLag(disk, 20)
	if err := r.log.Close(r.ctx); !errors.Is(err, engine.ErrPoisoned) {
		t.Fatal(err)
	}
	if _, err := r.store.OpenLog(r.ctx, testKey(0)); !errors.Is(err, engine.ErrJournalPending) {
		t.Fatal("a log whose records are in the journal alone was opened:", err)
	}
	r.reopen()
	r.wantHeld(r.log, 20, 100)
	r.poisonLag(disk, 1)
	if err := r.store.DeleteLog(r.ctx, testKey(0)); err != nil {
		t.Fatal(err)
	}
	l, err := r.store.OpenLog(r.ctx, testKey(0))
	if err != nil || l.TailOffset() != 0 {
		t.Fatal(err)
	}
	if n := r.store.Stats().JournalLagBytes; n != 0 {
		t.Errorf("%d bytes lag of a log that is gone", n)
	}
}

// A batch that has no blocks is not journaled: the write that follows would find the
// disk full after the batch was acknowledged.
func TestABatchWithoutBlocksIsNotJournaled(t *testing.T) {
	for name, errno := range map[string]syscall.Errno{"full": syscall.ENOSPC, "input or output": syscall.EIO} {
		t.Run(name, func(t *testing.T) {
			r, disk := newJournalRig(t)
			if err := appendEach(r.ctx, r.log, 1, 1000); err != nil {
				t.Fatal(err)
			}
			disk.Inject(faultdisk.Fault{Kinds: faultdisk.Allocate, Errno: errno, Path: inShard(0), Times: faultdisk.Forever})
			if err := appendEach(r.ctx, r.log, 300, 1000); err != nil {
				t.Fatal(err)
			}
			// What the first reservation holds may have been journaled.
			if n := r.store.Stats().JournalEntries; n >= 150 {
				t.Errorf("%d of 301 appends were journaled", n)
			}
			r.reopen()
			r.wantHeld(r.log, 301, 1000)
		})
	}
}

// While a log pins every file of the journal others trim, cut and go on; when it lets
// go the journal is used again.
func TestRetentionGoesOnBesideAJournalThatIsFull(t *testing.T) {
	r, disk := newJournalRig(t, func(c *engine.Config) { c.SegmentBytes = 16 << 10 })
	logs := r.openShards(3)
	release := r.hangCheckpoint(disk)
	r.fillJournal(logs[1])
	for range 60 {
		if err := appendEach(r.ctx, logs[1], 12, 1500); err != nil {
			t.Fatal(err)
		}
		if _, err := logs[1].TrimBefore(r.ctx, logs[1].Segments()[0].NextOffset); err != nil {
			t.Fatal("a trim beside a full journal:", err)
		}
	}
	release()
	r.store.Checkpoint()
	before := r.store.Stats().JournalEntries
	for range 5 {
		for _, l := range logs {
			if err := appendEach(r.ctx, l, 20, 1500); err != nil {
				t.Fatal(err)
			}
		}
		r.store.Checkpoint()
	}
	if r.store.Stats().JournalEntries == before {
		t.Error("the journal is not used again")
	}
}

// A fence finds its room though the entries beside it find none.
func TestAFenceFindsRoomBesideDataThatDoesNot(t *testing.T) {
	r, disk := newJournalRig(t)
	logs := r.openShards(12)
	release := r.hangCheckpoint(disk)
	defer release()
	for _, l := range logs[1:] {
		if err := appendEach(r.ctx, l, 3, 100); err != nil {
			t.Fatal(err)
		}
	}
	r.fillJournal(logs[1])
	ctx, stop := context.WithCancel(r.ctx)
	var all sync.WaitGroup
	for _, l := range logs[6:] {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := appendEach(r.ctx, l, 1, 200); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for _, l := range logs[2:6] {
		if err := l.Truncate(r.ctx, 2); err != nil {
			t.Error("a truncation beside appends that find the journal full:", err)
		}
	}
	stop()
	all.Wait()
}

// When the log that pinned every file is deleted the journal is used again.
func TestADeletedLogPinsNothing(t *testing.T) {
	r, disk := newJournalRig(t, func(c *engine.Config) { c.JournalBytes = engine.JournalBytesMin })
	logs := r.openShards(2)
	r.poisonLag(disk, 5) // within a file: nothing else brings the segment up
	r.fillJournal(logs[1])
	if err := r.store.DeleteLog(r.ctx, testKey(0)); err != nil {
		t.Fatal(err)
	}
	before := r.store.Stats().JournalEntries
	for range 3 {
		if err := appendEach(r.ctx, logs[1], 20, 1500); err != nil {
			t.Fatal(err)
		}
		r.store.Checkpoint()
	}
	if r.store.Stats().JournalEntries == before {
		t.Error("the journal is not used again")
	}
}

// A log that needs a descriptor gets one though the flush of another hangs whose bytes
// lag.
func TestADescriptorIsFoundBesideALagThatHangs(t *testing.T) {
	r, disk := newJournalRig(t, func(c *engine.Config) { c.OpenFilesMax, c.OpenSealedMax = 16, 1 })
	logs := r.openShards(28)
	for _, l := range logs[:14] {
		if err := appendEach(r.ctx, l, 3, 100); err != nil {
			t.Fatal(err)
		}
	}
	held := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Path: inShard(0), Stall: true, Times: faultdisk.Forever})
	defer held.Remove()
	ctx, cancel := context.WithTimeout(r.ctx, 20*time.Second)
	defer cancel()
	for i, l := range logs[14:] {
		if err := appendEach(ctx, l, 3, 100); err != nil {
			t.Fatalf("log %d waits for the flush of log 0: %v", i+14, err)
		}
	}
}

// A shard that the journal speaks of cannot be opened by itself: what is cut would
// come back.
func TestAShardThatTheJournalSpeaksOfIsNotOpenedByItself(t *testing.T) {
	r, disk := newJournalRig(t)
	logs := r.openShards(2)
	if err := appendEach(r.ctx, logs[0], 40, 1000); err != nil {
		t.Fatal(err)
	}
	r.store.Checkpoint()
	disk.Inject(faultdisk.Fault{Kinds: faultdisk.WriteDsync, Path: isFrame, Errno: syscall.EIO})
	if err := appendEach(r.ctx, logs[1], 1, 100); !errors.Is(err, engine.ErrPoisoned) {
		t.Fatal(err)
	}
	if err := r.store.Close(r.ctx); !errors.Is(err, engine.ErrPoisoned) {
		t.Fatal(err)
	}
	dir := filepath.Join(r.root, testKey(0).DirName())
	if _, _, err := engine.OpenSingle(r.ctx, dir, "x", r.cfg); !errors.Is(err, engine.ErrJournalPending) {
		t.Error("the shard was opened beside its journal:", err)
	}
	r.open()
	r.wantHeld(r.log, 40, 1000)
	r.close()
	s, _, err := engine.OpenSingle(r.ctx, dir, "x", r.cfg)
	if err != nil {
		t.Fatal("after the replay:", err)
	}
	if err := s.Close(r.ctx); err != nil {
		t.Error(err)
	}
	r.open()
}

// A journal that could not be made whole leaves the disk as it found it.
func TestAJournalThatFindsNoSpaceLeavesNone(t *testing.T) {
	r, disk := newJournalRig(t, func(c *engine.Config) { c.Journal, c.JournalBytes = engine.JournalOff, 8<<20 })
	r.close()
	full := disk.Inject(faultdisk.Fault{
		Kinds: faultdisk.Write, At: 7, Times: faultdisk.Forever, Errno: syscall.ENOSPC,
		Path: func(path string) bool { return filepath.Base(filepath.Dir(path)) == journal.DirName },
	})
	r.cfg.Journal = engine.JournalRequire
	if _, err := engine.OpenStore(r.ctx, r.root, r.cfg); !errors.Is(err, engine.ErrNoJournal) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	full.Remove()
	if left, err := filepath.Glob(filepath.Join(r.root, journal.DirName, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	r.open()
}

// A deletion that finds no room is refused before the journal forgets what it alone holds.
func TestADeletionOnAFullDiskKeepsWhatOnlyTheJournalHolds(t *testing.T) {
	r, disk := newJournalRig(t)
	r.poisonLag(disk, 20)
	full := disk.Inject(faultdisk.Fault{
		Kinds: faultdisk.Mkdir, Errno: syscall.ENOSPC, Times: faultdisk.Forever,
		Path: func(path string) bool { return filepath.Base(filepath.Dir(path)) == ".deleted" },
	})
	errorAs[*engine.FullError](t, r.store.DeleteLog(r.ctx, testKey(0)))
	full.Remove()
	if err := r.store.Close(r.ctx); !errors.Is(err, engine.ErrPoisoned) && err != nil {
		t.Fatal(err)
	}
	r.open()
	r.wantHeld(r.log, 20, 100)
}

// A deletion that fails leaves no place behind, however often it is tried, and works
// when it can; also in a root whose small files were removed by hand.
func TestADeletionThatFailsLeavesNoPlaceBehind(t *testing.T) {
	r, disk := newJournalRig(t)
	r.appendSizes(100)
	bin := filepath.Join(r.root, ".deleted")
	failing := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Rename, Errno: syscall.EIO, Times: faultdisk.Forever, Path: func(path string) bool {
		return filepath.Dir(path) == bin
	}})
	for range 3 {
		if err := r.store.DeleteLog(r.ctx, testKey(0)); !errors.Is(err, syscall.EIO) {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(bin); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	failing.Remove()
	if err := os.Remove(filepath.Join(r.root, sidecar.RunStateName)); err != nil {
		t.Fatal(err)
	}
	r.delete(0)
}
