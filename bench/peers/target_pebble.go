package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

const pebbleWhy = "`Commit` returns after its bytes in the WAL were written and fdatasync returned"

func pebbleTargets() []target {
	return []target{
		{
			name: "pebble", logs: "keys in order of offsets; a database per log",
			how: "`Batch.Commit(pebble.Sync)` by every publisher at once, its own commit pipeline gathers; 64 MiB memtable for one log, 4 MiB for several",
			why: pebbleWhy,
			open: perLog(func(dir string, r row) (log, func() error, error) {
				size := uint64(64 << 20)
				if r.Logs > 1 {
					size = 4 << 20
				}
				db, err := openPebble(dir, size)
				if err != nil {
					return nil, nil, err
				}
				return &pebbleLog{db: db}, db.Close, nil
			}),
		},
		{
			name: "pebble/prefix", logs: "keys that begin with the log; one database for all",
			how: "as above, 64 MiB memtable", why: pebbleWhy, serves: several,
			open: func(_ context.Context, dir string, r row) (in instance, err error) {
				db, err := openPebble(dir, 64<<20)
				if err != nil {
					return in, err
				}
				for i := range r.Logs {
					in.logs = append(in.logs, &pebbleLog{db: db, prefix: uint32(i)})
				}
				in.close = db.Close
				return in, nil
			},
		},
	}
}

func openPebble(dir string, memTable uint64) (*pebble.DB, error) {
	return pebble.Open(dir, &pebble.Options{MemTableSize: memTable, Logger: quiet{}})
}

// quiet drops what libraries log.
type quiet struct{}

func (quiet) Infof(string, ...any)    {}
func (quiet) Errorf(string, ...any)   {}
func (quiet) Warningf(string, ...any) {}
func (quiet) Debugf(string, ...any)   {}
func (quiet) Fatalf(format string, args ...any) {
	panic("a library gave up: " + fmt.Sprintf(format, args...))
}

// pebbleLog numbers records before they are committed. Pebble commits in the order in which
// it is called, not in that of the numbers, which a log would have to add: what is
// measured is less than a log.
type pebbleLog struct {
	db     *pebble.DB
	prefix uint32
	next   atomic.Uint64
}

func (l *pebbleLog) Append(_ context.Context, payloads [][]byte) error {
	n := uint64(len(payloads))
	first := l.next.Add(n) - n
	batch := l.db.NewBatch()
	defer batch.Close()
	for i, payload := range payloads {
		if err := batch.Set(key(l.prefix, first+uint64(i)), payload, nil); err != nil {
			return err
		}
	}
	return batch.Commit(pebble.Sync)
}

func (l *pebbleLog) Read(ctx context.Context, visit func([]byte) error) (err error) {
	low, high := bounds(l.prefix)
	at, err := l.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: low, UpperBound: high})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.Close()) }()
	for valid := at.First(); valid; valid = at.Next() {
		value, err := at.ValueAndErr()
		if err != nil {
			return err
		}
		if err := visit(value); err != nil {
			return err
		}
	}
	return at.Error()
}
