package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// log is what is measured: appends that are durable when they return, from any number
// of goroutines.
type log interface {
	Append(ctx context.Context, payloads [][]byte) error
	// Read visits all records in order. A visited record is not kept.
	Read(ctx context.Context, visit func(payload []byte) error) error
}

// instance is what a target opened: logs, and what closes them.
type instance struct {
	logs  []log
	close func() error
}

// opener opens the logs of a row in a directory, new or not.
type opener func(ctx context.Context, dir string, r row) (instance, error)

// openOne opens an instance that is one log of a row, and gives what closes it.
type openOne func(dir string, r row) (log, func() error, error)

// perLog opens an instance of a library for each log, which is how its users come by
// several logs.
func perLog(open openOne) opener {
	return func(_ context.Context, dir string, r row) (in instance, err error) {
		var closers []func() error
		in.close = func() error {
			errs := make([]error, len(closers))
			var wg sync.WaitGroup
			for i, closer := range closers {
				wg.Go(func() { errs[i] = closer() })
			}
			wg.Wait()
			return errors.Join(errs...)
		}
		for i := range r.Logs {
			sub := filepath.Join(dir, fmt.Sprintf("log-%03d", i))
			if err := os.MkdirAll(sub, 0o750); err != nil {
				return in, errors.Join(err, in.close())
			}
			one, closer, err := open(sub, r)
			if err != nil {
				return in, errors.Join(err, in.close())
			}
			in.logs, closers = append(in.logs, one), append(closers, closer)
		}
		return in, nil
	}
}

// writer is a log for which one goroutine at a time may write.
type writer interface {
	write(ctx context.Context, payloads [][]byte) error
	Read(ctx context.Context, visit func(payload []byte) error) error
}

// locked lets publishers write one after the other.
type locked struct {
	writer
	mu sync.Mutex
}

// Append waits for its turn.
func (l *locked) Append(ctx context.Context, payloads [][]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write(ctx, payloads)
}

func lock(w writer) log { return &locked{writer: w} }

// indexed is a WAL whose entries have consecutive indexes; a last one of 0 is none.
type indexed interface {
	FirstIndex() (uint64, error)
	LastIndex() (uint64, error)
}

// readIndexed visits the payload of every entry.
func readIndexed(w indexed, visit func([]byte) error, payload func(index uint64) ([]byte, error)) error {
	first, err := w.FirstIndex()
	if err != nil {
		return err
	}
	last, err := w.LastIndex()
	if err != nil || last == 0 {
		return err
	}
	for index := first; index <= last; index++ {
		p, err := payload(index)
		if err != nil {
			return err
		}
		if err := visit(p); err != nil {
			return err
		}
	}
	return nil
}
