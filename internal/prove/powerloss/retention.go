package powerloss

import (
	"context"
	"math"
	"strings"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
)

// segmentsRetained is about how many segments retention by size leaves.
const segmentsRetained = 3

// retention crashes a log whose oldest segments go all the time, by the timer and
// when asked: in one life all but some segments' worth, in one by age, and in one
// every segment that may go at all. Images are taken in front of each removal of a
// segment, of each step of the directory's flush that follows, and of the next
// change of all.
func (w *workload) retention() error {
	rule := w.seed
	w.liveConfig = func(fs device.FS, queue device.Queue) engine.Config {
		c := w.config(fs, queue)
		c.RetentionInterval = retentionInterval
		if w.journaled {
			// Two entries in one frame have the next one gather, and in a bubble no time
			// passes meanwhile: retention removes when asked.
			c.RetentionInterval = math.MaxInt64
		}
		switch rule++; rule % 3 {
		case 0:
			c.RetentionBytes = segmentsRetained * segmentBytes
		case 1:
			c.RetentionAge = 10 * w.pauseMax
		case 2:
			c.RetentionBytes = 1
		}
		return c
	}
	removed, gone := false, false
	w.hot = func(c simdisk.Change, _ uint64) bool {
		before := c.What == "remove" && strings.HasSuffix(c.Path, ".log")
		after := gone
		removed = removed || before
		gone = removed && c.Kind == device.FlushAll && c.What == "settle"
		during := removed && c.Kind == device.FlushAll
		removed = removed && !gone
		return before || during || after
	}
	return w.lives(3, func() error {
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
		if err := w.live(func(*engine.Store) error { return w.appendAndCheck((w.checkpoints+count-1)/count, between) }); err != nil {
			return err
		}
	}
	return w.judge(w.takeMidway())
}
