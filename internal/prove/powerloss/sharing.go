package powerloss

import (
	"context"
	"math"
	"sync"

	"felix.local/felix/device"
	"felix.local/felix/engine"
)

// The shape of a workload about the journal: shards of one store, segments that hold
// some of the journal's files, records of which some dozen fill the journal, and one
// batch in some that is too large for it.
const (
	sharingShards       = 3
	sharingSegmentBytes = 40_000
	sharingPayloadMax   = 3000
	sharingLargeEach    = 12
	sharingLargeBytes   = 20_000
	sharingAppends      = 5 * appendsPerCheck
)

// sharing crashes shards whose batches share the frames of one journal, small enough
// to go round in it many times. Between appends one of them is truncated, trimmed,
// sealed, reset, deleted and opened again, or led at a new generation, of which
// images, of process deaths too, are taken midway.
func (w *workload) sharing() error {
	w.begin(sharingShards, 0)
	for _, t := range w.shards {
		t.standing = &standing{}
	}
	w.liveConfig = func(fs device.FS, queue device.Queue) engine.Config {
		c := w.config(fs, queue)
		c.RetentionInterval = math.MaxInt64 // removes when asked, so that it is known when a base is final
		return c
	}
	w.hot, w.killed = w.hotWithin, true
	for n := range 2 {
		if n > 0 {
			w.sum.Reopened++
		}
		if err := w.live(func(store *engine.Store) error {
			for range max(1, w.checkpoints/4) {
				if err := w.shareUntilCheckpoint(store); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return w.judge(w.takeMidway())
}

func (w *workload) shareUntilCheckpoint(store *engine.Store) error {
	images, changes := w.imagesPerCheck, 4*sharingAppends
	if w.sideBySide {
		images, changes = sharingShards*images, sharingShards*changes
	}
	w.aim(images, changes)
	for range sharingAppends {
		shard := int(w.rand.Below(sharingShards))
		if err := w.appendShared(shard); err != nil {
			return err
		}
		if w.rand.Below(8) != 0 {
			continue
		}
		if err := w.amid(func() error { return w.disturbShared(store, shard) }); err != nil {
			return err
		}
	}
	return w.checkpoint()
}

// appendShared appends to a shard, or, where that can be, to all of them side by side,
// so that a frame may have the batches of several.
func (w *workload) appendShared(shard int) error {
	if !w.sideBySide {
		return w.appendRecords(w.shards[shard], w.sharedRecords())
	}
	var appending sync.WaitGroup
	failed := &failures{}
	for _, t := range w.shards {
		records := w.sharedRecords()
		appending.Go(func() { failed.note(w.submit(t, records)) })
	}
	appending.Wait()
	w.writeBackSometimes()
	return failed.err
}

// sharedRecords are some records, or one that the journal does not take.
func (w *workload) sharedRecords() []engine.Record {
	if w.rand.Below(sharingLargeEach) == 0 {
		return []engine.Record{{Payload: randomBytes(w.rand, sharingLargeBytes)}}
	}
	records := make([]engine.Record, 1+w.rand.Below(2))
	for i := range records {
		records[i].Payload = randomBytes(w.rand, w.rand.Below(sharingPayloadMax))
	}
	return records
}

// disturbShared does something to one of the shards.
func (w *workload) disturbShared(store *engine.Store, shard int) error {
	ctx := context.Background()
	t := w.shards[shard]
	base, size := t.log.BaseOffset(), t.submitted-t.log.BaseOffset()
	switch w.rand.Below(8) {
	case 0, 1: // near the end, within what lags
		return w.truncate(t, t.submitted-w.rand.Below(min(size, 4)+1))
	case 2:
		return w.truncate(t, base+w.rand.Below(size+1))
	case 3, 4:
		return w.trim(t, base+w.rand.Below(size+1))
	case 5:
		if w.rand.Coin() {
			_, err := t.log.Seal(ctx)
			return err
		}
		return w.lead(t)
	case 6:
		return w.reset(t, w.rand.Below(100))
	default:
		w.sum.Deleted++
		err := w.deleteShard(store, shard)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.shards[shard].standing = &standing{}
		return err
	}
}

// trim lets go of the records below an offset. Once it returned, what it removed is
// gone.
func (w *workload) trim(t *truth, offset uint64) error {
	done, err := t.log.TrimBefore(context.Background(), offset)
	if err != nil {
		return err
	}
	w.sum.Trimmed++
	w.mu.Lock()
	defer w.mu.Unlock()
	t.baseDurable = done.BaseOffset
	return nil
}
