package powerloss

import (
	"context"
	"fmt"
	"slices"

	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
)

// truncation cuts the power in front of every change that a truncation makes. What
// is left opens, holds everything below the offset, and is a prefix of what was
// there. Once the truncation returned, nothing of what it cut is there.
func (w *workload) truncation() error {
	var images []image
	err := w.live(func(*engine.Store) error {
		for range 10 + w.rand.Below(30) {
			if err := w.append(); err != nil {
				return err
			}
		}
		w.syncs.Wait()
		t := w.shards[0]
		offset := w.rand.Below(t.submitted)
		what := fmt.Sprintf("truncating %d records to %d", t.submitted, offset)
		// Each change in two images, and two more once it is done. Other goroutines
		// of the log may change something meanwhile.
		take := func(at string) {
			for range 2 {
				w.mu.Lock()
				seed := w.rand.Next()
				w.mu.Unlock()
				i := w.crash(simdisk.CrashOptions{Writeback: w.writeback, Seed: seed})
				i.at = what + ", " + at
				w.mu.Lock()
				images = append(images, i)
				w.sum.Midway++
				w.mu.Unlock()
			}
		}
		if w.mode != engine.FsyncOnCommit {
			if err := t.log.Sync(context.Background()); err != nil {
				return err
			}
		}
		w.host.model().BeforeChange(func(c simdisk.Change) { take(describeChange(c)) })
		err := w.truncate(t, offset)
		w.host.model().BeforeChange(nil)
		take("done")
		return err
	})
	if err != nil {
		return err
	}
	return w.judge(images)
}

// truncate cuts a log, and the record of what is in it.
func (w *workload) truncate(t *truth, offset uint64) error {
	w.sum.Truncated++
	return w.cutTo(t, offset, func() error { return t.log.Truncate(context.Background(), offset) })
}

// cutTo notes that a log is cut by do.
func (w *workload) cutTo(t *truth, offset uint64, do func() error) error {
	w.mu.Lock()
	written := t.submitted
	if offset < written {
		t.cut = &offset
	}
	w.mu.Unlock()
	if err := do(); err != nil {
		return fmt.Errorf("cut %d records to %d: %w", written, offset, err)
	}
	if offset >= written {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.cut = nil
	t.want = slices.Clip(t.want[:offset])
	t.submitted, t.acked, t.durable, t.read = offset, offset, offset, min(t.read, offset)
	t.bases, t.baseDurable = nil, t.log.BaseOffset()
	t.segments()
	t.standing.cut(offset)
	return nil
}
