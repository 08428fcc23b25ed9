package engine_test

import (
	"testing"
	"testing/synctest"

	"felix.local/felix/engine"
)

// Whoever runs short of descriptors has logs flushed, and those that lag behind the
// commit journal brought up to it: without a journal none does, and no pass is counted.
func TestMakingRoomForADescriptorWithoutAJournalCountsNoCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const descriptors = 8 // half of them; the other half is for sealed segments
		r := newFlushRig(t, engine.FsyncNone, false, func(c *engine.Config) {
			c.OpenFilesMax, c.Journal = 2*descriptors, engine.JournalOff
		})
		putOne(t, r.log)
		for i := range descriptors {
			l, err := r.store.OpenLog(r.ctx, testKey(i+1))
			if err != nil {
				t.Fatal(err)
			}
			putOne(t, l)
		}
		synctest.Wait()
		stats := r.store.Stats()
		if stats.OpenWriters > descriptors || stats.Syncs == 0 {
			t.Fatalf("%d descriptors after %d flushes: no room was made", stats.OpenWriters, stats.Syncs)
		}
		if stats.JournalCheckpoints != 0 {
			t.Errorf("%d passes are counted", stats.JournalCheckpoints)
		}
	})
}
