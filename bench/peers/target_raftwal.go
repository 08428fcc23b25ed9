package main

import (
	"context"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftwal "github.com/hashicorp/raft-wal"
)

func raftwalTargets() []target {
	const (
		what = "entries of a raft log; a WAL per log"
		how  = "`StoreLogs`, 64 MiB segments for one log, 16 MiB for several; "
		why  = "`StoreLogs` ends with fsync of the segment, the first time of its directory too"
	)
	return []target{
		{name: "raft-wal/lock", logs: what, how: how + "a mutex", why: why, open: perLog(raftwalWith(lock))},
		{name: "raft-wal/group", logs: what, how: how + "one `StoreLogs` for all that wait", why: why, serves: shared, open: perLog(raftwalWith(group))},
	}
}

func raftwalWith(wrap func(writer) log) openOne {
	return func(dir string, r row) (log, func() error, error) {
		size := 64 << 20
		if r.Logs > 1 {
			size = 16 << 20
		}
		w, err := raftwal.Open(dir, raftwal.WithSegmentSize(size), raftwal.WithLogger(hclog.NewNullLogger()))
		if err != nil {
			return nil, nil, err
		}
		return wrap(&raftwalLog{wal: w, next: 1}), w.Close, nil
	}
}

type raftwalLog struct {
	wal  *raftwal.WAL
	next uint64
}

func (l *raftwalLog) write(_ context.Context, payloads [][]byte) error {
	entries := make([]raft.Log, len(payloads))
	pointers := make([]*raft.Log, len(payloads))
	for i, payload := range payloads {
		entries[i] = raft.Log{Index: l.next + uint64(i), Term: 1, Type: raft.LogCommand, Data: payload}
		pointers[i] = &entries[i]
	}
	if err := l.wal.StoreLogs(pointers); err != nil {
		return err
	}
	l.next += uint64(len(payloads))
	return nil
}

func (l *raftwalLog) Read(_ context.Context, visit func([]byte) error) error {
	return readIndexed(l.wal, visit, func(index uint64) ([]byte, error) {
		var entry raft.Log
		err := l.wal.GetLog(index, &entry)
		return entry.Data, err
	})
}
