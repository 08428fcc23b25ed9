package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"felix.local/felix/bench"
)

// sample is one run of one target on one row.
type sample struct {
	Row    string `json:"row"`
	Target string `json:"target"`
	Round  int    `json:"round"`
	row
	Records          int64         `json:"records"`
	Appends          int64         `json:"appends"`
	Seconds          float64       `json:"seconds"`
	RecordsPerSecond float64       `json:"records_per_second"`
	LatencyMicros    bench.Latency `json:"latency_us"`
	// CPUMicrosPerAppend is time of the whole process, so that it counts what libraries do
	// behind their appends and what the publishers cost.
	CPUMicrosPerAppend float64 `json:"cpu_us_per_append"`
	// The device right before the run: a write of 4 KiB past the page cache over written
	// blocks, and one that makes a file longer, both with RWF_DSYNC.
	DeviceOverwriteMicros float64 `json:"device_overwrite_us"`
	DeviceDsyncMicros     float64 `json:"device_dsync_us"`
	Verified              bool    `json:"verified"`
}

// plan says how runs are made.
type plan struct {
	dir      string
	duration time.Duration
	verify   bool
}

// floorSamples is how many writes of each sort measure the device before a run.
const floorSamples = 48

// run measures one target on one row in a directory of its own, which is gone afterwards.
func (p plan) run(ctx context.Context, t target, r row, round int) (s sample, err error) {
	dir, err := os.MkdirTemp(p.dir, "peers-")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, remove(dir)) }()
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o750); err != nil {
		return s, err
	}
	in, err := t.open(ctx, data, r)
	if err != nil {
		return s, err
	}
	s = sample{Row: r.name(), Target: t.name, Round: round, row: r}
	acked := newLedger(r.Publishers, r.PayloadBytes)
	if err := p.load(ctx, in, acked, dir, &s); err != nil {
		return s, errors.Join(err, in.close())
	}
	if err := in.close(); err != nil {
		return s, err
	}
	if !p.verify {
		return s, nil
	}
	if err := verify(ctx, t, data, r, acked); err != nil {
		return s, fmt.Errorf("what was acknowledged is not what is there: %w", err)
	}
	s.Verified = true
	return s, nil
}

// load measures the device and then the target.
func (p plan) load(ctx context.Context, in instance, acked *ledger, dir string, s *sample) error {
	floor, err := bench.MeasureFloor(ctx, bench.FloorOptions{Dir: dir, Samples: floorSamples})
	if err != nil {
		return err
	}
	l := bench.Load{
		Duration: p.duration, Warmup: p.duration / 4,
		PayloadBytes: s.PayloadBytes, Batch: s.Batch, Concurrency: s.Publishers,
	}
	result, err := l.Run(ctx, publishers(in, acked), bench.Hooks{Measuring: runtime.GC})
	if err != nil {
		return err
	}
	s.DeviceOverwriteMicros = float64(floor.DirectOverwrite.Nanoseconds()) / 1e3
	s.DeviceDsyncMicros = float64(floor.Inline.Nanoseconds()) / 1e3
	s.Records, s.Appends, s.Seconds = result.Records, result.Appends, result.Elapsed.Seconds()
	s.RecordsPerSecond, s.LatencyMicros = result.RecordsPerSecond(), result.Latency
	s.CPUMicrosPerAppend = float64(result.CPU.Microseconds()) / float64(max(1, result.Appends))
	return nil
}

// publishers are those of a load: each appends records of its own, not those of the load, to one
// log, and notes in the ledger what was acknowledged. Offsets are left out: not all libraries
// tell them, so a record is known by its publisher and its place in what that sent.
func publishers(in instance, acked *ledger) bench.Target {
	return func(worker int) bench.Publisher {
		to := in.logs[worker%len(in.logs)]
		var records [][]byte
		return func(ctx context.Context, payloads [][]byte) (first uint64, err error) {
			for len(records) < len(payloads) {
				records = append(records, newRecord(worker, acked.size))
			}
			batch := records[:len(payloads)]
			for i := range batch {
				stamp(batch[i], acked.acked[worker]+uint64(i))
			}
			if err := to.Append(ctx, batch); err != nil {
				return 0, err
			}
			acked.acked[worker] += uint64(len(batch))
			return 0, nil
		}
	}
}

// verify opens a target again and holds what its logs give against what was acknowledged.
func verify(ctx context.Context, t target, dir string, r row, acked *ledger) (err error) {
	in, err := t.open(ctx, dir, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	for i, one := range in.logs {
		if err := one.Read(ctx, func(payload []byte) error { return acked.visit(i, r.Logs, payload) }); err != nil {
			return err
		}
	}
	return acked.settle()
}

// remove deletes a run's files and waits for the filesystem, so that freeing them is not part
// of the next run.
func remove(dir string) error {
	parent, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer parent.Close()
	return errors.Join(os.RemoveAll(dir), unix.Syncfs(int(parent.Fd())))
}
