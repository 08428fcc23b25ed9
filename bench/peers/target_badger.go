package main

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
)

func badgerTargets() []target {
	const (
		what = "keys in order of offsets; a database per log"
		how  = "`SyncWrites`, no conflict detection, no block cache; "
		why  = "a transaction is acknowledged after msync of the WAL of its memtable, which maps it (and fsync of the value log)"
	)
	own := func(db *badger.DB) log { return &badgerLog{db: db} }
	gathered := func(db *badger.DB) log { return badgerGroup(db)(0) }
	return []target{
		{
			name: "badger", logs: what, how: how + "a transaction per append, publishers at once; 16 MiB memtables for several logs", why: why,
			open: perLog(badgerWith(own)),
		},
		{
			name: "badger/group", logs: what, how: how + "one transaction for all that wait, since badger syncs for each", why: why, serves: shared,
			open: perLog(badgerWith(gathered)),
		},
		{
			name: "badger/prefix", logs: "keys that begin with the log; one database for all", how: how + "one transaction for all that wait, whichever their log", why: why,
			serves: several, open: openBadgerPrefixes,
		},
	}
}

func openBadgerPrefixes(_ context.Context, dir string, r row) (in instance, err error) {
	db, err := openBadger(dir, 64<<20)
	if err != nil {
		return in, err
	}
	member := badgerGroup(db)
	for i := range r.Logs {
		in.logs = append(in.logs, member(uint32(i)))
	}
	in.close = db.Close
	return in, nil
}

func badgerWith(make func(*badger.DB) log) openOne {
	return func(dir string, r row) (log, func() error, error) {
		size := int64(64 << 20)
		if r.Logs > 1 {
			size = 16 << 20
		}
		db, err := openBadger(dir, size)
		if err != nil {
			return nil, nil, err
		}
		return make(db), db.Close, nil
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

// entries gives records their keys.
func (l *badgerLog) entries(payloads [][]byte) []*badger.Entry {
	n := uint64(len(payloads))
	first := l.next.Add(n) - n
	list := make([]*badger.Entry, n)
	for i, payload := range payloads {
		list[i] = badger.NewEntry(key(l.prefix, first+uint64(i)), payload)
	}
	return list
}

// commitBadger writes entries in as few transactions as hold them.
func commitBadger(db *badger.DB, entries []*badger.Entry) error {
	for len(entries) > 0 {
		n := min(len(entries), max(1, badgerBytesMax/len(entries[0].Value)))
		tx := db.NewTransaction(true)
		for _, entry := range entries[:n] {
			if err := tx.SetEntry(entry); err != nil {
				tx.Discard()
				return err
			}
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

func (l *badgerLog) Append(_ context.Context, payloads [][]byte) error {
	return commitBadger(l.db, l.entries(payloads))
}

// badgerMember is a log whose appends go down with those of others.
type badgerMember struct {
	*badgerLog
	group *committer[[]*badger.Entry]
}

// badgerGroup makes logs of a database that share a group commit.
func badgerGroup(db *badger.DB) func(prefix uint32) log {
	all := &committer[[]*badger.Entry]{write: func(_ context.Context, requests [][]*badger.Entry) error {
		return commitBadger(db, slices.Concat(requests...))
	}}
	return func(prefix uint32) log { return badgerMember{&badgerLog{db: db, prefix: prefix}, all} }
}

func (l badgerMember) Append(ctx context.Context, payloads [][]byte) error {
	return l.group.commit(ctx, l.entries(payloads))
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
