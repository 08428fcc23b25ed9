package powerloss

import (
	"context"
	"errors"

	"felix.local/felix/device"
	"felix.local/felix/engine"
)

// life is one life of a store: from opening its shards to closing it.
type life struct {
	config func(device.FS, device.Queue) engine.Config
	// open opens the shards.
	open func(context.Context, *engine.Store) ([]*engine.Log, error)
}

// on opens the shards of a host for the time of do.
func (l life) on(h host, do func(*engine.Store, []*engine.Log) error) (err error) {
	ctx := context.Background()
	fs, queue, err := h.boot()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, queue.Close()) }()
	store, err := engine.OpenStore(ctx, h.store(), l.config(fs, queue))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close(ctx)) }()
	logs, err := l.open(ctx, store)
	if err != nil {
		return err
	}
	return do(store, logs)
}

// openShards opens the shards 0 to n-1 of an incarnation of the stream.
func openShards(ctx context.Context, store *engine.Store, n int, incarnation uint64, o engine.LogOptions) ([]*engine.Log, error) {
	var logs []*engine.Log
	for shard := range n {
		key := shardKey(shard)
		key.Incarnation = incarnation
		log, err := store.OpenLogWith(ctx, key, o)
		if err != nil {
			return nil, err
		}
		logs = append(logs, log)
	}
	return logs, nil
}

// live opens the workload's own logs for the time of do, and counts what that
// life did. Images in the middle of something may be taken from when the logs
// are open until the next life of another store.
func (w *workload) live(do func(*engine.Store) error) error {
	l := life{
		config: func(fs device.FS, queue device.Queue) engine.Config {
			w.host.model().BeforeChange(w.maybeCrash)
			return w.liveConfig(fs, queue)
		},
		open: func(ctx context.Context, store *engine.Store) ([]*engine.Log, error) {
			return openShards(ctx, store, len(w.shards), w.name.incarnation(), engine.LogOptions{Base: w.start, FsyncMode: w.liveMode})
		},
	}
	err := l.on(w.host, func(store *engine.Store, logs []*engine.Log) error {
		id := store.Identity().ID
		w.mu.Lock()
		for i, t := range w.shards {
			t.opened(logs[i])
		}
		w.id, w.resting = &id, false
		w.mu.Unlock()
		before := w.host.model().Counts()
		err := do(store)
		w.syncs.Wait()
		w.sum.addLife(store.Stats(), before, w.host.model().Counts())
		w.mu.Lock()
		defer w.mu.Unlock()
		w.resting = true
		return err
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.shards {
		t.closed()
	}
	return nil
}
