package main

import (
	"context"

	"felix.local/felix/bench"
)

// loadColumns are measured of every load.
func loadColumns() []column {
	return []column{
		{"records_per_second", "records/s", 0},
		{"p50_us", "p50 µs", 0},
		{"p99_us", "p99 µs", 0},
		{"cpu_us_per_append", "CPU µs/append", 1},
		{"records_per_write", "records/write", 1},
		{"device_dsync_us", "device dsync µs", 0},
	}
}

// loadSample is what a row has for them.
func loadSample(r bench.Row) sample {
	return sample{
		"records_per_second": r.RecordsPerSecond,
		"p50_us":             float64(r.LatencyMicros.P50),
		"p99_us":             float64(r.LatencyMicros.P99),
		"cpu_us_per_append":  r.CPUMicrosPerAppend,
		"records_per_write":  r.RecordsPerWrite,
		"device_dsync_us":    float64(r.DeviceDsyncMicros),
	}
}

// payloadBytes is the size of a record where that is not what grows.
const payloadBytes = 128

// load is a slice of records of the usual size, one per append.
func (m measurer) load(publishers int) bench.Load {
	return bench.Load{Duration: m.slice, Warmup: m.slice / 4, PayloadBytes: payloadBytes, Batch: 1, Concurrency: publishers}
}

func (m measurer) publishersCurve() curve {
	return curve{
		name: "publishers", axis: "publishers", show: count, columns: loadColumns(),
		about: "Publishers on one log, records of 128 bytes.",
		measure: func(ctx context.Context, into *lines) error {
			var points []bench.Point
			for _, n := range m.sizes.publishers {
				points = append(points, bench.Point{Value: n, Logs: 1, Load: m.load(n)})
			}
			return m.plan(ctx, "publishers", points, into, loadSample)
		},
	}
}

const (
	// wholeBytes is the record size from which on a load is bounded by its bytes and
	// not by its time: the page cache takes gigabytes in a slice, and whoever is
	// measured next would wait for them.
	wholeBytes = 64 << 10
	// wholeRate is how many bytes there are for each second of a slice: 256 MiB for the
	// slice that is the default. wholeRecordsMin are appended at least.
	wholeRate       = 640 << 20
	wholeRecordsMin = 4
)

func (m measurer) recordsCurve() curve {
	return curve{
		name: "records", axis: "record size", show: binary,
		columns: append(loadColumns(), column{"megabytes_per_second", "MB/s", 1}),
		about:   "Sizes of records, one publisher on one log.",
		measure: func(ctx context.Context, into *lines) error {
			var points []bench.Point
			for _, size := range m.sizes.payloads {
				load := m.load(1)
				load.PayloadBytes = size
				if size >= wholeBytes {
					load.Duration, load.Warmup = 0, 0
					load.Records = max(wholeRecordsMin, int64(m.slice.Seconds()*wholeRate)/int64(size))
					load.WarmupRecords = load.Records / 4
				}
				points = append(points, bench.Point{Value: size, Logs: 1, Load: load})
			}
			return m.plan(ctx, "record bytes", points, into, func(r bench.Row) sample {
				s := loadSample(r)
				s["megabytes_per_second"] = r.RecordsPerSecond * float64(r.PayloadBytes) / 1e6
				return s
			})
		},
	}
}

// plan measures points in all modes, each in an empty store.
func (m measurer) plan(ctx context.Context, what string, points []bench.Point, into *lines, of func(bench.Row) sample) error {
	return m.within(func(dir string) error {
		plan := bench.Plan{
			Dir: dir, Points: points, Rounds: m.rounds, FloorSamples: floorSamples,
			Begin: func(p bench.Point, side string, round int) (func(int64), func()) {
				m.note("%s: %d, %s, round %d", what, p.Value, side, round+1)
				return nil, func() {}
			},
		}
		for _, mode := range m.modes {
			plan.Sides = append(plan.Sides, bench.Side{Name: mode.name, Open: func(ctx context.Context, dir string, p bench.Point) (*bench.System, error) {
				return bench.OpenLogs(ctx, bench.LogOptions{Dir: root(dir), Config: mode.config(), Logs: p.Logs})
			}})
		}
		_, err := plan.Run(ctx, func(t bench.Taken) error {
			into.add(int64(points[t.Point].Value), plan.Sides[t.Side].Name, of(t.Row))
			return nil
		})
		return err
	})
}
