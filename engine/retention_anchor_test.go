package engine_test

import (
	"testing"
	"testing/synctest"

	"felix.local/felix/engine"
)

// Retention beside a background roll whose header is not on the device yet: the
// last segment with a durable header stays, or a power loss could leave nothing
// that says at which offset the log stands.
func TestRetentionKeepsASegmentWithADurableHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFlushRig(t, engine.FsyncNone, true, func(c *engine.Config) { c.RetentionBytes = 1 })
		if err := r.putUntil(func() bool { return r.store.Stats().RollsBackground == 1 }); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the former segment is sealed
		if r.log.UnsyncedBytes() == 0 {
			t.Fatal("the roll left nothing unsynced")
		}
		if _, err := r.log.EnforceRetention(r.ctx); err != nil {
			t.Fatal(err)
		}
		if n := len(r.log.Segments()); n != 2 {
			t.Fatalf("%d segments, want the active one and one with a durable header", n)
		}
		if err := r.log.Sync(r.ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := r.log.EnforceRetention(r.ctx); err != nil {
			t.Fatal(err)
		}
		if n := len(r.log.Segments()); n != 1 {
			t.Fatalf("%d segments after a flush, want the active one", n)
		}
	})
}
