package main

import (
	"context"
	"errors"
	"log/slog"

	"felix.local/felix/engine"
)

// felixTargets are configurations of the engine: each says what differs from its defaults
// beside on_commit. Another one is a line more.
func felixTargets() []target {
	variants := []struct {
		name, how string
		configure func(*engine.Config)
		extra     bool
	}{
		{"felix", "defaults with `FsyncOnCommit`: the ring where it works, its own group commit, and the commit journal, from the start (`JournalRequire`) instead of after 1,024 commits", func(*engine.Config) {}, false},
		{"felix/segments", "the same without the commit journal (`JournalOff`)", func(c *engine.Config) { c.Journal = engine.JournalOff }, false},
		{"felix/pool", "the same without the ring (`IOURingOff`)", func(c *engine.Config) { c.IOURing = engine.IOURingOff }, true},
	}
	var list []target
	for _, v := range variants {
		list = append(list, target{
			name: v.name, logs: "a log; several in one store", how: v.how, extra: v.extra,
			why: "a write with RWF_DSYNC (or write, then flush) of its bytes, in its segment or in a frame of the journal, returned, and everything below was durable",
			open: func(ctx context.Context, dir string, r row) (instance, error) {
				config := engine.DefaultConfig()
				config.FsyncMode, config.Journal = engine.FsyncOnCommit, engine.JournalRequire
				config.Logger = slog.New(slog.DiscardHandler)
				v.configure(&config)
				return openFelix(ctx, dir, r.Logs, config)
			},
		})
	}
	return list
}

func openFelix(ctx context.Context, dir string, logs int, config engine.Config) (in instance, err error) {
	store, err := engine.OpenStore(ctx, dir, config)
	if err != nil {
		return in, err
	}
	in.close = func() error { return store.Close(context.WithoutCancel(ctx)) }
	for i := range logs {
		one, err := store.OpenLog(ctx, engine.ShardKey{Tenant: "bench", Namespace: "default", Stream: "peers", Shard: uint32(i)})
		if err != nil {
			return in, errors.Join(err, in.close())
		}
		in.logs = append(in.logs, felixLog{one})
	}
	return in, nil
}

type felixLog struct{ log *engine.Log }

// Append cannot be called back, as the others' calls cannot.
func (l felixLog) Append(_ context.Context, payloads [][]byte) error {
	records := make([]engine.Record, len(payloads))
	for i, payload := range payloads {
		records[i].Payload = payload
	}
	_, err := l.log.Append(context.Background(), records...)
	return err
}

// pageBytes is how much one read asks for.
const pageBytes = 1 << 20

func (l felixLog) Read(ctx context.Context, visit func([]byte) error) error {
	for next := l.log.BaseOffset(); next < l.log.TailOffset(); {
		page, after, err := l.log.ReadNext(ctx, next, pageBytes, engine.DefaultMaxRecordsPerRead)
		if err != nil {
			return err
		}
		for _, record := range page {
			if err := visit(record.Payload); err != nil {
				return err
			}
		}
		next = after
	}
	return nil
}
