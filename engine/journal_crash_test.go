package engine_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
)

// journalWorld is a store on a simulated disk whose logs are appended to at once.
type journalWorld struct {
	*simRig
	logs []*engine.Log
	// acked is, per log, how many records were acknowledged.
	acked []atomic.Uint64
	seed  uint64
}

const journalWorldBytes = 1500

func newJournalWorld(t testing.TB, seed uint64, change ...func(*engine.Config)) *journalWorld {
	w := &journalWorld{seed: seed, acked: make([]atomic.Uint64, 4)}
	w.simRig = newSimRig(t, append([]func(*engine.Config){journaled, func(c *engine.Config) {
		c.JournalBytes, c.SegmentBytes = engine.JournalBytesMin, 60_000
	}}, change...)...)
	w.logs = w.openShards(len(w.acked))
	return w
}

// append runs one publisher per log.
func (w *journalWorld) append(each int) {
	w.Helper()
	var all sync.WaitGroup
	for i, l := range w.logs {
		all.Go(func() {
			for range each {
				if err := appendEach(w.ctx, l, 1, journalWorldBytes); err != nil {
					w.Error(err)
					return
				}
				w.acked[i].Add(1)
			}
		})
	}
	all.Wait()
}

// watch looks at what a power loss before every so many changes leaves. stop waits for
// a look that is under way, and says how many there were.
func (w *journalWorld) watch(every uint64, look func(image *rig, acked []uint64)) (stop func() (images int)) {
	var mu sync.Mutex
	stopped, images, changes := false, 0, uint64(0)
	w.disk.BeforeChange(func(simdisk.Change) {
		mu.Lock()
		defer mu.Unlock()
		if changes++; stopped || changes%every != 0 {
			return
		}
		acked := make([]uint64, len(w.acked))
		for i := range acked {
			acked[i] = w.acked[i].Load()
		}
		image := w.disk.Crash(simdisk.CrashOptions{Seed: w.seed<<32 + changes})
		images++
		cfg := w.cfg
		opened := simRigOn(w.TB, image, func(c *engine.Config) { *c = cfg })
		look(opened, acked)
		opened.close()
	})
	return func() int {
		w.disk.BeforeChange(nil)
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		return images
	}
}

// holds checks that a log has every acknowledged record, and no other than was
// appended.
func (r *rig) holds(l *engine.Log, acked uint64) {
	r.Helper()
	if tail := l.TailOffset(); tail < acked {
		r.Errorf("%s: %d records were acknowledged, %d are there", l.Label(), acked, tail)
	}
	r.wantHeld(l, l.TailOffset(), journalWorldBytes)
}

func TestAPowerLossBesideTheJournalTakesNothingAcknowledged(t *testing.T) {
	for _, background := range []int{100, 50} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("rolls at %d, seed %d", background, seed), func(t *testing.T) {
				w := newJournalWorld(t, seed, func(c *engine.Config) { c.RolloverThresholdPercent = background })
				replayed := uint64(0)
				stop := w.watch(13, func(image *rig, acked []uint64) {
					replayed += image.store.Stats().JournalReplayed
					for i, l := range image.openShards(len(acked)) {
						image.holds(l, acked[i])
						if err := appendEach(image.ctx, l, 1, journalWorldBytes); err != nil {
							t.Error(err)
						}
					}
				})
				w.append(120)
				images := stop()
				stats := w.store.Stats()
				if images < 20 || replayed == 0 || stats.JournalBytes < 2*engine.JournalBytesMin {
					t.Errorf("%d images, %d entries replayed, %d bytes of frames", images, replayed, stats.JournalBytes)
				}
				t.Logf("%d images, %d entries replayed, %d frames, %d checkpoints", images, replayed, stats.JournalFrames, stats.JournalCheckpoints)
			})
		}
	}
}
