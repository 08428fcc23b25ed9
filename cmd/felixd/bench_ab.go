package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"felix.local/felix/bench"
	"felix.local/felix/engine"
)

// benchABCommand compares two configurations of the engine.
type benchABCommand struct {
	benchFlags
	A          []string `name:"a" sep:"none" placeholder:"NAME=VALUE" help:"a setting of the first side, any FELIX_DURABLE_ or FELIX_STORAGE_ variable; may be given several times [default FELIX_STORAGE_IO_URING=1]"`
	B          []string `name:"b" sep:"none" placeholder:"NAME=VALUE" help:"the same of the second side [default FELIX_STORAGE_IO_URING=0]"`
	Through    string   `name:"through" enum:"log,broker" default:"log" placeholder:"NAME" help:"log or broker: what the load is put on"`
	NullDevice bool     `name:"null-device" help:"measure a third side on a device that does nothing, and with it the processor time of one operation of the device"`
	Rounds     int      `name:"rounds" default:"5" placeholder:"N" help:"pairs of measurements; the side that goes first alternates"`
}

// Validate is called by kong.
func (c *benchABCommand) Validate() error { return c.validate(c.Rounds) }

// abEvent compares the two sides of a point. Ratios are A by B, of the medians of all
// rounds; intervals are 95%, of the geometric mean of the ratios of the pairs.
type abEvent struct {
	A            string `json:"a"`
	B            string `json:"b"`
	Fsync        string `json:"fsync"`
	Logs         int    `json:"logs"`
	Publishers   int    `json:"publishers"`
	Batch        int    `json:"batch"`
	PayloadBytes int    `json:"payload_bytes"`
	Rounds       int    `json:"rounds"`

	ThroughputRatio         float64   `json:"throughput_ratio"`
	ThroughputRatioInterval []float64 `json:"throughput_ratio_interval"`
	ThroughputRatioMean     float64   `json:"throughput_ratio_mean"`
	ThroughputPairs         []float64 `json:"throughput_pairs"`
	// CPURatio is of the processor time per append: below 1, A needs less.
	CPURatio         float64   `json:"cpu_ratio"`
	CPURatioInterval []float64 `json:"cpu_ratio_interval"`
	CPURatioMean     float64   `json:"cpu_ratio_mean"`
	CPUPairs         []float64 `json:"cpu_pairs"`
	// CPUPerOp is nil unless a null device was measured too.
	CPUPerOp         *perOpFields `json:"cpu_per_op,omitempty"`
	P50Ratio         float64      `json:"p50_ratio"`
	P50RatioInterval []float64    `json:"p50_ratio_interval"`
	P99Ratio         float64      `json:"p99_ratio"`
	P99RatioInterval []float64    `json:"p99_ratio_interval"`

	// SideA and SideB are the median rounds, by rate, with the latencies of all.
	SideA bench.Row `json:"side_a"`
	SideB bench.Row `json:"side_b"`
	// RowsA and RowsB are all measurements, by round.
	RowsA []bench.Row `json:"rows_a"`
	RowsB []bench.Row `json:"rows_b"`
	// Verified: every acknowledged record was read back.
	Verified bool     `json:"verified"`
	Warnings []string `json:"warnings"`
}

// perOpFields compare the processor time of one operation of the device: that of the
// process less that of the same load on a device that does nothing.
type perOpFields struct {
	Ratio         float64   `json:"ratio"`
	RatioInterval []float64 `json:"ratio_interval"`
	Pairs         []float64 `json:"pairs"`
	MicrosA       float64   `json:"a_us"`
	MicrosB       float64   `json:"b_us"`
	// NullMicros is the processor time of an append on the null device.
	NullMicros float64 `json:"null_us_per_append"`
}

func perOp(results bench.Results, point int, null []float64) *perOpFields {
	a, b := results.PerOp(point, 0, null), results.PerOp(point, 1, null)
	e := bench.Compare(a, b)
	return &perOpFields{
		Ratio: e.Ratio, RatioInterval: e.Interval(), Pairs: listed(e.Pairs),
		MicrosA: bench.MedianOf(a), MicrosB: bench.MedianOf(b), NullMicros: bench.MedianOf(null),
	}
}

func (abEvent) kind() string { return "ab" }

func (e abEvent) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d logs, %d publishers, batch %d, %d bytes, %s; %d pairs\n", e.Logs, e.Publishers, e.Batch, e.PayloadBytes, e.Fsync, e.Rounds)
	for _, side := range []struct {
		letter, name string
		row          bench.Row
	}{{"A", e.A, e.SideA}, {"B", e.B, e.SideB}} {
		r := side.row
		fmt.Fprintf(&b, "  %s  %s (%s)\n", side.letter, side.name, r.Backend)
		fmt.Fprintf(&b, "     %.0f records/s   p50 %d  p99 %d  p99.9 %d  max %d µs\n",
			r.RecordsPerSecond, r.LatencyMicros.P50, r.LatencyMicros.P99, r.LatencyMicros.P999, r.LatencyMicros.Max)
		fmt.Fprintf(&b, "     %.1f µs CPU/append   %.1f records/write   %.3f flushes/append   %.1f ops/enter   device dsync %d, overwrite %d µs\n",
			r.CPUMicrosPerAppend, r.RecordsPerWrite, r.FlushesPerAppend, r.OpsPerEnter, r.DeviceDsyncMicros, r.DeviceOverwriteMicros)
	}
	line := func(what string, ratio float64, interval []float64) {
		fmt.Fprintf(&b, "  A/B %-13s %.3f%s\n", what, ratio, intervalText(interval))
	}
	line("throughput", e.ThroughputRatio, e.ThroughputRatioInterval)
	line("CPU/append", e.CPURatio, e.CPURatioInterval)
	if p := e.CPUPerOp; p != nil {
		line("CPU/device op", p.Ratio, p.RatioInterval)
		fmt.Fprintf(&b, "     %.1f by %.1f µs, with %.1f µs per append on a null device\n", p.MicrosA, p.MicrosB, p.NullMicros)
	}
	line("p50", e.P50Ratio, e.P50RatioInterval)
	line("p99", e.P99Ratio, e.P99RatioInterval)
	for _, w := range e.Warnings {
		fmt.Fprintf(&b, "  warning: %s\n", w)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func intervalText(interval []float64) string {
	if len(interval) == 0 {
		return ""
	}
	return fmt.Sprintf("  (95%%: %.3f to %.3f)", interval[0], interval[1])
}

// Run compares.
func (c *benchABCommand) Run(a *app) error {
	out := a.output(c.outputFlags)
	var sides []bench.Side
	for _, given := range []struct {
		flag     string
		settings []string
		or       string
	}{{"--a", c.A, "FELIX_STORAGE_IO_URING=1"}, {"--b", c.B, "FELIX_STORAGE_IO_URING=0"}} {
		settings := given.settings
		if len(settings) == 0 {
			settings = []string{given.or}
		}
		side, err := c.side(a, given.flag, settings)
		if err != nil {
			return err
		}
		sides = append(sides, side)
	}
	if sides[0].Name == sides[1].Name {
		return usage("both sides are %s; there is nothing to compare", sides[0].Name)
	}
	if c.NullDevice {
		side, err := c.nullSide(a)
		if err != nil {
			return err
		}
		sides = append(sides, side)
	}
	results, err := c.run(a, out, c.Rounds, sides, nil)
	if err != nil {
		return err
	}
	var null [][]float64
	if c.NullDevice {
		results, null = results.WithoutNull()
	}
	for i := range results.Points {
		e := c.event(results, i)
		if c.NullDevice {
			e.CPUPerOp = perOp(results, i, null[i])
		}
		if err := out.emit(e); err != nil {
			return err
		}
	}
	return c.writeReport(a, results, "Felix, A against B")
}

// side is the configuration of the flags with the settings of one side.
func (c *benchABCommand) side(a *app, flag string, settings []string) (bench.Side, error) {
	texts := maps.Clone(c.defaults())
	maps.Copy(texts, given(&c.storageFlags))
	for _, setting := range settings {
		name, value, found := strings.Cut(setting, "=")
		if !found || isBlank(name) {
			return bench.Side{}, usage("%s %q is not NAME=VALUE", flag, setting)
		}
		texts[strings.TrimSpace(name)] = value
	}
	config, err := engine.ParseConfig(texts)
	if err != nil {
		return bench.Side{}, usage("%s %s: %w", flag, strings.Join(settings, " "), err)
	}
	config.Logger = a.logger
	return bench.Side{Name: strings.Join(settings, " "), Open: openBench(c.Through, 0, config)}, nil
}

// nullSide has the settings that both sides have.
func (c *benchABCommand) nullSide(a *app) (bench.Side, error) {
	config, err := c.storageFlags.config(c.defaults())
	config.Logger = a.logger
	side := bench.Side{Name: "null device", NoVerify: true}
	side.Open = func(ctx context.Context, dir string, p bench.Point) (*bench.System, error) {
		return openBench(c.Through, 0, bench.OnNullDevice(config))(ctx, dir, p)
	}
	return side, err
}

func (c *benchABCommand) event(results bench.Results, point int) abEvent {
	compared := results.Compare(point)
	a, b := compared.A.Row, compared.B.Row
	e := abEvent{
		A: results.Sides[0], B: results.Sides[1], Fsync: a.Fsync,
		Logs: a.Logs, Publishers: a.Concurrency, Batch: a.Batch, PayloadBytes: a.PayloadBytes, Rounds: results.Rounds,

		ThroughputRatio: compared.Throughput.Ratio, ThroughputRatioInterval: compared.Throughput.Interval(),
		ThroughputRatioMean: compared.Throughput.Mean, ThroughputPairs: listed(compared.Throughput.Pairs),
		CPURatio: compared.CPU.Ratio, CPURatioInterval: compared.CPU.Interval(),
		CPURatioMean: compared.CPU.Mean, CPUPairs: listed(compared.CPU.Pairs),
		P50Ratio: compared.P50.Ratio, P50RatioInterval: compared.P50.Interval(),
		P99Ratio: compared.P99.Ratio, P99RatioInterval: compared.P99.Interval(),
		SideA: a, SideB: b, Verified: c.Verify, Warnings: []string{},
	}
	for _, t := range results.Of(point, 0) {
		e.RowsA = append(e.RowsA, t.Row)
	}
	for _, t := range results.Of(point, 1) {
		e.RowsB = append(e.RowsB, t.Row)
	}
	if a.Fsync != b.Fsync {
		e.Fsync = a.Fsync + " and " + b.Fsync
	}
	if differsInRing(results.Sides) && a.Backend == b.Backend {
		reason := cmp.Or(results.Of(point, 0)[0].Reason, "no reason is known")
		e.Warnings = append(e.Warnings, fmt.Sprintf("both sides ran on the %s, so nothing was compared: %s", a.Backend, reason))
	}
	return e
}

// differsInRing says that the sides were to differ in the backend.
func differsInRing(sides []string) bool {
	return slices.ContainsFunc(sides, func(s string) bool { return strings.Contains(s, "FELIX_STORAGE_IO_URING=") })
}
