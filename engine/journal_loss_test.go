package engine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/journal"
	"felix.local/felix/sidecar"
)

// A copy in the place of a data file has a start find the journal whole. While it cannot
// be said to be empty, removals are not made without a fence.
func TestACopyOfAJournalThatWasRemovedBringsNothingBack(t *testing.T) {
	r, disk := newJournalRig(t)
	logs := r.filledShards(2)
	full := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Errno: syscall.ENOSPC, Times: faultdisk.Forever, Path: func(path string) bool {
		return filepath.Base(path) == journal.CurrentName+".tmp"
	}})
	replaceDataFile(t, r)
	if err := appendEach(r.ctx, logs[0], 5, 100); err != nil {
		t.Fatal(err)
	}
	for full.Hits() == 0 {
		time.Sleep(time.Millisecond)
	}
	for what, err := range map[string]error{"truncation": logs[1].Truncate(r.ctx, 3), "deletion": r.store.DeleteLog(r.ctx, testKey(1))} {
		if !errors.Is(err, engine.ErrNoJournalRoom) {
			t.Errorf("a %s that the journal was not told of: %v", what, err)
		}
	}
	full.Remove()
	for r.store.JournalLost() {
		r.store.KickJournal()
		time.Sleep(time.Millisecond)
	}
	r.delete(1)
	r.wantKilled(t, 10, 0)
}

// Nor are they when the flush that was to make the removal durable failed: that another one
// succeeds says nothing.
func TestAFlushThatFailedKeepsRemovalsFromGoingWithoutTheirFence(t *testing.T) {
	r, faults := newSimFaultRig(t)
	logs := r.openShards(2)
	if err := appendEach(r.ctx, logs[1], 5, 100); err != nil {
		t.Fatal(err)
	}
	r.poisonLag(faults, 5) // which keeps the journal from ever being empty
	if err := r.disk.Remove(filepath.Join(simRoot, journal.DirName, journal.FileName(0))); err != nil {
		t.Fatal(err)
	}
	failures := r.store.Stats().SyncFailures
	r.disk.FailSync(simdisk.SyncFault{Dirs: true})
	if err := appendEach(r.ctx, logs[1], 1, 100); err != nil {
		t.Fatal(err)
	}
	for r.store.Stats().SyncFailures == failures {
		time.Sleep(time.Millisecond)
	}
	r.store.SettleJournal()
	if err := logs[1].Truncate(r.ctx, 3); !errors.Is(err, engine.ErrNoJournalRoom) {
		t.Error(err)
	}
}

// That the journal's names are gone is durable before a removal of records goes without a
// fence: with the names a power loss would bring the records back. A flush that failed
// may have let names go that a later one knows nothing of.
func TestARemovalOfRecordsOutlivesAPowerLossBehindThatOfTheJournal(t *testing.T) {
	for name, failing := range map[string]bool{"flushed": false, "a flush that fails": true} {
		t.Run(name, func(t *testing.T) {
			r, _ := newSimFaultRig(t)
			logs := r.openShards(2)
			for _, l := range logs {
				if err := appendEach(r.ctx, l, 4, 100); err != nil {
					t.Fatal(err)
				}
			}
			dir := filepath.Join(simRoot, journal.DirName)
			files, err := r.disk.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				if err := r.disk.Remove(filepath.Join(dir, file.Name)); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.disk.Remove(dir); err != nil {
				t.Fatal(err)
			}
			if failing {
				r.disk.FailSync(simdisk.SyncFault{Dirs: true})
			}
			if err := appendEach(r.ctx, logs[0], 1, 100); err != nil {
				t.Fatal(err)
			}
			for r.store.JournalLost() {
				r.store.KickJournal()
				time.Sleep(time.Millisecond)
			}
			if err := logs[1].Truncate(r.ctx, 3); err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(100) {
				cfg := r.cfg
				disk := r.disk.Crash(simdisk.CrashOptions{Seed: seed})
				cfg.FS, cfg.Queue = disk, disk.NewQueue(simdisk.QueueOptions{})
				store, err := engine.OpenStore(r.ctx, simRoot, cfg)
				if err != nil {
					t.Fatal(seed, err)
				}
				for i, want := range []uint64{5, 3} {
					l, err := store.OpenLog(r.ctx, testKey(i))
					if err != nil {
						t.Fatal(seed, err)
					}
					if n := l.TailOffset(); n != want {
						t.Fatalf("seed %d: log %d ends at %d, not %d", seed, i, n, want)
					}
				}
				if err := store.Close(r.ctx); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// Entries may be staged while the journal is being given up. They come when that is done,
// and another of its files still has a name.
func TestAJournalThatWasGivenUpIsNotWrittenAgain(t *testing.T) {
	r, _ := newJournalRig(t)
	if err := r.store.FrameAfterLoss(); !errors.Is(err, engine.ErrNoJournalRoom) {
		t.Error("a frame was written to it:", err)
	}
	if err := appendEach(r.ctx, r.log, 5, 100); err != nil {
		t.Fatal(err)
	}
	if n := r.store.Stats().JournalFrames; n != 0 {
		t.Errorf("%d frames were written to it", n)
	}
}

// Whoever closes a store while the last word about its journal hangs is not kept beyond
// the end of the context, and the next Close goes on from there.
func TestClosingEndsWithItsContextWhileTheJournalsLastWordHangs(t *testing.T) {
	r, disk := newJournalRig(t)
	if err := appendEach(r.ctx, r.log, 5, 100); err != nil {
		t.Fatal(err)
	}
	hanging := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Stall: true, Path: func(path string) bool {
		return filepath.Base(path) == journal.CurrentName+".tmp"
	}})
	ctx, cancel := context.WithTimeout(r.ctx, 20*time.Millisecond)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- r.store.Close(ctx) }()
	select {
	case err := <-closed:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	case <-r.ctx.Done():
		t.Error("Close did not return")
	}
	if hanging.Hits() != 1 {
		t.Errorf("%d flushes hung", hanging.Hits())
	}
	hanging.Release()
	if err := r.store.Close(r.ctx); err != nil {
		t.Error(err)
	}
}

// That a journal which was given up could not be said to be empty is an error of the Close
// that ends the run.
func TestASecondCloseTellsOfAJournalThatWasGivenUp(t *testing.T) {
	r, disk := newJournalRig(t)
	if err := appendEach(r.ctx, r.log, 5, 100); err != nil {
		t.Fatal(err)
	}
	full := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Errno: syscall.ENOSPC, Times: faultdisk.Forever, Path: func(path string) bool {
		return filepath.Base(path) == journal.CurrentName+".tmp"
	}})
	if err := os.Remove(filepath.Join(r.root, journal.DirName, journal.FileName(0))); err != nil {
		t.Fatal(err)
	}
	if err := appendEach(r.ctx, r.log, 5, 100); err != nil {
		t.Fatal(err)
	}
	hanging := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Stall: true, Path: func(path string) bool {
		return filepath.Base(path) == sidecar.RunStateName+".tmp"
	}})
	ctx, cancel := context.WithTimeout(r.ctx, 20*time.Millisecond)
	defer cancel()
	if err := r.store.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	full.Remove()
	hanging.Release()
	if err := r.store.Close(r.ctx); !errors.Is(err, engine.ErrFull) {
		t.Errorf("the second Close: %v", err)
	}
}
