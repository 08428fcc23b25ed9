package main

import (
	"context"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
)

func badgerTargets() []target {
	const (
		how = "`SyncWrites`, no conflict detection, no block cache; "
		why = "a transaction is acknowledged after msync of the WAL of its memtable, which maps it (and fsync of the value log)"
	)
	own := func(db *badger.DB, prefix uint32) log { return &badgerLog{db: db, prefix: prefix} }
	gathered := func(db *badger.DB, prefix uint32) log { return group(&badgerLog{db: db, prefix: prefix}) }
	return []target{
		{
			name: "badger", logs: "keys in order of offsets; a database per log",
			how: how + "a transaction per append, publishers at once; 16 MiB memtables for several logs", why: why, open: perLog(badgerWith(own)),
		},
		{
			name: "badger/group", logs: "keys in order of offsets; a database per log",
			how: how + "one transaction for all that wait, since badger syncs for each", why: why, serves: shared, open: perLog(badgerWith(gathered)),
		},
		{
			name: "badger/prefix", logs: "keys that begin with the log; one database for all", how: how + "a transaction per append, publishers at once", why: why, serves: several,
			open: func(_ context.Context, dir string, r row) (in instance, err error) {
				db, err := openBadger(dir, 64<<20)
				if err != nil {
					return in, err
				}
				for i := range r.Logs {
					in.logs = append(in.logs, own(db, uint32(i)))
				}
				in.close = db.Close
				return in, nil
			},
		},
	}
}

func badgerWith(make func(*badger.DB, uint32) log) openOne {
	return func(dir string, r row) (log, func() error, error) {
		size := int64(64 << 20)
		if r.Logs > 1 {
			size = 16 << 20
		}
		db, err := openBadger(dir, size)
		if err != nil {
			return nil, nil, err
		}
		return make(db, 0), db.Close, nil
	}
}

func openBadger(dir string, memTable int64) (*badger.DB, error) {
	return badger.Open(badger.DefaultOptions(dir).WithSyncWrites(true).WithDetectConflicts(false).WithBlockCacheSize(0).
		WithCompression(0).WithMemTableSize(memTable).WithValueLogFileSize(64 << 20).WithMetricsEnabled(false).WithLogger(quiet{}))
}

// badgerLog numbers records before they are committed, as pebbleLog does.
type badgerLog struct {
	db     *badger.DB
	prefix uint32
	next   atomic.Uint64
}

// badgerBytesMax keeps a transaction below the share of a memtable that it may take.
const badgerBytesMax = 1 << 20

func (l *badgerLog) write(ctx context.Context, payloads [][]byte) error {
	return l.Append(ctx, payloads)
}

func (l *badgerLog) Append(_ context.Context, payloads [][]byte) error {
	for len(payloads) > 0 {
		n := min(len(payloads), max(1, badgerBytesMax/len(payloads[0])))
		if err := l.commit(payloads[:n]); err != nil {
			return err
		}
		payloads = payloads[n:]
	}
	return nil
}

func (l *badgerLog) commit(payloads [][]byte) error {
	n := uint64(len(payloads))
	first := l.next.Add(n) - n
	tx := l.db.NewTransaction(true)
	defer tx.Discard()
	for i, payload := range payloads {
		if err := tx.Set(key(l.prefix, first+uint64(i)), payload); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (l *badgerLog) Read(_ context.Context, visit func([]byte) error) error {
	low, high := bounds(l.prefix)
	return l.db.View(func(tx *badger.Txn) error {
		options := badger.DefaultIteratorOptions
		options.Prefix = low[:len(high)-8]
		at := tx.NewIterator(options)
		defer at.Close()
		for at.Seek(low); at.ValidForPrefix(options.Prefix); at.Next() {
			if err := at.Item().Value(visit); err != nil {
				return err
			}
		}
		return nil
	})
}
