package main

import (
	"context"
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
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// The exit codes.
const (
	exitOK = iota
	exitMissed
	exitUsage
)

// run is the program without the process around it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("guard", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("dir", ".", "a directory on the device to measure; what is made in it is removed")
	inform := flags.Bool("inform", false, "exit 0 whatever is measured")
	budget := flags.Duration("budget", 2*time.Minute, "no measurement is repeated once this time has passed")
	slice := flags.Duration("slice", 400*time.Millisecond, "how long each load is measured")
	rounds := flags.Int("rounds", 3, "pairs that a ratio is made from")
	only := flags.String("only", "", "measure only the rows whose name contains this")
	file := flags.String("json", "", "write every value that was measured to this file")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	if flags.NArg() > 0 || *slice < time.Millisecond || *rounds < 1 {
		fmt.Fprintln(stderr, "guard: there are no arguments besides flags, a slice has at least a millisecond, and there is at least one round")
		return exitUsage
	}
	began := time.Now()
	verdicts, err := guard(ctx, measurer{dir: *dir, slice: *slice, rounds: *rounds}, *only, *budget, stdout, stderr)
	missed := anyMissed(verdicts)
	if err == nil && *file != "" {
		err = writeRecord(*file, "go run ./bench/guard "+strings.Join(args, " "), began, verdicts)
	}
	if err != nil {
		fmt.Fprintln(stderr, "guard:", err)
		missed = true
	}
	if missed && !*inform {
		return exitMissed
	}
	return exitOK
}

// guard measures bars in a directory that it makes and removes.
func guard(ctx context.Context, m measurer, only string, budget time.Duration, stdout, stderr io.Writer) (verdicts []verdict, err error) {
	if m.dir, err = os.MkdirTemp(m.dir, ".felix-guard-"); err != nil {
		return nil, err
	}
	defer func() {
		if removing := os.RemoveAll(m.dir); err == nil {
			err = removing
		}
	}()
	list := slices.DeleteFunc(bars(m), func(b bar) bool { return !strings.Contains(b.name, only) })
	if len(list) == 0 {
		return nil, fmt.Errorf("no row's name contains %q", only)
	}
	verdicts = judge(ctx, list, budget, stderr)
	if err := table(stdout, verdicts); err != nil {
		return nil, err
	}
	return verdicts, ctx.Err()
}
