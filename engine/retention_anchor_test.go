package engine_test

import (
	"testing"

	"felix.local/felix/engine"
)

// Retention beside a background roll whose header is not on the device yet: the
// last segment with a durable header stays, or a power loss could leave nothing
// that says at which offset the log stands.
func TestRetentionKeepsASegmentWithADurableHeader(t *testing.T) {
	r := newOrderRig(t, engine.FsyncNone, true)
	r.until(func() bool { return len(r.log.Segments()) == 2 && r.store.Stats().RollsBackground == 1 })
	r.quiet()
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
}
