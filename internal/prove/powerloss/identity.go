package powerloss

import (
	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
)

// identities crashes a store in front of changes of its starts and of its stops, by
// a power loss and by the death of the process, with few appends between them. With
// every second seed the store is an on_commit one whose log acknowledges as the
// workload's mode says.
//
// What vouches for acknowledged records is checked of every image of every kind of
// workload; here most images are of the moments at which that changes.
func (w *workload) identities() error {
	if mode := w.mode; w.seed%2 == 1 {
		w.liveMode = &mode
		w.liveConfig = func(fs device.FS, queue device.Queue) engine.Config {
			c := w.config(fs, queue)
			c.FsyncMode = engine.FsyncOnCommit
			return c
		}
	}
	w.hot = func(_ simdisk.Change, seed uint64) bool { return w.resting && seed%w.hotEach < 3 }
	w.killed, w.recoverEach = true, identityRecoverEach
	w.checkpoints = max(1, w.checkpoints/4)
	return w.lives(w.checkpoints, nil)
}

// identityRecoverEach has more starts of images cut short than other workloads.
const identityRecoverEach = 10
