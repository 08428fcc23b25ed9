package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], defaultSizes(), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// The exit codes.
const (
	exitOK = iota
	exitFailed
	exitUsage
)

// run is the program without the process around it.
func run(ctx context.Context, args []string, of sizes, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("dir", ".", "a directory on the device to measure; what is made in it is removed")
	slice := flags.Duration("slice", 400*time.Millisecond, "how long each load is measured")
	rounds := flags.Int("rounds", 3, "how often each point is measured")
	only := flags.String("only", "", "measure only the curves whose name contains this")
	file := flags.String("json", "", "write every value that was measured to this file")
	markdown := flags.Bool("markdown", false, "print tables for a document")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	if flags.NArg() > 0 || *slice < time.Millisecond || *rounds < 1 {
		fmt.Fprintln(stderr, "scale: there are no arguments besides flags, a slice has at least a millisecond, and there is at least one round")
		return exitUsage
	}
	began := time.Now()
	m := measurer{dir: *dir, slice: *slice, rounds: *rounds, sizes: of, progress: stderr}
	table := text
	if *markdown {
		table = document
	}
	drawn, err := m.scale(ctx, *only, func(d drawing) error { return table(stdout, d) })
	if *file != "" && len(drawn) > 0 {
		err = errors.Join(err, writeRecord(*file, "go run ./bench/scale "+strings.Join(args, " "), began, m, drawn))
	}
	if err != nil {
		fmt.Fprintln(stderr, "scale:", err)
		return exitFailed
	}
	return exitOK
}

// scale measures curves in a directory that it makes and removes, and tells of each
// when it is done. One that fails does not keep the others from being measured.
func (m measurer) scale(ctx context.Context, only string, done func(drawing) error) (drawn []drawing, err error) {
	if m.dir, err = os.MkdirTemp(m.dir, ".felix-scale-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(m.dir)) }()
	if m.modes, err = m.modesHere(ctx); err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(m.curves(), func(c curve) bool { return !strings.Contains(c.name, only) })
	if len(list) == 0 {
		return nil, fmt.Errorf("no curve's name contains %q", only)
	}
	var failed []error
	for _, c := range list {
		if ctx.Err() != nil {
			break
		}
		d := drawing{curve: c}
		if d.err = c.measure(ctx, &d.lines); d.err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", c.name, d.err))
		}
		drawn = append(drawn, d)
		if err := done(d); err != nil {
			failed = append(failed, err)
		}
	}
	return drawn, errors.Join(append(failed, ctx.Err())...)
}
