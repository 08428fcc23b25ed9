package powerloss

import (
	"context"

	"felix.local/felix/engine"
)

// deletionShards is how many shards a stream has that is deleted.
const deletionShards = 2

// deletions deletes a stream and creates it again, under its next incarnation, and
// now and then deletes a shard alone and opens its key again. Images, of process
// deaths too, are taken in front of some changes of each step.
//
// In every image the root says what was settled last or what is being settled; a
// stream that has the name holds its own records and no others, and the shards of a
// former incarnation are not to be had. Where the image has a deletion that is not
// finished, finishing it and creating the stream once more gives empty shards.
func (w *workload) deletions() error {
	w.begin(deletionShards, 0)
	w.name = &name{now: said{live: true}}
	w.hot, w.killed = w.hotWithin, true
	for n := range 2 {
		if n > 0 {
			w.sum.Reopened++
		}
		if err := w.live(func(store *engine.Store) error {
			for range max(1, w.checkpoints/3) {
				if err := w.appendsAndDeletion(store); err != nil {
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

func (w *workload) appendsAndDeletion(store *engine.Store) error {
	w.aim(1, 4*appendsPerCheck)
	for range appendsPerCheck {
		if err := w.appendTo(w.shards[w.rand.Below(uint64(len(w.shards)))]); err != nil {
			return err
		}
	}
	if err := w.checkpoint(); err != nil {
		return err
	}
	w.syncs.Wait()
	w.sum.Deleted++
	if w.rand.Below(3) == 0 {
		return w.deleteShard(store, int(w.rand.Below(deletionShards)))
	}
	return w.deleteStream(store)
}

// deleteStream deletes the stream and creates it again.
func (w *workload) deleteStream(store *engine.Store) error {
	ctx := context.Background()
	tenant, namespace, name := stream()
	w.mu.Lock()
	next := w.name.now
	w.mu.Unlock()
	next.Marked, next.Deleting, next.live = true, true, false
	if err := w.amid(func() error {
		return w.noted(next, func() error {
			return store.BeginDeletion(ctx, tenant, namespace, name, next.Incarnation)
		})
	}); err != nil {
		return err
	}
	// From here on an image has shards of the incarnation to come, or none.
	w.mu.Lock()
	w.begin(deletionShards, 0)
	w.mu.Unlock()
	var logs []*engine.Log
	if err := w.amid(func() error {
		begun, err := recreate(ctx, store, deletionShards, next, func(step said) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.name.next != nil {
				w.name.now = *w.name.next
			}
			w.name.next = &step
		})
		if err != nil {
			return err
		}
		w.mu.Lock()
		w.name.now, w.name.next = begun, nil
		w.mu.Unlock()
		logs, err = openShards(ctx, store, deletionShards, begun.Incarnation, engine.LogOptions{FsyncMode: w.liveMode})
		return err
	}); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for s, t := range w.shards {
		t.opened(logs[s])
	}
	return nil
}

// deleteShard deletes one shard and opens its key again.
func (w *workload) deleteShard(store *engine.Store, shard int) error {
	ctx := context.Background()
	w.mu.Lock()
	key := shardKey(shard)
	key.Incarnation = w.name.incarnation()
	w.shards[shard].anew = new(uint64)
	w.mu.Unlock()
	return w.amid(func() error {
		if err := store.DeleteLog(ctx, key); err != nil {
			return err
		}
		w.mu.Lock()
		w.shards[shard] = newTruth(0)
		w.mu.Unlock()
		log, err := store.OpenLog(ctx, key)
		if err != nil {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.shards[shard].opened(log)
		return nil
	})
}
