package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"felix.local/felix/bench"
	"felix.local/felix/engine"
)

// rounds is how many pairs a ratio is made from.
const rounds = 3

// variant is one side of a ratio.
type variant struct {
	mode                    engine.FsyncMode
	ring                    engine.IOURingMode
	logs, publishers, batch int
}

// bars lists everything that is measured, in a directory.
func bars(dir string, slice time.Duration) []bar {
	m := measurer{dir: dir, slice: slice}
	lone := variant{mode: engine.FsyncOnCommit, logs: 1, publishers: 1, batch: 1}
	with := func(v variant, change func(*variant)) variant { change(&v); return v }
	backend := func(name string, logs, publishers int) bar {
		ring := with(lone, func(v *variant) { v.logs, v.publishers, v.ring = logs, publishers, engine.IOURingAuto })
		pool := with(ring, func(v *variant) { v.ring = engine.IOURingOff })
		return bar{name: name, limit: 0.97, measure: m.rate(ring, pool)}
	}
	list := []bar{
		backend("ring / pool, on_commit, 1 log, 1 publisher", 1, 1),
		backend("ring / pool, on_commit, 1 log, 64 publishers", 1, 64),
		backend("ring / pool, on_commit, 16 logs, 1 publisher each", 16, 16),
		backend("ring / pool, on_commit, 64 logs, 1 publisher each", 64, 64),
		{
			name: "64 / 1 publishers, on_commit", limit: 40,
			measure: m.rate(with(lone, func(v *variant) { v.publishers = 64 }), lone),
		},
		{name: "lone publisher p50 / raw overwrite, on_commit", limit: 1.15, atMost: true, measure: m.loneLatency(lone)},
	}
	for _, mode := range []engine.FsyncMode{engine.FsyncNone, engine.FsyncPeriodic} {
		one := with(lone, func(v *variant) { v.mode = mode })
		list = append(list,
			bar{
				name: fmt.Sprintf("batch 16 / 1, %v", mode), limit: 4,
				measure: m.rate(with(one, func(v *variant) { v.batch = 16 }), one),
			},
			bar{
				name: fmt.Sprintf("64 / 4 publishers, %v", mode), limit: 0.7,
				measure: m.rate(with(one, func(v *variant) { v.publishers = 64 }), with(one, func(v *variant) { v.publishers = 4 })),
			})
	}
	return append(list,
		bar{name: "catch-up read / pread + CRC-32, 16 KiB records", limit: 0.8, measure: m.reading(16<<10, catchUp)},
		bar{name: "the same, 1 KiB records", measure: m.reading(1<<10, catchUp)},
		bar{name: "recovery scan / pread + CRC-32, 16 KiB records", limit: 0.8, measure: m.reading(16<<10, scan)},
		bar{name: "the same, 1 KiB records", measure: m.reading(1<<10, scan)},
		bar{name: "recovery scan, seconds per GiB, 1 KiB records", limit: 1, atMost: true, measure: m.scanSeconds(1 << 10)},
	)
}

// measurer measures in a directory.
type measurer struct {
	dir   string
	slice time.Duration
}

// side is a side of a plan, and point its load.
func (m measurer) side(v variant) bench.Side {
	return bench.Side{Name: v.String(), Open: func(ctx context.Context, dir string, p bench.Point) (*bench.System, error) {
		return bench.OpenLogs(ctx, bench.LogOptions{Dir: filepath.Join(dir, "root"), Config: v.config(), Logs: p.Logs})
	}}
}

func (v variant) config() engine.Config {
	config := quietConfig(v.mode)
	config.IOURing = v.ring
	return config
}

// quietConfig is the default but for the mode, and without a line for every store that
// is opened.
func quietConfig(mode engine.FsyncMode) engine.Config {
	config := engine.DefaultConfig()
	config.FsyncMode = mode
	config.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return config
}

// String names the variant in errors.
func (v variant) String() string { return fmt.Sprintf("%v, ring %v", v.mode, v.ring) }

func (m measurer) point(v variant) bench.Point {
	return bench.Point{Logs: v.logs, Load: bench.Load{
		Duration: m.slice, Warmup: m.slice / 4, PayloadBytes: 128, Batch: v.batch, Concurrency: v.publishers,
	}}
}

// pairs measures two variants one after the other, round by round. Who goes first
// alternates.
func (m measurer) pairs(ctx context.Context, a, b variant) (rowsA, rowsB []bench.Row, err error) {
	one := func(v variant) (bench.Row, error) {
		dir, err := os.MkdirTemp(m.dir, "pair-")
		if err != nil {
			return bench.Row{}, err
		}
		// The device is only shown beside these: a few samples will do.
		plan := bench.Plan{Dir: dir, Points: []bench.Point{m.point(v)}, Sides: []bench.Side{m.side(v)}, Rounds: 1, FloorSamples: 8}
		results, err := plan.Run(ctx, nil)
		if err != nil {
			return bench.Row{}, err
		}
		return results.Taken[0].Row, os.Remove(dir)
	}
	for round := range rounds {
		order := []variant{a, b}
		if round%2 == 1 {
			order = []variant{b, a}
		}
		for _, v := range order {
			row, err := one(v)
			if err != nil {
				return nil, nil, err
			}
			if v == a {
				rowsA = append(rowsA, row)
			} else {
				rowsB = append(rowsB, row)
			}
		}
	}
	return rowsA, rowsB, nil
}

func column(rows []bench.Row, of func(bench.Row) float64) []float64 {
	values := make([]float64, len(rows))
	for i, r := range rows {
		values[i] = of(r)
	}
	return values
}

// rate is the throughput of one variant by that of another.
func (m measurer) rate(a, b variant) func(context.Context) (float64, string, error) {
	return func(ctx context.Context) (float64, string, error) {
		rowsA, rowsB, err := m.pairs(ctx, a, b)
		if err != nil {
			return 0, "", err
		}
		perSecond := func(r bench.Row) float64 { return r.RecordsPerSecond }
		ratesA, ratesB := column(rowsA, perSecond), column(rowsB, perSecond)
		e := bench.Compare(ratesA, ratesB)
		detail := fmt.Sprintf("%.0f by %.0f records/s, 95%% %.2f to %.2f, device dsync %d µs",
			bench.MedianOf(ratesA), bench.MedianOf(ratesB), e.Low, e.High, rowsB[0].DeviceDsyncMicros)
		if a.ring != b.ring && rowsA[0].Backend == rowsB[0].Backend {
			detail += "; there is no ring here"
		}
		return e.Ratio, detail, nil
	}
}

// loneLatency is the median latency of one publisher by that of a raw overwrite, made
// right before and after.
func (m measurer) loneLatency(v variant) func(context.Context) (float64, string, error) {
	return func(ctx context.Context) (float64, string, error) {
		var p50, raw []float64
		plan := bench.Plan{Dir: m.dir, Points: []bench.Point{m.point(v)}, Sides: []bench.Side{m.side(v)}, Rounds: 2 * rounds, FloorSamples: 128}
		results, err := plan.Run(ctx, nil)
		if err != nil {
			return 0, "", err
		}
		for _, t := range results.Taken {
			p50 = append(p50, float64(t.Row.LatencyMicros.P50))
			raw = append(raw, float64(t.Row.DeviceOverwriteMicros))
		}
		e := bench.Compare(p50, raw)
		if e.Ratio == 0 {
			return 0, "", fmt.Errorf("the filesystem of %s does not overwrite in place, or takes no time for it", m.dir)
		}
		return e.Ratio, fmt.Sprintf("%.0f by %.0f µs, 95%% %.2f to %.2f", bench.MedianOf(p50), bench.MedianOf(raw), e.Low, e.High), nil
	}
}
