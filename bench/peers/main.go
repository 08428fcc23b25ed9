package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"github.com/alecthomas/kong"
)

type command struct {
	Dir      string        `name:"dir" type:"path" placeholder:"DIR" help:"where runs keep their files, on the device to be measured [default: the system's for temporary files]"`
	Rounds   int           `name:"rounds" default:"5" placeholder:"N" help:"runs of each target on each row; their order turns from round to round"`
	Duration time.Duration `name:"duration" default:"1s" placeholder:"TIME" help:"about how long a run is measured, after a quarter of it to warm up"`
	Targets  []string      `name:"targets" placeholder:"NAME,..." help:"targets or patterns of them, such as pebble or bbolt*; felix is always among them [default: all that --list does not call extra]"`
	Rows     []string      `name:"rows" placeholder:"ROW,..." help:"rows or patterns of them, such as 64x1:1x128 or *:1x128: logs x publishers of each : batch x bytes [default: all]"`
	Verify   bool          `name:"verify" default:"true" negatable:"" help:"open each target again after a run and compare what it holds with what it acknowledged"`
	JSON     bool          `name:"json" help:"print JSON, samples included, instead of a table"`
	Out      string        `name:"out" type:"path" placeholder:"DIR" help:"write peers.json, peers.md and a plot (SVG, PNG) per batch and record size there too"`
	List     bool          `name:"list" help:"show targets with their configuration, and rows"`
	Strace   bool          `name:"strace" help:"count, with strace, the syncs between the acknowledgements of a lone publisher to each target, instead of measuring"`

	ChildAppends int    `name:"child-appends" hidden:"" help:"be the process that is traced"`
	ChildTarget  string `name:"child-target" hidden:""`
}

func main() {
	var c command
	kong.Parse(&c, kong.Name("peers"), kong.Description("Felix beside other Go libraries that keep a log durable."))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := c.run(ctx, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func (c *command) run(ctx context.Context, stdout, stderr io.Writer) error {
	if c.ChildAppends > 0 {
		return child(ctx, targets(), c.ChildTarget, c.Dir, c.ChildAppends)
	}
	list, err := c.selected()
	if err != nil {
		return err
	}
	rows, err := selectNamed("row", allRows(), row.name, c.Rows)
	if err != nil {
		return err
	}
	if c.Rounds < 1 || c.Duration <= 0 {
		return errors.New("--rounds and --duration must be above 0")
	}
	switch {
	case c.List:
		return showList(stdout, rows)
	case c.Strace:
		return c.trace(ctx, list, stdout)
	default:
		return c.measure(ctx, rows, list, stdout, stderr)
	}
}

// showList prints the table of targets, those that are extra, and the rows.
func showList(stdout io.Writer, rows []row) error {
	text := targetTable(targets())
	for _, t := range targets() {
		if t.extra {
			text += "\nextra: " + t.name
		}
	}
	text += "\n"
	for _, r := range rows {
		text += "\nrow: " + r.name()
	}
	_, err := fmt.Fprintln(stdout, text)
	return err
}

// selected puts felix first, since the others are set against it.
func (c *command) selected() ([]target, error) {
	all := targets()
	if len(c.Targets) == 0 {
		return slices.DeleteFunc(all, func(t target) bool { return t.extra }), nil
	}
	list, err := selectNamed("target", all, targetName, c.Targets)
	if err != nil {
		return nil, err
	}
	if list[0].name != all[0].name {
		list = append(all[:1:1], list...)
	}
	return list, nil
}

// measure runs all rounds and reports.
func (c *command) measure(ctx context.Context, rows []row, list []target, stdout, stderr io.Writer) (err error) {
	if c.Dir != "" {
		if err := os.MkdirAll(c.Dir, 0o750); err != nil {
			return err
		}
	}
	p := plan{dir: c.Dir, duration: c.Duration, verify: c.Verify}
	result := report{Host: thisHost()}
	for _, r := range rows {
		samples, err := p.interleave(ctx, r, list, c.Rounds, stderr)
		result.Samples = append(result.Samples, samples...)
		if err != nil {
			return err
		}
	}
	result.Summaries = summarize(rows, list, result.Samples)
	if c.Out != "" {
		if err := c.write(result); err != nil {
			return err
		}
	}
	if c.JSON {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", " ")
		return encoder.Encode(result)
	}
	_, err = fmt.Fprint(stdout, markdown(result.Summaries))
	return err
}

// interleave runs every target of a row once in each round. Each round begins with another
// target, so that none always runs behind the same neighbour or first.
func (p plan) interleave(ctx context.Context, r row, list []target, rounds int, stderr io.Writer) ([]sample, error) {
	var serving []target
	for _, t := range list {
		if t.serves == nil || t.serves(r) {
			serving = append(serving, t)
		}
	}
	var samples []sample
	for round := range rounds {
		for i := range serving {
			t := serving[(i+round)%len(serving)]
			s, err := p.run(ctx, t, r, round)
			if err != nil {
				return samples, fmt.Errorf("%s on %s, round %d: %w", t.name, r.name(), round, err)
			}
			fmt.Fprintf(stderr, "%-16s %-18s round %d %10.0f records/s  p50 %6d µs  device overwrite %.0f µs\n",
				s.Row, s.Target, round, s.RecordsPerSecond, s.LatencyMicros.P50, s.DeviceOverwriteMicros)
			samples = append(samples, s)
		}
	}
	return samples, nil
}

// write leaves the report in files.
func (c *command) write(r report) error {
	if err := os.MkdirAll(c.Out, 0o750); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(c.Out, "peers.json"), append(raw, '\n'), 0o640),
		os.WriteFile(filepath.Join(c.Out, "peers.md"), []byte(markdown(r.Summaries)), 0o640),
		plotAll(r.Summaries, c.Out))
}
