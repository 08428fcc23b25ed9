package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/journal"
	"felix.local/felix/recovery"
)

// journaled has the store of a rig share one commit journal of the smallest size, so
// that its files are reused all the time.
func journaled(c *engine.Config) {
	c.Journal, c.JournalBytes = engine.JournalRequire, engine.JournalBytesMin
	c.SegmentBytes = 100_000
}

// roomy has a journal with room for all that a test appends, which no checkpoint is
// asked for.
func roomy(c *engine.Config) { c.JournalBytes = 4 << 20 }

// newJournaledRig skips where there can be no journal.
func newJournaledRig(t *testing.T, change ...func(*engine.Config)) *backupRig {
	t.Helper()
	probe := engine.DefaultConfig()
	probe.MinFreeBytes, probe.MinFreeInodes, probe.IOURing = 0, 0, engine.IOURingOff
	journaled(&probe)
	base, err := os.MkdirTemp("/dev/shm", "felix-backup-")
	if err != nil {
		base = t.TempDir()
	}
	defer os.RemoveAll(base)
	store, err := engine.OpenStore(t.Context(), base, probe)
	if errors.Is(err, engine.ErrNoJournal) {
		t.Skip("no commit journal can be had here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return newBackupRig(t, append([]func(*engine.Config){journaled}, change...)...)
}

// pending is how many bytes a root's journal holds that segments lack.
func (r *backupRig) pending(root string) int64 {
	r.Helper()
	plan, err := recovery.InspectJournal((&copier{}).fs(), root, recovery.Policy{IndexSpacingBytes: r.cfg.IndexSpacingBytes})
	if err != nil || plan != nil && plan.Refused() {
		r.Fatal(plan, err)
	}
	if plan == nil {
		return 0
	}
	return plan.BytesMissing()
}

// plain says that a copy needs no replay.
func (r *backupRig) plain(root string) {
	r.Helper()
	if _, err := os.Lstat(filepath.Join(root, journal.DirName)); !errors.Is(err, os.ErrNotExist) {
		r.Errorf("the copy has a journal: %v", err)
	}
}

// What was acknowledged a moment ago is in the journal alone, and in the copy.
func TestACopyHasWhatOnlyTheJournalHolds(t *testing.T) {
	r := newJournaledRig(t, roomy)
	for shard := range 3 {
		r.append(r.open(shard), 20+shard)
	}
	if r.pending(r.root) == 0 {
		t.Fatal("the segments have everything already")
	}
	c := r.copier()
	if err := c.copyRoot(); err != nil {
		t.Fatal(err)
	}
	r.plain(c.to)
	files, bytes := below(t, filepath.Join(c.to, backupKey(0).DirName()))
	if files == 0 || bytes == 0 || c.shards != 3 {
		t.Error(files, bytes, c.shards)
	}
	for shard := range 3 {
		r.check(c.to, shard, 0, uint64(20+shard))
	}
}

// A directory that a killed server left is copied as what its next start makes of it.
func TestACopyOfAJournalThatWasNotReplayedIsWhole(t *testing.T) {
	r := newJournaledRig(t, roomy)
	r.append(r.open(0), 50)
	killed := copyOf(t, r.root)
	if r.pending(killed) == 0 {
		t.Fatal("the segments have everything already")
	}
	c := r.copier()
	c.from = killed
	if err := c.copyRoot(); err != nil {
		t.Fatal(err)
	}
	r.plain(c.to)
	r.check(c.to, 0, 0, 50)
	if r.pending(killed) == 0 {
		t.Error("the original was changed")
	}
}

// The journal is written over, all of it, behind each segment that is copied. What the
// segment lacked then was found before.
func TestACopyBesideAJournalThatIsReusedHasWhatTheSegmentsLacked(t *testing.T) {
	r := newJournaledRig(t)
	l := r.open(0)
	r.append(l, 45)
	tail := l.TailOffset()
	c := r.copier()
	c.copied = func(name string) {
		if filepath.Ext(name) != ".log" {
			return
		}
		for before := r.store.Stats().JournalBytes; r.store.Stats().JournalBytes < before+2*engine.JournalBytesMin; {
			r.append(l, 1)
		}
	}
	if err := c.copyRoot(); err != nil {
		t.Fatal(err)
	}
	r.plain(c.to)
	r.check(c.to, 0, 0, tail)
}

// Retention may take a segment between the view and the copy of the segments.
func TestACopyOfAJournaledLogThatForgetsMeanwhileHasNoGap(t *testing.T) {
	r := newJournaledRig(t, roomy, func(c *engine.Config) { c.SegmentBytes = 2_000 })
	l := r.open(0)
	r.append(l, 60)
	c := r.copier()
	shard := backupKey(0).DirName()
	defer c.dropView()
	aside, err := c.setAside(shard)
	if err != nil || aside == nil {
		t.Fatal(aside, err)
	}
	segments := l.Segments()
	if _, err := l.TrimBefore(r.ctx, segments[len(segments)-1].BaseOffset); err != nil {
		t.Fatal(err)
	}
	if err := c.makeDirs(shard); err != nil {
		t.Fatal(err)
	}
	var e copiedEvent
	if err := c.copySmall(shard, &e); err != nil {
		t.Fatal(err)
	}
	if _, err := c.copySegments(shard, &e); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.bringOver(aside, &e), aside.remove()); err != nil {
		t.Fatal(err)
	}
	if l.BaseOffset() == 0 {
		t.Fatal("nothing was forgotten")
	}
	r.check(c.to, 0, l.BaseOffset(), 60)
}

// What happens between any two files of a copy, or before its first, is no reason for
// records that were cut to come back, nor for any to be missing.
func TestACopyOfAJournaledLogThatIsCutBackMeanwhileIsOfOneHistory(t *testing.T) {
	again := 0
	for at := range 10 {
		for _, more := range []int{0, 1, 30} {
			r := newJournaledRig(t)
			l := r.open(0)
			r.append(l, 60)
			c := r.copier()
			copies := 0
			cut := atFile(at, func() {
				if err := l.Truncate(r.ctx, 20); err != nil {
					t.Error(err)
				}
				for range more {
					if _, err := l.Append(r.ctx, engine.Record{Payload: backupPayload(l.TailOffset())}); err != nil {
						t.Error(err)
					}
				}
			})
			c.copied = func(name string) { copies++; cut(name) }
			if err := c.copyRoot(); err != nil {
				t.Fatal(err)
			}
			r.check(c.to, 0, 0, 20)
			if copies > 4 {
				again++
			}
		}
	}
	if again == 0 {
		t.Error("no copy had to be made again")
	}
}

// A view is from before the segments are copied, and a log may be cut in between.
func TestRecordsThatAreCutBehindTheViewDoNotComeBack(t *testing.T) {
	for name, c := range map[string]struct {
		cut  uint64
		more int
	}{"and nothing follows": {20, 0}, "and others follow": {20, 30}, "and few follow": {20, 2}} {
		t.Run(name, func(t *testing.T) {
			r := newJournaledRig(t, roomy)
			l := r.open(0)
			r.append(l, 60)
			copier := r.copier()
			shard := backupKey(0).DirName()
			defer copier.dropView()
			aside, err := copier.setAside(shard)
			if err != nil || aside == nil {
				t.Fatal(aside, err)
			}
			if err := l.Truncate(r.ctx, c.cut); err != nil {
				t.Fatal(err)
			}
			r.append(l, c.more)
			if err := copier.makeDirs(shard); err != nil {
				t.Fatal(err)
			}
			var e copiedEvent
			if _, err := copier.copySegments(shard, &e); err != nil {
				t.Fatal(err)
			}
			if err := copier.bringOver(aside, &e); !errors.Is(err, errMoved) {
				t.Errorf("want that it moved: %v", err)
			}
		})
	}
}

// A view is used again while nothing is written, and not a moment longer.
func TestAViewOfTheJournalIsKeptUntilAFrameIsWritten(t *testing.T) {
	r := newJournaledRig(t)
	l := r.open(0)
	c := r.copier()
	defer c.dropView()
	var before *journalView
	kept := 0
	for i := range 200 {
		frames := r.store.Stats().JournalFrames
		r.append(l, 1)
		framed := r.store.Stats().JournalFrames > frames // or no file of the journal was free
		v, err := c.journalOf(backupKey(0).DirName())
		if err != nil {
			t.Fatal(err)
		}
		if v == nil {
			continue
		}
		if v == before && framed {
			t.Fatalf("append %d did not show", i)
		}
		again, err := c.journalOf(backupKey(0).DirName())
		if err != nil {
			t.Fatal(err)
		}
		if again == v {
			kept++
		}
		before = again
	}
	if kept < 150 {
		t.Errorf("kept %d times of 200", kept)
	}
}

// A journal that must not be replayed leaves nothing to copy, and says why.
func TestACopyOfAJournalThatIsNotWholeIsRefused(t *testing.T) {
	for name, harm := range map[string]func(dir string) error{
		"a rotten frame": func(dir string) error {
			path := filepath.Join(dir, journal.FileName(0))
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b[2*journal.BlockBytes+60] ^= 1
			return os.WriteFile(path, b, 0o640)
		},
		"no name of the epoch": func(dir string) error { return os.Remove(filepath.Join(dir, journal.CurrentName)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newJournaledRig(t, roomy)
			r.append(r.open(0), 50)
			killed := copyOf(t, r.root)
			if err := harm(filepath.Join(killed, journal.DirName)); err != nil {
				t.Fatal(err)
			}
			c := r.copier()
			c.from = killed
			if err := c.copyRoot(); exitCode(err) != exitRefused {
				t.Error(err)
			}
		})
	}
}

// A store with a journal that is written to, trimmed, cut back, and loses and gets
// shards all the time: every copy opens, needs no replay, and holds what was
// acknowledged before it began.
func TestCopiesOfALiveStoreWithAJournalAreBeginningsOfIt(t *testing.T) {
	rounds, shards := 25, 6
	if testing.Short() {
		rounds = 8
	}
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	r := newJournaledRig(t, func(c *engine.Config) { c.SegmentBytes = 20_000 })
	var stop atomic.Bool
	var given atomic.Int64 // how often records were given up
	var wait sync.WaitGroup
	var looking sync.RWMutex // held while a copy is looked at: nothing needs to grow then
	// Shards 0 to 3 are trimmed, 4 is cut back, 5 is deleted and made again.
	logs := make([]*engine.Log, shards)
	floor := make([]atomic.Uint64, shards) // what was acknowledged and is not about to go
	for i := range logs {
		logs[i] = r.open(i)
	}
	for i := range logs {
		wait.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			for l := logs[i]; !stop.Load(); {
				looking.RLock()
				err := r.disturb(l, i, random, &floor[i], &given)
				looking.RUnlock()
				if err != nil {
					t.Error(err)
					return
				}
				if i == shards-1 && random.IntN(40) == 0 {
					// A journal of this size may have no room for a fence; then nothing is deleted.
					if r.store.DeleteLog(r.ctx, backupKey(i)) == nil {
						given.Add(1)
					}
					var err error
					if l, err = r.store.OpenLog(r.ctx, backupKey(i)); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	lacked := 0
	for range rounds {
		tails := make([]uint64, shards)
		for i := range logs {
			tails[i] = floor[i].Load()
		}
		tails[4], tails[5] = 0, 0 // they may be cut and deleted any time
		c := r.copier()
		if err := c.copyRoot(); err != nil {
			t.Fatal(err)
		}
		looking.Lock()
		r.plain(c.to)
		for i := range logs {
			if i == shards-1 { // it may be gone, or just be made
				r.checkRecords(c.to, i, ^uint64(0), 0)
				continue
			}
			r.check(c.to, i, ^uint64(0), tails[i])
		}
		if r.store.Stats().JournalLagBytes > 0 {
			lacked++
		}
		looking.Unlock()
		if err := os.RemoveAll(c.to); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	wait.Wait()
	if frames := r.store.Stats().JournalBytes; lacked == 0 || given.Load() == 0 || frames < 2*engine.JournalBytesMin {
		t.Errorf("segments lacked something %d times, records were given up %d times, %d bytes of frames", lacked, given.Load(), frames)
	}
}

// heldMax bounds what a log holds that cannot be trimmed for want of a fence, so that
// copies of it do not take ever longer.
const heldMax = 3000

// disturb appends to a log and takes some of it away. Where a journal of the smallest
// size has no room for a fence, nothing is taken.
func (r *backupRig) disturb(l *engine.Log, shard int, random *rand.Rand, floor *atomic.Uint64, given *atomic.Int64) error {
	tail := l.TailOffset()
	if tail-l.BaseOffset() < heldMax {
		records := make([]engine.Record, 1+random.IntN(5))
		for k := range records {
			records[k].Payload = backupPayload(tail + uint64(k))
		}
		if _, err := l.Append(r.ctx, records...); err != nil {
			return fmt.Errorf("append: %w", err)
		}
		floor.Store(l.TailOffset())
	}
	taken := errors.ErrUnsupported
	switch {
	case shard == 4 && random.IntN(30) == 0:
		taken = l.Truncate(r.ctx, max(l.BaseOffset(), tail-min(tail, uint64(random.IntN(100)))))
	case tail > 300 && random.IntN(10) == 0:
		_, taken = l.TrimBefore(r.ctx, tail-300)
	}
	if taken == nil {
		given.Add(1)
	}
	return nil
}
