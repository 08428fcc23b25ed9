package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/recovery"
)

// Making marks durable costs the device what commits need, so that a store with
// thousands of busy logs does it a part at a time, and each log once.
func TestATickMakesABoundedNumberOfMarksDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const logs, bound = 7, 3
		r := newFlushRig(t, engine.FsyncOnCommit, false, func(c *engine.Config) { c.MarkSyncInterval = time.Millisecond })
		all := []*engine.Log{r.log}
		for i := range logs - 1 {
			l, err := r.store.OpenLog(r.ctx, testKey(i+1))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, l)
		}
		r.disk.ClearLog()
		synced := func() map[string]int {
			n := make(map[string]int)
			for _, e := range r.disk.Log(faultdisk.WriteDsync) {
				if e.Name == recovery.MarkName {
					n[e.Path]++
				}
			}
			return n
		}
		tick := r.store.MarkTick(bound)
		for range 2 { // rounds
			for _, l := range all {
				putOne(t, l)
			}
			time.Sleep(time.Millisecond) // the store's own timer needs far longer
			for _, want := range []int{bound, 2 * bound, logs, logs} {
				tick()
				if got := len(synced()); got != want {
					t.Errorf("%d marks are durable, want %d", got, want)
				}
			}
			for path, n := range synced() {
				if n != 1 {
					t.Errorf("%s was made durable %d times", path, n)
				}
			}
			r.disk.ClearLog()
		}
	})
}
