package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// What an open that was refused holds is given back whether or not somebody waits
// for it still.
func TestAnOpenOfOneShardThatIsRefusedAfterItsContextEndedHoldsNothing(t *testing.T) {
	dir := filepath.Join(fastDir(t), "shard")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	// Longer than a header, and zeros only: refused.
	if err := os.WriteFile(filepath.Join(dir, segment.LogName(0)), make([]byte, 33), 0o640); err != nil {
		t.Fatal(err)
	}
	w := newFaultWorld(dir, sharedPool(t), testConfig(), faultdisk.Options{})
	for range 5 {
		ctx, cancel := context.WithCancel(deadline(t))
		held := hold(t, w.disk, faultdisk.Open, isLog, 1)
		go func() {
			<-held.Reached()
			cancel()
			held.Remove()
		}()
		_, _, err := engine.OpenSingle(ctx, dir, "x", w.cfg)
		errorAs[*recovery.RefusedError](t, err)
		if n := w.fs.open.Load(); n != 0 {
			t.Fatalf("%d files are open after the open was refused (%v)", n, err)
		}
		lock, err := w.fs.Lock(dir, false)
		if err != nil {
			t.Fatalf("the directory is locked after its open was refused: %v", err)
		}
		if err := lock.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
