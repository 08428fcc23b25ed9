package powerloss

import (
	"context"
	"math"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
)

// reopening crashes a log that is closed and opened, truncated, sealed and trimmed
// between appends. Half of the logs begin later than at 0. A truncation now and
// then goes below the base, which moves the base back. Images are taken in front
// of some changes of each truncation; what it cut never comes back once it
// returned.
func (w *workload) reopening() error {
	if w.seed%2 == 0 {
		w.begin(1, 1+w.rand.Below(1000))
	}
	w.liveConfig = func(fs device.FS, queue device.Queue) engine.Config {
		c := w.config(fs, queue)
		// Retention removes when asked, so that it is known when a base is final.
		c.RetentionBytes, c.RetentionInterval = segmentBytes*3/2, math.MaxInt64
		return c
	}
	w.hot = func(_ simdisk.Change, seed uint64) bool { return w.shards[0].cut != nil && seed%4 == 0 }
	return w.lives(4, w.disturb)
}

// disturb does something to the log, one time in six.
func (w *workload) disturb() error {
	t := w.shards[0]
	base, size := t.log.BaseOffset(), t.submitted-t.log.BaseOffset()
	switch w.rand.Below(36) {
	case 0, 1: // near the end: the log goes on within the segment, or the one before
		return w.truncate(t, t.submitted-w.rand.Below(min(size, 40)+1))
	case 2:
		return w.truncate(t, base+w.rand.Below(size+1))
	case 3:
		w.sum.BasesMovedBack++
		return w.truncate(t, base-min(base, w.rand.Below(100)))
	case 4:
		_, err := t.log.Seal(context.Background())
		return err
	case 5:
		return w.retain()
	}
	return nil
}
