package main

import (
	"context"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
)

func etcdTargets() []target {
	const (
		what = "entries of a raft log; a WAL per log"
		how  = "`WAL.Save(nil, entries)`, 64 MB segments for one log, 16 MB for several, which are reserved two at a time; "
		why  = "`Save` with entries ends with fdatasync"
	)
	return []target{
		{name: "etcd-wal/lock", logs: what, how: how + "a mutex", why: why, open: perLog(etcdWith(lock))},
		{name: "etcd-wal/group", logs: what, how: how + "one `Save` for all that wait", why: why, serves: shared, open: perLog(etcdWith(group))},
	}
}

func etcdWith(wrap func(writer) log) openOne {
	return func(dir string, r row) (log, func() error, error) {
		wal.SegmentSizeBytes = 64 * 1000 * 1000
		if r.Logs > 1 {
			wal.SegmentSizeBytes = 16 * 1000 * 1000
		}
		w := &etcdLog{dir: filepath.Join(dir, "wal"), next: 1}
		var err error
		if wal.Exist(w.dir) {
			err = w.reopen()
		} else {
			w.wal, err = wal.Create(nil, w.dir, nil)
		}
		if err != nil {
			return nil, nil, err
		}
		return wrap(w), func() error { return w.wal.Close() }, nil
	}
}

type etcdLog struct {
	dir  string
	wal  *wal.WAL
	next uint64
	// read is what the WAL held when it was opened: it is read once, and then as a whole.
	read []*raftpb.Entry
}

func (l *etcdLog) reopen() (err error) {
	if l.wal, err = wal.Open(nil, l.dir, &walpb.Snapshot{Index: new(uint64), Term: new(uint64)}); err != nil {
		return err
	}
	_, _, l.read, err = l.wal.ReadAll()
	return err
}

func (l *etcdLog) write(_ context.Context, payloads [][]byte) error {
	entries := make([]*raftpb.Entry, len(payloads))
	for i, payload := range payloads {
		entries[i] = &raftpb.Entry{Term: new(uint64(1)), Index: new(l.next + uint64(i)), Data: payload}
	}
	if err := l.wal.Save(nil, entries); err != nil {
		return err
	}
	l.next += uint64(len(payloads))
	return nil
}

func (l *etcdLog) Read(_ context.Context, visit func([]byte) error) error {
	for _, entry := range l.read {
		if err := visit(entry.GetData()); err != nil {
			return err
		}
	}
	return nil
}
