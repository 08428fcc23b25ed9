package main

import (
	"context"

	"felix.local/felix/bench"
	"felix.local/felix/engine"
	"felix.local/felix/segment"
)

// shared is logs that fewer publishers share: number p has p, p + publishers and so on
// to itself and takes them in turn. To a load, whose publishers have one log each, the
// logs of a publisher are one: its offset k is offset k / n of log k % n, of the n, from
// where they ended when the load began.
type shared struct {
	logs       []*engine.Log
	bases      []uint64
	publishers int
}

func newShared(logs []*engine.Log, publishers int) shared {
	s := shared{logs: logs, bases: make([]uint64, len(logs)), publishers: publishers}
	for i, log := range logs {
		s.bases[i] = log.TailOffset()
	}
	return s
}

// of is the same with the logs opened again.
func (s shared) of(logs []*engine.Log) shared {
	s.logs = logs
	return s
}

// share lists the logs of a publisher.
func (s shared) share(publisher int) (mine []int) {
	for i := publisher; i < len(s.logs); i += s.publishers {
		mine = append(mine, i)
	}
	return mine
}

// target appends batches of one record.
func (s shared) target(worker int) bench.Publisher {
	mine, turn := s.share(worker), 0
	record := make([]engine.Record, 1)
	return func(ctx context.Context, payloads [][]byte) (uint64, error) {
		log := mine[turn]
		record[0].Payload = payloads[0]
		got, err := s.logs[log].Append(ctx, record...)
		if err != nil {
			return 0, err
		}
		first := (got.First-s.bases[log])*uint64(len(mine)) + uint64(turn)
		turn = (turn + 1) % len(mine)
		return first, nil
	}
}

// pageBytes is how much payload is asked of a log at a time.
const pageBytes = 1 << 20

// read reads the logs of a publisher as one. Where one of them ends before the others,
// what they have beyond it comes last.
func (s shared) read(ctx context.Context, publisher int, from uint64) (page []bench.Stored, next uint64, err error) {
	mine := s.share(publisher)
	n := uint64(len(mine))
	pages := make([][]segment.Record, n)
	for i, log := range mine {
		start := s.bases[log] + (from+n-1-uint64(i))/n
		if pages[i], _, err = s.logs[log].ReadNext(ctx, start, pageBytes, engine.DefaultMaxRecordsPerRead); err != nil {
			return nil, from, err
		}
	}
	take := func(i uint64) {
		r := pages[i][0]
		pages[i] = pages[i][1:]
		page = append(page, bench.Stored{Offset: (r.Offset-s.bases[mine[i]])*n + i, Payload: r.Payload})
	}
	for i := from % n; len(pages[i]) > 0; i = (i + 1) % n {
		take(i)
	}
	for i := uint64(0); i < n && len(page) == 0; i++ {
		if len(pages[i]) > 0 {
			take(i)
		}
	}
	if len(page) == 0 {
		return nil, from, nil
	}
	return page, page[len(page)-1].Offset + 1, nil
}
