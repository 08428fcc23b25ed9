package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"felix.local/felix/bench"
	"felix.local/felix/broker"
	"felix.local/felix/cmd/felixd/metrics"
	"felix.local/felix/engine"
)

// logBenchCommand measures rows one after the other: a matrix, backends and ways in
// side by side.
type logBenchCommand struct {
	Dir string `name:"dir" required:"" type:"path" env:"FELIX_BENCH_DIR" placeholder:"DIR" help:"a directory for this run alone; a single row leaves its log there"`
	storageFlags
	outputFlags
	Records       int64   `name:"records" default:"20000" env:"FELIX_BENCH_RECORDS" placeholder:"N" help:"records to measure"`
	WarmupRecords int64   `name:"warmup-records" default:"2000" placeholder:"N" help:"records appended before measuring"`
	PayloadBytes  int     `name:"payload-bytes" default:"128" env:"FELIX_BENCH_PAYLOAD" placeholder:"BYTES" help:"payload of each record, at least 34"`
	Batch         numbers `name:"batch" env:"FELIX_BENCH_BATCH" placeholder:"N..." help:"records per append; several values make several rows [default 1]"`
	Concurrency   numbers `name:"concurrency" env:"FELIX_BENCH_CONCURRENCY" placeholder:"N..." help:"publishers, each with one append outstanding; several values make several rows [default 1]"`
	Logs          int     `name:"logs" default:"1" placeholder:"N" help:"logs the publishers are spread over"`
	Label         string  `name:"label" default:"run" help:"label of the rows"`
	Matrix        bool    `name:"matrix" help:"rows for none, periodic and on_commit, batch 1 and 16, 1, 8 and 64 publishers; what --fsync, --batch or --concurrency say takes the place of theirs"`
	Backends      words   `name:"backends" placeholder:"NAME..." help:"ring, pool or both: each row on each, in turn; default: as configured"`
	Through       words   `name:"through" placeholder:"NAME..." help:"log, broker or both: each row on each, in turn [default log]"`
	Subscribers   int     `name:"subscribers" default:"0" placeholder:"N" help:"subscriptions that take everything while it is published, through the broker"`
	Rounds        int     `name:"rounds" default:"1" placeholder:"N" help:"repeat all rows and report each row's median round by rate"`
	Markdown      bool    `name:"markdown" help:"print a table for a document at the end"`
	verifyFlags
	metricsFlags
}

func (*logBenchCommand) defaults() map[string]string { return logDefaults() }

// Validate is called by kong.
func (c *logBenchCommand) Validate() error {
	var problems []error
	for _, backend := range c.Backends {
		if _, known := backendModes[backend]; !known {
			problems = append(problems, fmt.Errorf("backends: %q is not ring or pool", backend))
		}
	}
	for _, through := range c.Through {
		if through != throughLog && through != throughBroker {
			problems = append(problems, fmt.Errorf("through: %q is not log or broker", through))
		}
	}
	if c.Subscribers > 0 && (len(c.Through) != 1 || c.Through[0] != throughBroker) {
		problems = append(problems, errors.New("subscribers are to be had --through broker"))
	}
	limits := []limit{
		{"subscribers", int64(c.Subscribers), 0, broker.DefaultSubscriptionsMax},
		{"records", c.Records, 1, bench.RecordsMax},
		{"warmup-records", c.WarmupRecords, 0, bench.RecordsMax},
		{"payload-bytes", int64(c.PayloadBytes), int64(bench.PayloadBytesMin), bench.PayloadBytesMax},
		{"logs", int64(c.Logs), 1, logsMax},
		{"rounds", int64(c.Rounds), 1, roundsMax},
	}
	for _, batch := range c.Batch {
		limits = append(limits, limit{"batch", int64(batch), 1, bench.BatchMax})
	}
	for _, concurrency := range c.Concurrency {
		limits = append(limits, limit{"concurrency", int64(concurrency), 1, bench.ConcurrencyMax})
	}
	if err := errors.Join(append(problems, validate(limits...))...); err != nil {
		return err
	}
	for _, run := range c.runs() {
		if err := run.load.Validate(); err != nil {
			return err // the first says it for all: they have the payload in common
		}
	}
	return nil
}

// backendModes maps a backend asked for to the setting that forces it.
var backendModes = map[string]string{"ring": "require", "pool": "0"}

// benchEvent is one row.
type benchEvent struct{ bench.Row }

func (benchEvent) kind() string { return "bench" }

func (e benchEvent) text() string {
	return fmt.Sprintf("%-14s %-12s logs %-3d batch %-3d publishers %-3d %10.0f records/s   p50 %6d  p99 %6d  max %6d µs   device dsync %d µs",
		e.Fsync, e.Backend, e.Logs, e.Batch, e.Concurrency, e.RecordsPerSecond,
		e.LatencyMicros.P50, e.LatencyMicros.P99, e.LatencyMicros.Max, e.DeviceDsyncMicros)
}

// benchRun is one row to be measured.
type benchRun struct {
	fsync   string // empty: as configured
	backend string // empty: as configured
	through string
	load    bench.Load
}

// What a load goes through.
const (
	throughLog    = "log"
	throughBroker = "broker"
	throughServer = "server"
)

func (c *logBenchCommand) Run(a *app) (err error) {
	out := a.output(c.outputFlags)
	runs := c.runs()
	for _, run := range runs {
		if _, err := c.config(run); err != nil {
			return err
		}
	}
	exporter, stop, err := c.serve(a)
	if err != nil {
		return err
	}
	defer joined(&err, stop)
	if err := refuseLog(c.Dir); err != nil {
		return err
	}
	if len(runs) == 1 && c.Rounds == 1 {
		row, err := c.measure(a, out, runs[0], c.Dir, exporter)
		if err != nil {
			return err
		}
		return c.report(a, out, []bench.Row{row})
	}
	scratch, err := benchScratch(a, c.Dir)
	if err != nil {
		return err
	}
	defer joined(&err, scratch.remove)
	rows := make([]bench.Row, 0, len(runs)*c.Rounds)
	for round := range c.Rounds {
		for i, run := range runs {
			dir := filepath.Join(scratch.path, fmt.Sprintf("%d-%d", round, i))
			row, err := c.measure(a, out, run, dir, exporter)
			if err != nil {
				return err
			}
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			rows = append(rows, row)
			if c.printsRowByRow() {
				if err := out.emit(benchEvent{row}); err != nil {
					return err
				}
			}
		}
	}
	if c.printsRowByRow() {
		return nil
	}
	return c.report(a, out, rows)
}

// printsRowByRow says that there is nothing to wait for before a row is printed.
func (c *logBenchCommand) printsRowByRow() bool { return c.Rounds == 1 && !c.Markdown }

// report prints the median of the rounds of each row.
func (c *logBenchCommand) report(a *app, out *output, rows []bench.Row) error {
	medians := bench.Median(rows)
	if c.Markdown {
		_, err := fmt.Fprint(a.stdout, bench.Markdown(medians))
		return err
	}
	for _, row := range medians {
		if err := out.emit(benchEvent{row}); err != nil {
			return err
		}
	}
	return nil
}

// runs lists the rows, backends innermost so that what is compared runs side by side.
func (c *logBenchCommand) runs() []benchRun {
	fsyncs, batches, concurrencies := []string{""}, numbers{1}, numbers{1}
	backends, throughs := []string{""}, []string{throughLog}
	if c.Matrix {
		fsyncs, batches, concurrencies = []string{"none", "periodic", "on_commit"}, numbers{1, 16}, numbers{1, 8, 64}
	}
	if !isBlank(c.Fsync) {
		fsyncs = []string{c.Fsync}
	}
	if len(c.Batch) > 0 {
		batches = c.Batch
	}
	if len(c.Concurrency) > 0 {
		concurrencies = c.Concurrency
	}
	if len(c.Backends) > 0 {
		backends = c.Backends
	}
	if len(c.Through) > 0 {
		throughs = c.Through
	}
	var runs []benchRun
	for _, fsync := range fsyncs {
		for _, batch := range batches {
			for _, concurrency := range concurrencies {
				load := bench.Load{
					Records: c.Records, WarmupRecords: c.WarmupRecords, PayloadBytes: c.PayloadBytes,
					Batch: batch, Concurrency: concurrency,
				}
				for _, backend := range backends {
					for _, through := range throughs {
						runs = append(runs, benchRun{fsync, backend, through, load})
					}
				}
			}
		}
	}
	return runs
}

// config is the configuration of one row.
func (c *logBenchCommand) config(run benchRun) (engine.Config, error) {
	flags := c.storageFlags
	if run.fsync != "" {
		flags.Fsync = run.fsync
	}
	if run.backend != "" {
		flags.IOURing = backendModes[run.backend]
	}
	return flags.config(c.defaults())
}

// measure runs one row in dir.
func (c *logBenchCommand) measure(a *app, out *output, run benchRun, dir string, exporter *metrics.Metrics) (bench.Row, error) {
	config, err := c.config(run)
	if err != nil {
		return bench.Row{}, err
	}
	config.Logger = a.logger
	if exporter != nil {
		config.Observer = exporter
	}
	bar := a.progress(out, run.load.Records+run.load.WarmupRecords, fmt.Sprintf("%s ×%d", config.Fsync(), run.load.Concurrency))
	defer bar.finish()
	trial := bench.Trial{
		Label: c.Label, Dir: dir, Load: run.load, NoVerify: !c.Verify, Progress: bar.add,
		Open: func(ctx context.Context) (*bench.System, error) {
			if run.through == throughBroker {
				return openBenchBroker(ctx, dir, c.Logs, c.Subscribers, config)
			}
			return bench.OpenLogs(ctx, bench.LogOptions{Dir: dir, Config: config, Logs: c.Logs, Single: c.Logs == 1})
		},
	}
	if exporter != nil {
		trial.Opened = func(s *bench.System) func() {
			exporter.Attach(s.Store)
			return exporter.Detach
		}
	}
	m, err := trial.Run(a.ctx)
	return m.Row, benchFailed(err)
}

// numbers is a flag with several numbers, separated by blanks or commas.
type numbers []int

// UnmarshalText reads the flag.
func (n *numbers) UnmarshalText(text []byte) error {
	*n = nil
	for _, word := range split(string(text)) {
		value, err := strconv.Atoi(word)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", word)
		}
		*n = append(*n, value)
	}
	if len(*n) == 0 {
		return errors.New("no number given")
	}
	return nil
}

// words is a flag with several words, separated by blanks or commas.
type words []string

// UnmarshalText reads the flag.
func (w *words) UnmarshalText(text []byte) error {
	*w = split(string(text))
	return nil
}

func split(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' })
}
