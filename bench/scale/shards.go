package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"felix.local/felix/bench"
	"felix.local/felix/engine"
)

const (
	// publishersMax publish at once to any number of shards.
	publishersMax = 1024
	// openersMax open shards at once: more than a store lets in.
	openersMax = 32
	// touches is how many records each shard gets before its memory is measured.
	touches = 4
)

func (m measurer) shardsCurve() curve {
	columns := append(loadColumns(),
		column{"open_ms", "open ms", 1},
		column{"close_ms", "close ms", 1},
		column{"heap_kib_opened", "heap KiB/shard", 1},
		column{"resident_kib_opened", "RSS KiB/shard", 1},
		column{"heap_kib_loaded", "loaded heap KiB/shard", 1},
		column{"resident_kib_loaded", "loaded RSS KiB/shard", 1},
		column{"descriptors", "descriptors", 0},
	)
	return curve{
		name: "shards", axis: "shards", show: count, columns: columns,
		about: "Shards of a store, opened anew for each round, with a publisher each, at most 1024 at once, and records of 128 bytes. " +
			"Memory and descriptors are what the open store added, after opening and once each shard had a few appends.",
		measure: func(ctx context.Context, into *lines) error {
			for _, n := range m.sizes.shards {
				if err := m.within(func(dir string) error { return m.shards(ctx, root(dir), n, into) }); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// shards makes a store with so many shards and measures it in each mode, round by
// round. What earlier rounds left in it is in front of what a round reads back.
func (m measurer) shards(ctx context.Context, root string, n int, into *lines) error {
	m.note("shards: making %d", n)
	if store, _, _, err := openShards(ctx, root, noneMode, n); err != nil {
		return err
	} else if err := store.Close(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	for round := range m.rounds {
		for _, mode := range m.modes {
			m.note("shards: %d, %s, round %d", n, mode.name, round+1)
			s, err := m.shardsOnce(ctx, root, mode, n)
			if err != nil {
				return err
			}
			into.add(int64(n), mode.name, s)
		}
	}
	return nil
}

func (m measurer) shardsOnce(ctx context.Context, root string, mode mode, n int) (sample, error) {
	found := make(sample)
	open := func(ctx context.Context) (*bench.System, error) { return shardsSystem(ctx, root, mode, n, found) }
	measured, err := m.trial(open, m.load(min(n, publishersMax))).Run(ctx)
	if err != nil {
		return nil, err
	}
	for key, value := range loadSample(measured.Row) {
		found[key] = value
	}
	return found, nil
}

// shardsSystem opens shards that are there and notes what that took.
func shardsSystem(ctx context.Context, root string, mode mode, n int, found sample) (*bench.System, error) {
	before, err := held()
	if err != nil {
		return nil, err
	}
	store, logs, took, err := openShards(ctx, root, mode, n)
	if err != nil {
		return nil, err
	}
	abandon := func(err error) (*bench.System, error) {
		return nil, errors.Join(err, store.Close(context.WithoutCancel(ctx)))
	}
	opened, err := held()
	if err != nil {
		return abandon(err)
	}
	if err := touch(ctx, logs); err != nil {
		return abandon(err)
	}
	loaded, err := held()
	if err != nil {
		return abandon(err)
	}
	found["open_ms"] = took.Seconds() * 1e3
	found["heap_kib_opened"] = kibEach(opened.heap, before.heap, n)
	found["resident_kib_opened"] = kibEach(opened.resident, before.resident, n)
	found["heap_kib_loaded"] = kibEach(loaded.heap, before.heap, n)
	found["resident_kib_loaded"] = kibEach(loaded.resident, before.resident, n)
	found["descriptors"] = float64(loaded.descriptors - before.descriptors)
	shared := newShared(logs, min(n, publishersMax))
	return &bench.System{
		Backend: bench.BackendName(store.Backend()), Reason: store.Backend().Reason, Fsync: mode.fsync.String(),
		Logs: shared.publishers, Target: shared.target, Store: store,
		Close: func(ctx context.Context) error {
			began := time.Now()
			err := store.Close(ctx)
			found["close_ms"] = time.Since(began).Seconds() * 1e3
			return err
		},
		ReadBack: func(ctx context.Context) (bench.ReadBack, func(context.Context) error, error) {
			store, logs, _, err := openShards(ctx, root, mode, n)
			if err != nil {
				return nil, nil, err
			}
			return shared.of(logs).read, store.Close, nil
		},
	}, nil
}

// openShards opens a store and so many shards of it, several at once, and says how long
// the shards took.
func openShards(ctx context.Context, root string, mode mode, n int) (*engine.Store, []*engine.Log, time.Duration, error) {
	store, err := engine.OpenStore(ctx, root, mode.config())
	if err != nil {
		return nil, nil, 0, err
	}
	logs := make([]*engine.Log, n)
	began := time.Now()
	err = inParallel(n, openersMax, func(i int) (err error) {
		key := engine.ShardKey{Tenant: "scale", Namespace: "default", Stream: "load", Shard: uint32(i)}
		logs[i], err = store.OpenLog(ctx, key)
		return err
	})
	if err != nil {
		return nil, nil, 0, errors.Join(err, store.Close(context.WithoutCancel(ctx)))
	}
	return store, logs, time.Since(began), nil
}

// touch appends to every log, so that all have what a log in use has.
func touch(ctx context.Context, logs []*engine.Log) error {
	payload := make([]byte, payloadBytes)
	return inParallel(len(logs), publishersMax, func(i int) error {
		for range touches {
			if _, err := logs[i].Append(ctx, engine.Record{Payload: payload}); err != nil {
				return err
			}
		}
		return nil
	})
}

// inParallel does something for each number below n, up to atOnce at a time. After an
// error it begins no more.
func inParallel(n, atOnce int, do func(i int) error) error {
	var next atomic.Int64
	errs := make([]error, min(n, atOnce))
	var wg sync.WaitGroup
	for worker := range errs {
		wg.Go(func() {
			for errs[worker] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if errs[worker] = do(i); errs[worker] != nil {
					next.Store(int64(n))
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
