package powerloss_test

import (
	"errors"
	"io"
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix.local/felix/engine"
	"felix.local/felix/internal/prove/bubble"
	"felix.local/felix/internal/prove/powerloss"
)

// options are those of a test with so many seeds a row. FELIX_POWER_LOSS_SEED
// replays one seed, FELIX_POWER_LOSS_SEEDS sets how many are run, and
// FELIX_POWER_LOSS_END=1 ends with the first workload that fails.
func options(t *testing.T, seeds int, kinds ...powerloss.Kind) powerloss.Options {
	t.Helper()
	o := powerloss.Options{Seeds: seeds, Kinds: kinds, Bubble: bubble.In(t), EndAtFailure: os.Getenv("FELIX_POWER_LOSS_END") == "1"}
	if text := os.Getenv("FELIX_POWER_LOSS_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			t.Fatal("FELIX_POWER_LOSS_SEED:", err)
		}
		o.Seeds, o.FirstSeed = 1, seed
	} else if chosen := chosenSeeds(t); chosen != 0 {
		o.Seeds = chosen
	} else if testing.Short() {
		o.Seeds = 1
	}
	return o
}

// chosenSeeds is 0 when the environment chooses none.
func chosenSeeds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("FELIX_POWER_LOSS_SEEDS")
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("FELIX_POWER_LOSS_SEEDS=%q is no count", text)
	}
	return n
}

// run runs workloads, of which none may fail.
func run(t *testing.T, o powerloss.Options) powerloss.Result {
	t.Helper()
	r, err := powerloss.Run(t.Output(), o)
	if errors.Is(err, powerloss.ErrNoRing) || errors.Is(err, engine.ErrNoJournal) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if r.Failed != 0 || r.Lost != 0 || r.Refused != 0 {
		t.Fatalf("%d of %d workloads failed", r.Failed, r.Workloads)
	}
	for _, row := range r.Rows {
		if row.Journal {
			taken(t, map[string]uint64{"entries of the journal": row.Entries, "entries replayed": row.Replayed})
		} else if row.Entries > 0 {
			t.Errorf("%d entries in a journal where there should be none", row.Entries)
		}
	}
	taken(t, map[string]int{"openings cut short": r.RecoveriesCut, "power cut again": r.CutAgain, "appended and reopened": r.Extended})
	return r
}

// taken fails the test for each path that was not taken in any workload. A seed
// that is replayed need not take them all.
func taken[N int | uint64](t *testing.T, paths map[string]N) {
	t.Helper()
	if os.Getenv("FELIX_POWER_LOSS_SEED") != "" {
		return
	}
	for path, count := range paths {
		if count == 0 {
			t.Errorf("%s: none", path)
		}
	}
}

func TestAPowerLossTakesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	r := run(t, options(t, 8, powerloss.Appends))
	for _, row := range r.Rows {
		taken(t, map[string]int{"images midway": row.Midway, "process deaths": row.Deaths, "whole images": row.Whole})
		taken(t, map[string]uint64{"rolls": row.Rolls})
		if row.Roll == "background" {
			taken(t, map[string]uint64{"rolls in the background": row.RollsBackground})
		} else if row.RollsBackground != 0 {
			t.Errorf("%d rolls in the background where there should be none", row.RollsBackground)
		}
	}
}

func TestAFailedSyncLosesNothingAcknowledgedOrServed(t *testing.T) {
	t.Parallel()
	r := run(t, options(t, 2, powerloss.FailedSync))
	for _, row := range r.Rows {
		taken(t, map[string]int{"poisoned": row.Poisoned, "short images": row.Short, "process deaths": row.Deaths, "repairs": row.Repaired})
	}
}

func TestAPowerLossDuringTruncationLeavesAPrefix(t *testing.T) {
	t.Parallel()
	r := run(t, options(t, 4, powerloss.Truncation))
	for _, row := range r.Rows {
		taken(t, map[string]int{"truncations": row.Truncated, "images midway": row.Midway, "short images": row.Short})
	}
}

func TestAPowerLossDuringRecoveryTakesNothing(t *testing.T) {
	t.Parallel()
	r := run(t, options(t, 1, powerloss.RecoveryCut))
	for _, row := range r.Rows {
		taken(t, map[string]int{"openings cut short": row.RecoveriesCut})
	}
}

func TestAPowerLossBesideRetentionTakesNothingItKept(t *testing.T) {
	t.Parallel()
	r := run(t, options(t, 2, powerloss.Retention))
	for _, row := range r.Rows {
		taken(t, map[string]int{"images that begin later": row.Later, "short images": row.Short, "reopened": row.Reopened})
		taken(t, map[string]uint64{"segments deleted": row.Retained})
	}
}

func TestALogThatWasCutAndReopenedGoesOnThroughPowerLosses(t *testing.T) {
	t.Parallel()
	r := run(t, options(t, 3, powerloss.Reopening))
	for _, row := range r.Rows {
		taken(t, map[string]int{"truncations": row.Truncated, "reopened": row.Reopened, "images midway": row.Midway})
	}
	taken(t, map[string]int{"bases moved back": r.BasesMovedBack, "images that begin later": r.Later})
	taken(t, map[string]uint64{"segments deleted": r.Retained})
}

// The id stays as long as nothing that was acknowledged can be missing, and no longer.
func TestAStorageIDThatOutlivesAPowerLossVouchesForWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	r := run(t, options(t, 4, powerloss.Identity))
	for _, row := range r.Rows {
		taken(t, map[string]int{"reopened": row.Reopened, "images midway": row.Midway, "process deaths": row.Deaths, "ids kept": row.IDsKept})
		if ahead := row.Mode != "on_commit"; ahead != (row.IDsMade > 0) {
			t.Errorf("%s: %d ids made", row.Mode, row.IDsMade)
		}
	}
}

func TestADeletedStreamStaysDeletedAndItsSuccessorKeepsItsRecords(t *testing.T) {
	t.Parallel()
	r := run(t, options(t, 2, powerloss.Deletion))
	for _, row := range r.Rows {
		taken(t, map[string]int{"deletions": row.Deleted, "images midway": row.Midway, "process deaths": row.Deaths})
	}
}

func TestAPowerLossTakesNoPromiseOfAReplica(t *testing.T) {
	t.Parallel()
	r := run(t, options(t, 2, powerloss.Replica))
	for _, row := range r.Rows {
		taken(t, map[string]int{"leaders accepted": row.Accepted, "records shipped": row.Shipped, "images midway": row.Midway, "process deaths": row.Deaths})
	}
}

func TestAPowerLossInAResetOrARestoreLeavesTheOldBeginningOrTheNew(t *testing.T) {
	t.Parallel()
	r := run(t, options(t, 2, powerloss.Resets))
	for _, row := range r.Rows {
		taken(t, map[string]int{"resets": row.Reset, "restores": row.Restored, "images midway": row.Midway, "process deaths": row.Deaths})
	}
	taken(t, map[string]int{"truncations": r.Truncated})
}

func TestAPowerLossTakesNothingFromManyPublishersAndReaders(t *testing.T) {
	t.Parallel()
	r := run(t, options(t, 1, powerloss.Publishers))
	for _, row := range r.Rows {
		taken(t, map[string]int{"images midway": row.Midway, "read": row.Read, "process deaths": row.Deaths})
		taken(t, map[string]uint64{"rolls": row.Rolls})
	}
}

// The journal goes round in its files several times, and what one shard does with its
// records leaves those of the others alone.
func TestAPowerLossTakesNothingFromShardsThatShareAJournal(t *testing.T) {
	t.Parallel()
	r := run(t, options(t, 3, powerloss.Sharing))
	for _, row := range r.Rows {
		taken(t, map[string]int{
			"images midway": row.Midway, "process deaths": row.Deaths, "truncations": row.Truncated, "trims": row.Trimmed,
			"whole images": row.Whole, "short images": row.Short,
		})
		taken(t, map[string]uint64{"rolls": row.Rolls, "checkpoints": row.Checkpoints, "segments deleted": row.Retained})
	}
	taken(t, map[string]int{"resets": r.Reset, "deletions": r.Deleted, "leaders accepted": r.Accepted})
}

// TestAPowerLossOnRealFilesTakesNothingAcknowledged runs the same workloads on the
// filesystem of the temporary directory, with fewer images, since each takes real
// flushes to open.
func TestAPowerLossOnRealFilesTakesNothingAcknowledged(t *testing.T) {
	for _, host := range []powerloss.Host{powerloss.Pool, powerloss.Ring} {
		t.Run(string(host), func(t *testing.T) {
			t.Parallel()
			o := options(t, 1, powerloss.Appends)
			o.Host, o.Dir = host, t.TempDir()
			if chosenSeeds(t) == 0 {
				o.Only = "in any order" // which includes those in order
			}
			r := run(t, o)
			for _, row := range r.Rows {
				taken(t, map[string]int{"process deaths": row.Deaths, "whole images": row.Whole})
				taken(t, map[string]uint64{"rolls": row.Rolls})
			}
			if left, err := os.ReadDir(o.Dir); err != nil || len(left) != 0 {
				t.Errorf("%d directories stay behind, %v", len(left), err)
			}
		})
	}
}

// The journal on real files, written past the page cache. The shards that share it
// are appended to side by side here, so that a frame has the batches of several.
func TestAPowerLossOnRealFilesTakesNothingThatAJournalHolds(t *testing.T) {
	for _, host := range []powerloss.Host{powerloss.Pool, powerloss.Ring} {
		t.Run(string(host), func(t *testing.T) {
			t.Parallel()
			o := options(t, 1, powerloss.Sharing, powerloss.Appends, powerloss.Deletion, powerloss.Publishers)
			o.Host, o.Dir, o.Only = host, t.TempDir(), "by a journal, background rolls"
			r := run(t, o)
			for _, row := range r.Rows {
				if row.Kind == powerloss.Sharing && row.Frames >= row.Entries {
					t.Errorf("%s rolls: %d entries in %d frames: none was shared", row.Roll, row.Entries, row.Frames)
				}
			}
			taken(t, map[string]int{
				"images midway": r.Midway, "process deaths": r.Deaths, "whole images": r.Whole, "short images": r.Short,
				"truncations": r.Truncated, "deletions": r.Deleted,
			})
			taken(t, map[string]uint64{"checkpoints": r.Checkpoints, "rolls": r.Rolls})
			if left, err := os.ReadDir(o.Dir); err != nil || len(left) != 0 {
				t.Errorf("%d directories stay behind, %v", len(left), err)
			}
		})
	}
}

// The other workloads on real files, one way each.
func TestEveryKindOfWorkloadLosesNothingOnRealFiles(t *testing.T) {
	for _, host := range []powerloss.Host{powerloss.Pool, powerloss.Ring} {
		t.Run(string(host), func(t *testing.T) {
			t.Parallel()
			o := options(t, 1, powerloss.Truncation, powerloss.Retention, powerloss.Reopening, powerloss.Publishers,
				powerloss.Identity, powerloss.Deletion, powerloss.Replica, powerloss.Resets)
			o.Host, o.Dir = host, t.TempDir()
			if chosenSeeds(t) == 0 {
				o.Only = "on_commit, background rolls, pages in any order"
			}
			r := run(t, o)
			taken(t, map[string]int{
				"truncations": r.Truncated, "reopened": r.Reopened, "read": r.Read, "images midway": r.Midway,
				"deletions": r.Deleted, "leaders accepted": r.Accepted, "resets": r.Reset, "restores": r.Restored,
			})
			taken(t, map[string]uint64{"segments deleted": r.Retained, "rolls in the background": r.RollsBackground})
		})
	}
}

// What goroutines do at the same moment of a bubble's clock is in no order that a
// seed decides, so the images may differ in a few places, and what was done not.
// With rolls in the background how many there are, and which append a failed sync
// ends, is left to chance as well.
func TestASeedReplaysAWorkload(t *testing.T) {
	t.Parallel()
	for _, roll := range []string{"inline", "background"} {
		t.Run(roll, func(t *testing.T) { replays(t, roll) })
	}
}

func replays(t *testing.T, roll string) {
	o := powerloss.Options{
		FirstSeed: 0xabcdef, Images: 1, Bubble: bubble.In(t), Only: "none, " + roll + " rolls, pages in any order",
		Kinds: []powerloss.Kind{powerloss.Appends, powerloss.FailedSync, powerloss.Truncation, powerloss.Retention, powerloss.Reopening},
	}
	done := func() []powerloss.Counts {
		var list []powerloss.Counts
		for _, row := range run(t, o).Rows {
			c := row.Counts
			one := powerloss.Counts{
				Workloads: c.Workloads, Acked: c.Acked, Deaths: c.Deaths, Reopened: c.Reopened,
				Truncated: c.Truncated, BasesMovedBack: c.BasesMovedBack,
			}
			switch {
			case roll == "inline":
				one.Poisoned, one.Rolls, one.Retained = c.Poisoned, c.Rolls, c.Retained
			case row.Kind == powerloss.FailedSync:
				one.Acked = 0
			}
			list = append(list, one)
		}
		return list
	}
	first := done()
	if diff := cmp.Diff(first, done()); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
	o.FirstSeed++
	if cmp.Equal(first, done()) {
		t.Error("another seed does the same")
	}
}

func TestWhatCannotBeRunIsAnError(t *testing.T) {
	for name, o := range map[string]powerloss.Options{
		"no bubbles":         {},
		"no directory":       {Host: powerloss.Pool},
		"no such directory":  {Host: powerloss.Pool, Dir: "/does/not/exist"},
		"no such host":       {Host: "cloud"},
		"no such kind":       {Kinds: []powerloss.Kind{"magic"}, Bubble: bubble.In(t)},
		"no fault of a file": {Host: powerloss.Pool, Dir: t.TempDir(), Kinds: []powerloss.Kind{powerloss.FailedSync}},
		"no such row":        {Only: "of gold", Bubble: bubble.In(t)},
		"a count below zero": {Seeds: -1, Bubble: bubble.In(t)},
	} {
		if r, err := powerloss.Run(io.Discard, o); err == nil || r.Images != 0 {
			t.Errorf("%s: %d images and no error", name, r.Images)
		}
	}
}
