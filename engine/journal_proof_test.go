package engine_test

import (
	"testing"

	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
)

// smallestJournal has a journal whose files are used again soon.
func smallestJournal(c *engine.Config) { c.JournalBytes = engine.JournalBytesMin }

// newSplitJournalRig is a store with a journal on a disk that writes in pieces.
func newSplitJournalRig(t testing.TB, seed uint64) *simRig {
	disk := simdisk.New()
	disk.MakeDir(simRoot)
	queue := disk.NewQueue(simdisk.QueueOptions{Mode: simdisk.Adversarial, Seed: seed, ShortPercent: 100})
	return &simRig{disk: disk, rig: newRigIn(t, simRoot, journaled, smallestJournal, func(c *engine.Config) {
		c.FS, c.Queue = disk, queue
	})}
}

// afterPowerLoss opens what a power loss now leaves.
func (r *simRig) afterPowerLoss(seed uint64) *rig {
	r.Helper()
	cfg := r.cfg
	return simRigOn(r.TB, r.disk.Crash(simdisk.CrashOptions{Seed: seed}), func(c *engine.Config) { *c = cfg })
}

// A write covers its last piece alone when it took several, and so does that of a
// frame.
func TestAFrameInSeveralPiecesIsDurableWhenItIsAcknowledged(t *testing.T) {
	r := newSplitJournalRig(t, 1)
	const each = 30
	for n := range uint64(each) {
		if err := appendEach(r.ctx, r.log, 1, journalWorldBytes); err != nil {
			t.Fatal(err)
		}
		image := r.afterPowerLoss(n)
		image.holds(image.log, n+1)
		image.close()
	}
	if entries := r.store.Stats().JournalEntries; entries < each/2 {
		t.Errorf("%d entries in the journal", entries)
	}
}
