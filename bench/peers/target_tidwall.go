package main

import (
	"context"

	"github.com/tidwall/wal"
)

func tidwallTargets() []target {
	const (
		what = "entries of a WAL; a WAL per log"
		how  = "`WriteBatch`, defaults (`NoSync: false`, 20 MB segments); "
		why  = "`WriteBatch` ends with fsync of the segment; the directory is not synced when a segment is added"
	)
	return []target{
		{name: "tidwall-wal/lock", logs: what, how: how + "a mutex", why: why, open: perLog(tidwallWith(lock, false))},
		{name: "tidwall-wal/group", logs: what, how: how + "one `WriteBatch` for all that wait", why: why, serves: shared, open: perLog(tidwallWith(group, false))},
	}
}

func tidwallWith(wrap func(writer) log, noSync bool) openOne {
	return func(dir string, _ row) (log, func() error, error) {
		options := *wal.DefaultOptions
		options.NoSync = noSync
		w, err := wal.Open(dir, &options)
		if err != nil {
			return nil, nil, err
		}
		return wrap(&tidwallLog{wal: w, next: 1}), w.Close, nil
	}
}

type tidwallLog struct {
	wal   *wal.Log
	batch wal.Batch
	next  uint64
}

func (l *tidwallLog) write(_ context.Context, payloads [][]byte) error {
	for i, payload := range payloads {
		l.batch.Write(l.next+uint64(i), payload)
	}
	if err := l.wal.WriteBatch(&l.batch); err != nil {
		return err
	}
	l.next += uint64(len(payloads))
	return nil
}

func (l *tidwallLog) Read(_ context.Context, visit func([]byte) error) error {
	return readIndexed(l.wal, visit, l.wal.Read)
}
