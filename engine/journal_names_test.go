package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/journal"
	"felix.local/felix/segment"
)

// What a data file without a name holds is gone with the process, so a frame in it is
// none. All that was acknowledged is in memory, and goes to the segments: a kill takes
// nothing, and logs go on without a journal.
func TestAJournalThatIsRemovedUnderTheStoreTakesNothingWithIt(t *testing.T) {
	for name, removed := range map[string][]string{
		"all of it": {""}, "a data file": {journal.FileName(0)}, "the name of the epoch": {journal.CurrentName},
		"some of it": {journal.CurrentName, journal.FileName(0)}, "a data file, for a copy": nil,
	} {
		t.Run(name, func(t *testing.T) {
			var lines logLines
			r, _ := newJournalRig(t, func(c *engine.Config) { c.Logger = lines.logger() })
			logs := r.filledShards(3)
			if removed == nil {
				replaceDataFile(t, r)
			}
			for _, file := range removed {
				if err := os.RemoveAll(filepath.Join(r.root, journal.DirName, file)); err != nil {
					t.Fatal(err)
				}
			}
			unseen := name == "the name of the epoch" // nobody looks for it while the store runs
			if err := appendEach(r.ctx, logs[0], 5, 100); err != nil {
				t.Fatal(err)
			}
			if unseen {
				r.store.Checkpoint()
			}
			for r.store.Stats().JournalLagBytes > 0 || r.store.JournalLost() {
				time.Sleep(time.Millisecond)
			}
			if err := appendEach(r.ctx, logs[1], 5, 100); err != nil {
				t.Fatal(err)
			}
			// A removal of records tells nobody.
			if err := logs[2].Truncate(r.ctx, 3); err != nil {
				t.Fatal(err)
			}
			if unseen {
				if store, err := r.openKilled(t); err == nil {
					t.Error("frames without the name of their epoch were taken for nothing")
					_ = store.Close(r.ctx)
				}
				return
			}
			r.wantKilled(t, 10, 10, 3)
			lines.wantOne(t, map[string]any{"level": "ERROR"})
			if err := r.store.Close(r.ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// aside is a place on the filesystem of a root, and outside it.
func aside(t *testing.T, r *rig) string {
	dir := r.root + "-aside"
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func moveJournal(t *testing.T, r *rig) (back func()) {
	dir, to := filepath.Join(r.root, journal.DirName), aside(t, r)
	if err := os.Rename(dir, to); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Rename(to, dir); err != nil {
			t.Fatal(err)
		}
	}
}

// removeLinkedJournal leaves what a copy made of hard links leaves: the files have names
// elsewhere.
func removeLinkedJournal(t *testing.T, r *rig) (back func()) {
	dir, links := filepath.Join(r.root, journal.DirName), aside(t, r)
	if err := os.Mkdir(links, 0o700); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Link(filepath.Join(dir, e.Name()), filepath.Join(links, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Rename(links, dir); err != nil {
			t.Fatal(err)
		}
	}
}

// replaceDataFile puts a copy, which an editor or a restore makes, where the file was.
func replaceDataFile(t *testing.T, r *rig) {
	path := filepath.Join(r.root, journal.DirName, journal.FileName(0))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".copy", b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".copy", path); err != nil {
		t.Fatal(err)
	}
}

// A start does not look for a journal elsewhere. While it is not under its name no batch
// is acknowledged by a frame, and nothing that it may hold is given up; it may be put back.
func TestAJournalThatIsMovedAwayTakesNothingUntilItIsBack(t *testing.T) {
	for name, move := range map[string]func(t *testing.T, r *rig) (back func()){
		"moved": moveJournal, "removed, with further names": removeLinkedJournal,
	} {
		t.Run(name, func(t *testing.T) {
			var lines logLines
			r, _ := newJournalRig(t, func(c *engine.Config) { c.Logger = lines.logger() })
			logs := r.filledShards(3)
			back := move(t, r)
			before := r.store.Stats().JournalFrames
			if err := appendEach(r.ctx, logs[0], 5, 100); err != nil {
				t.Fatal(err)
			}
			if n := r.store.Stats().JournalFrames - before; n != 0 {
				t.Errorf("appends were acknowledged by %d frames that no start will find", n)
			}
			// It is written down at once what no start without the journal would find.
			for r.store.JournalPins() > 0 {
				time.Sleep(time.Millisecond)
			}
			if state := r.store.Journal(); !strings.Contains(state.Reason, "not under its name any more") {
				t.Errorf("%+v", state)
			}
			r.wantKilled(t, 10, 5, 5)
			// What the journal holds of a shard would come back with it.
			if err := r.store.DeleteLog(r.ctx, testKey(2)); !errors.Is(err, engine.ErrNoJournalRoom) {
				t.Error("a deletion that the journal was not told of:", err)
			}
			lines.wantOne(t, map[string]any{"level": "ERROR"})
			back()
			if err := appendEach(r.ctx, logs[0], 5, 100); err != nil {
				t.Fatal(err)
			}
			if n := r.store.Stats().JournalFrames - before; n == 0 || r.store.Journal().Reason != "" {
				t.Errorf("the journal is back, and %d frames were written: %+v", n, r.store.Journal())
			}
			r.wantKilled(t, 15, 5, 5)
			r.delete(2)
			r.wantKilled(t, 15, 5, 0)
			if err := r.store.Close(r.ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// filledShards gives so many logs with five records each.
func (r *rig) filledShards(n int) []*engine.Log {
	r.Helper()
	logs := r.openShards(n)
	for _, l := range logs {
		if err := appendEach(r.ctx, l, 5, 100); err != nil {
			r.Fatal(err)
		}
	}
	return logs
}

// openKilled opens what a kill now would leave.
func (r *rig) openKilled(t *testing.T) (*engine.Store, error) {
	t.Helper()
	killed := filepath.Join(t.TempDir(), "killed")
	copyTree(t, r.root, killed)
	cfg := r.cfg
	cfg.Logger, cfg.Queue, cfg.FS = nil, nil, nil
	return engine.OpenStore(r.ctx, killed, cfg)
}

// wantKilled wants so many records in each shard after a kill now.
func (r *rig) wantKilled(t *testing.T, want ...uint64) {
	t.Helper()
	store, err := r.openKilled(t)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(r.ctx)
	for i, n := range want {
		l, err := store.OpenLog(r.ctx, testKey(i))
		if err != nil {
			t.Fatal(err)
		}
		r.wantHeld(l, n, 100)
	}
}

// A log that was poisoned over what only the journal held keeps it from ever being
// empty. Other logs give records up all the same, it can be deleted, and the checkpointer
// does not go round meanwhile.
func TestAPoisonedLogBesideAJournalThatWasRemovedHoldsNobodyUp(t *testing.T) {
	r, disk := newJournalRig(t)
	logs := r.openShards(2)
	if err := appendEach(r.ctx, logs[1], 5, 100); err != nil {
		t.Fatal(err)
	}
	r.poisonLag(disk, 5)
	if err := os.RemoveAll(filepath.Join(r.root, journal.DirName)); err != nil {
		t.Fatal(err)
	}
	if err := appendEach(r.ctx, logs[1], 5, 100); err != nil {
		t.Fatal(err)
	}
	for !r.store.JournalGone() {
		time.Sleep(time.Millisecond)
	}
	before := r.store.Stats().JournalCheckpoints
	if err := logs[1].Truncate(r.ctx, 7); err != nil {
		t.Error("a truncation:", err)
	}
	for range 20 {
		if err := appendEach(r.ctx, logs[1], 5, 100); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.store.Stats().JournalCheckpoints - before; n > 5 {
		t.Errorf("%d rounds of checkpoints for a log that cannot be written", n)
	}
	r.delete(0)
	for r.store.JournalLost() {
		time.Sleep(time.Millisecond)
	}
}

// framesInPieces says of every frame that it took two transfers.
type framesInPieces struct{ device.Queue }

func (q framesInPieces) Submit(ops ...*device.Op) {
	for _, op := range ops {
		if op.Kind != device.WriteDsync || !isFrame(op.File.Name()) {
			q.Queue.Submit(op)
			continue
		}
		op.Prepare()
		go func() {
			whole := device.Op{Kind: op.Kind, File: op.File, Buf: op.Buf, Pos: op.Pos}
			err := device.Do(q.Queue, &whole)
			op.Pieces = 2
			op.Complete(whole.N, err)
		}()
	}
}

// A name that went while the frame was on its way is seen before the batch is
// acknowledged; of a frame in several pieces, also one that went under the flush behind
// it, with which that is durable.
func TestASegmentThatLosesItsNameUnderAFrameIsNotAcknowledged(t *testing.T) {
	for name, c := range map[string]struct {
		queue func(device.Queue) device.Queue
		kind  faultdisk.Kinds
	}{
		"one write":      {func(q device.Queue) device.Queue { return q }, faultdisk.WriteDsync},
		"several pieces": {func(q device.Queue) device.Queue { return framesInPieces{q} }, faultdisk.Flush},
	} {
		t.Run(name, func(t *testing.T) {
			r, disk := newJournalRig(t, func(cfg *engine.Config) { cfg.Queue = c.queue(cfg.Queue) })
			if err := appendEach(r.ctx, r.log, 5, 100); err != nil {
				t.Fatal(err)
			}
			held := disk.Inject(faultdisk.Fault{Kinds: c.kind, Path: isFrame, Stall: true})
			defer held.Release()
			p, err := r.log.AppendAsync(r.ctx, engine.Record{Payload: payload(5, 100)})
			if err != nil {
				t.Fatal(err)
			}
			<-held.Reached()
			time.Sleep(5 * time.Millisecond) // what was seen is old by now
			if err := os.Remove(filepath.Join(r.log.Dir(), segment.LogName(0))); err != nil {
				t.Fatal(err)
			}
			held.Release()
			if _, err := p.Wait(r.ctx); !errors.Is(err, engine.ErrPoisoned) {
				t.Error("acknowledged though its segment has no name:", err)
			}
		})
	}
}

// A log that was poisoned while nothing of its next segment was on the device goes on in
// the former one when it is opened again. A removal of older segments must not void what
// the journal holds for that one from then on, and a start must know when it goes.
func TestASegmentThatALogGoesBackToIsNotTakenForOneThatWasLeft(t *testing.T) {
	for name, trimFirst := range map[string]bool{"older ones go before": true, "older ones go after": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { logGoesBack(t, trimFirst) })
		})
	}
}

func logGoesBack(t *testing.T, trimFirst bool) {
	r := newSimRig(t, journaled, func(c *engine.Config) {
		c.SegmentBytes, c.RolloverThresholdPercent = 30_000, 50
	})
	// What lags of another log keeps the frames from here on.
	if err := appendEach(r.ctx, r.openShards(2)[1], 1, 100); err != nil {
		t.Fatal(err)
	}
	newest := func() segment.Descriptor { return r.log.Segments()[len(r.log.Segments())-1] }
	appendOne := func() error {
		err := appendEach(r.ctx, r.log, 1, journalWorldBytes)
		synctest.Wait() // the next segment is prepared, the former one sealed
		return err
	}
	trim := func() {
		if _, err := r.log.TrimBefore(r.ctx, newest().BaseOffset); err != nil {
			t.Fatal(err)
		}
	}
	// The first segment was left, and the journal holds records of both.
	for newest().ID < 1 || r.log.TailOffset() < newest().BaseOffset+3 {
		if err := appendOne(); err != nil {
			t.Fatal(err)
		}
	}
	if trimFirst {
		trim()
	}
	r.disk.FailSync(simdisk.SyncFault{
		Files: true, Revert: true, Errno: syscall.EIO,
		Path: func(path string) bool { return filepath.Base(path) == segment.LogName(2) },
	})
	var err error
	for err == nil {
		err = appendOne()
	}
	acked := r.log.TailOffset()
	if !errors.Is(err, engine.ErrPoisoned) {
		t.Fatal(err)
	}
	_ = r.log.Close(r.ctx) // it says that it is poisoned
	if r.log, err = r.store.OpenLog(r.ctx, testKey(0)); err != nil {
		t.Fatal(err)
	}
	if id := newest().ID; id != 1 || r.log.TailOffset() != acked {
		t.Fatalf("it goes on in segment %d at %d, want 1 at %d", id, r.log.TailOffset(), acked)
	}
	before := r.store.Stats().JournalEntries
	if err := appendEach(r.ctx, r.log, 1, journalWorldBytes); err != nil {
		t.Fatal(err)
	}
	if n := r.store.Stats().JournalEntries - before; n != 1 || newest().ID != 1 {
		t.Fatalf("%d of 1 append is in the journal, for segment %d", n, newest().ID)
	}
	if !trimFirst {
		trim()
	}
	image := r.afterPowerLoss(1)
	image.holds(image.log, acked+1)
	image.close()
	// It leaves that segment for good, which goes in turn.
	for newest().ID < 2 {
		if err := appendOne(); err != nil {
			t.Fatal(err)
		}
	}
	trim()
	image = r.afterPowerLoss(2)
	image.holds(image.log, r.log.TailOffset())
}

// A segment that is cut back after a failed write is asked for its name: its flush moves
// the durable bound.
func TestASegmentWithoutANameIsNotCutBack(t *testing.T) {
	disk, onDisk := withFaults(t)
	r := newRig(t, onDisk, func(c *engine.Config) { c.FsyncMode = engine.FsyncPeriodic })
	r.appendSizes(100)
	if err := os.Remove(filepath.Join(r.log.Dir(), segment.LogName(0))); err != nil {
		t.Fatal(err)
	}
	disk.Inject(faultdisk.Fault{Kinds: faultdisk.Write, Path: isLog, Errno: syscall.EIO})
	_, err := r.log.Append(r.ctx, engine.Record{Payload: payload(1, 100)})
	errorAs[*engine.PoisonedError](t, err)
	if n := r.log.DurableOffset(); n != 0 {
		t.Errorf("%d records are said to be durable", n)
	}
}

// Records that are in a shard's directory when that is moved away are not found by the
// next process under the shard's name, however durable they are.
func TestALogWhoseDirectoryWasMovedAwayAcknowledgesNothing(t *testing.T) {
	for name, mode := range map[string]engine.FsyncMode{"on_commit": engine.FsyncOnCommit, "none": engine.FsyncNone} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *engine.Config) { c.FsyncMode = mode })
			if err := appendEach(r.ctx, r.log, 5, 100); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(r.log.Dir(), aside(t, r)); err != nil {
				t.Fatal(err)
			}
			err := appendEach(r.ctx, r.log, 1, 100)
			if mode == engine.FsyncNone && err == nil {
				err = r.log.Sync(r.ctx)
			}
			if !errors.Is(err, engine.ErrPoisoned) || !strings.Contains(err.Error(), "not under its name any more") {
				t.Error("acknowledged in a directory that is elsewhere:", err)
			}
		})
	}
}
