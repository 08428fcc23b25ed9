package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"felix.local/felix/bench"
	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

// benchCommands measure by time.
type benchCommands struct {
	Run benchRunCommand `cmd:"" default:"withargs" help:"Put a load on logs, a broker or a server, and measure it. This is what bench alone means."`
	AB  benchABCommand  `cmd:"" name:"ab" help:"Compare two settings in pairs of measurements: the ring and the pool, unless told otherwise."`
}

// verifyFlags say whether what was acknowledged is read back.
type verifyFlags struct {
	Verify bool `name:"verify" negatable:"" default:"true" help:"read back what was acknowledged and compare every byte [default true]"`
}

// benchFlags are shared by both.
type benchFlags struct {
	Dir string `name:"dir" required:"" type:"path" env:"FELIX_BENCH_DIR" placeholder:"DIR" help:"a directory on the device to measure; what is made in it is removed"`
	storageFlags
	outputFlags
	Logs         int     `name:"logs" default:"1" placeholder:"N" help:"logs the publishers are spread over"`
	Publishers   int     `name:"publishers" default:"1" placeholder:"N" help:"publishers on all logs together, each with one append outstanding; there is at least one per log"`
	Batch        int     `name:"batch" default:"1" placeholder:"N" help:"records per append"`
	PayloadBytes int     `name:"payload-bytes" default:"128" placeholder:"BYTES" help:"payload of each record, at least 16"`
	Duration     span    `name:"duration" default:"5s" placeholder:"TIME" help:"how long each measurement takes, after the warm-up: 1500ms, 2m, or a number of seconds"`
	Warmup       span    `name:"warmup" default:"500ms" placeholder:"TIME" help:"how long the load runs before it is measured"`
	Rate         float64 `name:"rate" default:"0" placeholder:"N" help:"an open loop: so many appends per second are due, and latency counts from when each was due; 0: a publisher appends when its last append returned"`
	Sweep        []sweep `name:"sweep" sep:"none" placeholder:"AXIS=N,..." help:"measure for each of several values of publishers, logs, batch or payload-bytes; may be given several times"`
	Label        string  `name:"label" default:"run" help:"label of the rows"`
	Report       string  `name:"report" type:"path" placeholder:"DIR" help:"write a page with plots and numbers to this directory: index.html, and the plots as SVG and PNG"`
	verifyFlags
}

// roundsMax and logsMax bound what a run is asked for; the bounds of its loads are
// those of package bench.
const (
	roundsMax = 1000
	logsMax   = bench.ConcurrencyMax
)

func (*benchFlags) defaults() map[string]string { return logDefaults() }

func (f *benchFlags) validate(rounds int) error {
	limits := []limit{
		{"logs", int64(f.Logs), 1, logsMax},
		{"publishers", int64(f.Publishers), 1, bench.ConcurrencyMax},
		{"rounds", int64(rounds), 1, roundsMax},
	}
	var problems []error
	if duration := time.Duration(f.Duration); duration < time.Millisecond {
		problems = append(problems, fmt.Errorf("duration must be at least 1ms, is %v", duration))
	}
	if warmup := time.Duration(f.Warmup); warmup < 0 {
		problems = append(problems, fmt.Errorf("warmup must be at least 0, is %v", warmup))
	}
	if err := errors.Join(append(problems, validate(limits...))...); err != nil {
		return err
	}
	for _, p := range f.points() {
		if p.Logs < 1 || p.Logs > logsMax {
			return fmt.Errorf("logs must be between 1 and %d, is %d", logsMax, p.Logs)
		}
		if err := p.Load.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// points lists what is measured: every value of every sweep, with the other flags as
// they are.
func (f *benchFlags) points() []bench.Point {
	base := benchFigures{logs: f.Logs, publishers: f.Publishers, batch: f.Batch, payloadBytes: f.PayloadBytes}
	if len(f.Sweep) == 0 {
		return []bench.Point{f.point("", 0, base)}
	}
	var points []bench.Point
	for _, s := range f.Sweep {
		for _, value := range s.values {
			figures := base
			*figures.of(s.axis) = value
			points = append(points, f.point(s.axis, value, figures))
		}
	}
	return points
}

func (f *benchFlags) point(axis string, value int, of benchFigures) bench.Point {
	return bench.Point{Axis: axis, Value: value, Logs: of.logs, Load: bench.Load{
		Duration: time.Duration(f.Duration), Warmup: time.Duration(f.Warmup), Rate: f.Rate,
		PayloadBytes: of.payloadBytes, Batch: of.batch, Concurrency: max(of.publishers, of.logs),
	}}
}

// run measures the plan of the flags on sides.
func (f *benchFlags) run(a *app, out *output, rounds int, sides []bench.Side, each func(bench.Taken) error) (results bench.Results, err error) {
	if err := refuseLog(f.Dir); err != nil {
		return results, err
	}
	scratch, err := benchScratch(a, f.Dir)
	if err != nil {
		return results, err
	}
	defer joined(&err, scratch.remove)
	plan := bench.Plan{
		Dir: scratch.path, Points: f.points(), Sides: sides, Rounds: rounds, Label: f.Label, NoVerify: !f.Verify,
		Begin: func(p bench.Point, side string, round int) (func(int64), func()) {
			bar := a.progress(out, -1, fmt.Sprintf("%d of %d: %s, %s", round+1, rounds, side, p))
			return bar.add, bar.finish
		},
	}
	results, err = plan.Run(a.ctx, each)
	return results, benchFailed(err)
}

// benchFailed tells a record that is not there from a measurement that failed.
func benchFailed(err error) error {
	var lost *bench.LostError
	if errors.As(err, &lost) {
		return &exitError{code: exitVerify, err: err}
	}
	return err
}

// benchScratch makes a directory for measurements and removes what a killed run left.
func benchScratch(a *app, dir string) (*scratch, error) {
	const prefix = ".felix-bench-"
	if err := removeAbandoned(dir, prefix); err != nil {
		fmt.Fprintln(a.stderr, "felixd: warning:", oneLine(err))
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	return newScratch(dir, prefix)
}

// openBenchBroker opens a broker with one stream and its subscriptions.
func openBenchBroker(ctx context.Context, dir string, shards, subscribers int, config engine.Config) (*bench.System, error) {
	return bench.OpenBroker(ctx, bench.BrokerOptions{
		Dir: dir, Shards: shards, Subscribers: subscribers,
		Broker: broker.Config{Engine: config, Logger: config.Logger, ShardsMax: logsMax, ShardsTotalMax: logsMax},
	})
}

// benchRunCommand measures one way to have it.
type benchRunCommand struct {
	benchFlags
	Through     string `name:"through" enum:"log,broker,server" default:"log" placeholder:"NAME" help:"log, broker or server: what the load is put on"`
	Subscribers int    `name:"subscribers" default:"0" placeholder:"N" help:"subscriptions that take everything while it is published, through the broker"`
	Rounds      int    `name:"rounds" default:"1" placeholder:"N" help:"measure everything so many times and report each row's median round by rate"`
	clientFlags
}

// Validate is called by kong.
func (c *benchRunCommand) Validate() error {
	err := errors.Join(c.validate(c.Rounds), validate(limit{"subscribers", int64(c.Subscribers), 0, broker.DefaultSubscriptionsMax}))
	if err == nil && c.Subscribers > 0 && c.Through != throughBroker {
		err = errors.New("subscribers are to be had --through broker")
	}
	return err
}

// Run measures.
func (c *benchRunCommand) Run(a *app) error {
	out := a.output(c.outputFlags)
	side, err := c.side(a)
	if err != nil {
		return err
	}
	var each func(bench.Taken) error
	if c.Rounds == 1 {
		each = func(t bench.Taken) error { return out.emit(measuredEvent{t.Row}) }
	}
	results, err := c.run(a, out, c.Rounds, []bench.Side{side}, each)
	if err != nil {
		return err
	}
	if c.Rounds > 1 {
		for i := range results.Points {
			if err := out.emit(measuredEvent{results.Summarize(i, 0).Row}); err != nil {
				return err
			}
		}
	}
	return c.writeReport(a, results, "Felix under load")
}

func (c *benchRunCommand) side(a *app) (bench.Side, error) {
	config, err := c.storageFlags.config(c.defaults())
	if err != nil {
		return bench.Side{}, err
	}
	config.Logger = a.logger
	if c.Through != throughServer {
		return bench.Side{Name: c.Through, Open: openBench(c.Through, c.Subscribers, config)}, nil
	}
	server, err := c.clientFlags.client()
	return bench.Side{Name: c.Through, Open: func(ctx context.Context, _ string, p bench.Point) (*bench.System, error) {
		return openServerStream(ctx, server, p, config)
	}}, err
}

// openBench opens logs, or a stream of a broker, in a root of their own, one log as
// well: what a store does across its logs is part of what is measured.
func openBench(through string, subscribers int, config engine.Config) func(context.Context, string, bench.Point) (*bench.System, error) {
	return func(ctx context.Context, dir string, p bench.Point) (*bench.System, error) {
		root := filepath.Join(dir, "root")
		if through == throughBroker {
			return openBenchBroker(ctx, root, p.Logs, subscribers, config)
		}
		return bench.OpenLogs(ctx, bench.LogOptions{Dir: root, Config: config, Logs: p.Logs})
	}
}

// measuredEvent is one row, with what it cost.
type measuredEvent struct{ bench.Row }

func (measuredEvent) kind() string { return "bench" }

func (e measuredEvent) text() string {
	l := e.LatencyMicros
	text := fmt.Sprintf("%d logs, %d publishers, batch %d, %d bytes, %s, %s\n", e.Logs, e.Concurrency, e.Batch, e.PayloadBytes, e.Fsync, e.Backend) +
		fmt.Sprintf("  %.0f records/s   p50 %d  p90 %d  p99 %d  p99.9 %d  max %d µs\n", e.RecordsPerSecond, l.P50, l.P90, l.P99, l.P999, l.Max) +
		fmt.Sprintf("  %.1f µs CPU/append   %.1f records/write   %.3f flushes/append   %.1f ops/enter   verified %d records\n",
			e.CPUMicrosPerAppend, e.RecordsPerWrite, e.FlushesPerAppend, e.OpsPerEnter, e.VerifiedRecords) +
		fmt.Sprintf("  device: overwrite %d, dsync append %d, write + fdatasync %d µs", e.DeviceOverwriteMicros, e.DeviceDsyncMicros, e.DeviceSequentialMicros)
	if e.RateAsked > 0 {
		text += fmt.Sprintf("\n  open loop: %g appends/s asked for, %.0f served, %d not begun in time", e.RateAsked, float64(e.Appends)/e.Seconds, e.Unserved)
	}
	return text
}
