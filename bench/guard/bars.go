package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"felix.local/felix/bench"
	"felix.local/felix/bench/internal/rig"
	"felix.local/felix/engine"
)

// variant is one side of a ratio.
type variant struct {
	mode                    engine.FsyncMode
	ring                    engine.IOURingMode
	journal                 engine.JournalMode
	logs, publishers, batch int
}

// bars lists everything that is measured, in a directory.
func bars(m measurer) []bar {
	lone := variant{mode: engine.FsyncOnCommit, logs: 1, publishers: 1, batch: 1}
	with := func(v variant, change func(*variant)) variant { change(&v); return v }
	journaled := with(lone, func(v *variant) { v.journal = engine.JournalRequire })
	backend := func(name string, of variant, logs, publishers int) bar {
		ring := with(of, func(v *variant) { v.logs, v.publishers, v.ring = logs, publishers, engine.IOURingAuto })
		pool := with(ring, func(v *variant) { v.ring = engine.IOURingOff })
		return bar{name: "ring / pool, " + name, limit: 0.97, measure: m.rate(ring, pool)}
	}
	each := func(v variant, logs int) variant {
		return with(v, func(v *variant) { v.logs, v.publishers = logs, logs })
	}
	list := []bar{
		backend("on_commit, 1 log, 1 publisher", lone, 1, 1),
		backend("on_commit, 1 log, 64 publishers", lone, 1, 64),
		backend("on_commit, 16 logs, 1 publisher each", lone, 16, 16),
		backend("on_commit, 64 logs, 1 publisher each", lone, 64, 64),
		backend("journal, 1 log, 1 publisher", journaled, 1, 1),
		backend("journal, 1 log, 64 publishers", journaled, 1, 64),
		backend("journal, 16 logs, 1 publisher each", journaled, 16, 16),
		backend("journal, 64 logs, 1 publisher each", journaled, 64, 64),
		{
			name: "journal / segments, 64 logs, 1 publisher each", limit: 6,
			measure: m.rate(each(journaled, 64), each(lone, 64)),
		},
		{
			name: "64 / 1 publishers, on_commit", limit: 40,
			measure: m.rate(with(lone, func(v *variant) { v.publishers = 64 }), lone),
		},
		{name: "lone publisher p50 / raw overwrite, journal", limit: 1.15, atMost: true, measure: m.loneLatency(journaled)},
		{name: "the same, in segments", measure: m.loneLatency(lone)},
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

// measurer measures in a directory: each load for a slice, each ratio from so many pairs.
type measurer struct {
	dir    string
	slice  time.Duration
	rounds int
}

// side is a side of a plan, and point its load.
func (m measurer) side(v variant) bench.Side {
	return bench.Side{Name: v.String(), Open: func(ctx context.Context, dir string, p bench.Point) (*bench.System, error) {
		return bench.OpenLogs(ctx, bench.LogOptions{Dir: filepath.Join(dir, "root"), Config: v.config(), Logs: p.Logs})
	}}
}

func (v variant) config() engine.Config {
	config := rig.Config(v.mode)
	config.IOURing, config.Journal = v.ring, v.journal
	return config
}

// String names the variant in errors.
func (v variant) String() string {
	return fmt.Sprintf("%v, ring %v, journal %v", v.mode, v.ring, v.journal)
}

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
	for round := range m.rounds {
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
func (m measurer) rate(a, b variant) measure {
	return func(ctx context.Context) (measured, error) {
		rowsA, rowsB, err := m.pairs(ctx, a, b)
		if err != nil {
			return measured{}, err
		}
		perSecond := func(r bench.Row) float64 { return r.RecordsPerSecond }
		ratesA, ratesB := column(rowsA, perSecond), column(rowsB, perSecond)
		cpu := func(r bench.Row) float64 { return r.CPUMicrosPerAppend }
		out := compared("records/s", ratesA, ratesB)
		out.CPURatio = compared("", column(rowsA, cpu), column(rowsB, cpu)).Value
		out.DeviceDsyncMicros = rowsB[0].DeviceDsyncMicros
		out.Detail = fmt.Sprintf("%.0f by %.0f records/s, CPU per append %.2f, device dsync %d µs",
			bench.MedianOf(ratesA), bench.MedianOf(ratesB), out.CPURatio, out.DeviceDsyncMicros)
		if a.ring != b.ring && rowsA[0].Backend == rowsB[0].Backend {
			out.Detail += "; there is no ring here"
		}
		return out, nil
	}
}

// loneLatency is the median latency of one publisher by that of a raw overwrite, made
// right before and after.
func (m measurer) loneLatency(v variant) measure {
	return func(ctx context.Context) (measured, error) {
		var p50, raw []float64
		plan := bench.Plan{Dir: m.dir, Points: []bench.Point{m.point(v)}, Sides: []bench.Side{m.side(v)}, Rounds: 2 * m.rounds, FloorSamples: 128}
		results, err := plan.Run(ctx, nil)
		if err != nil {
			return measured{}, err
		}
		for _, t := range results.Taken {
			p50 = append(p50, float64(t.Row.LatencyMicros.P50))
			raw = append(raw, float64(t.Row.DeviceOverwriteMicros))
		}
		out := compared("µs", p50, raw)
		if out.Value == 0 {
			return measured{}, fmt.Errorf("the filesystem of %s does not overwrite in place, or takes no time for it", m.dir)
		}
		out.Detail = fmt.Sprintf("%.0f by %.0f µs", bench.MedianOf(p50), bench.MedianOf(raw))
		return out, nil
	}
}
