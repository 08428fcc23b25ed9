package powerloss

import (
	"context"
	"strings"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
)

// segmentsRetained is about how many segments retention by size leaves.
const segmentsRetained = 3

// retention crashes a log whose oldest segments go all the time, by the timer and
// when asked, by size or, with every third seed, by age. An image is taken in
// front of each removal of a segment, and of every other step of a directory's
// flush.
func (w *workload) retention() error {
	w.liveConfig = func(fs device.FS, queue device.Queue) engine.Config {
		c := w.config(fs, queue)
		c.RetentionInterval = retentionInterval
		if w.seed%3 == 0 {
			c.RetentionAge = 10 * w.pauseMax
		} else {
			c.RetentionBytes = segmentsRetained * segmentBytes
		}
		return c
	}
	w.hot = func(c simdisk.Change, seed uint64) bool {
		return c.What == "remove" && strings.HasSuffix(c.Path, ".log") || c.Kind == device.FlushAll && seed%2 == 0
	}
	return w.lives(2, func() error {
		if w.rand.Below(4) != 0 {
			return nil
		}
		return w.retain()
	})
}

// retain makes a pass of retention now. Once it returned, what it removed is gone.
func (w *workload) retain() error {
	t := w.shards[0]
	done, err := t.log.EnforceRetention(context.Background())
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.baseDurable = done.BaseOffset
	return nil
}

// lives appends in so many lives of the store, closed and opened again between
// two, with something between an append and the next.
func (w *workload) lives(count int, between func() error) error {
	for n := range count {
		if n > 0 {
			w.sum.Reopened++
		}
		w.aim(1, 4*appendsPerCheck)
		if err := w.live(func() error { return w.appendAndCheck((w.checkpoints+count-1)/count, between) }); err != nil {
			return err
		}
	}
	return w.judge(w.takeMidway())
}
