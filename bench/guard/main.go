package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
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
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	if flags.NArg() > 0 || *slice < time.Millisecond {
		fmt.Fprintln(stderr, "guard: there are no arguments besides flags, and a slice has at least a millisecond")
		return exitUsage
	}
	missed, err := guard(ctx, *dir, *slice, *budget, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "guard:", err)
		missed = true
	}
	if missed && !*inform {
		return exitMissed
	}
	return exitOK
}

// guard measures every bar in a directory that it makes and removes.
func guard(ctx context.Context, dir string, slice, budget time.Duration, stdout, stderr io.Writer) (missed bool, err error) {
	scratch, err := os.MkdirTemp(dir, ".felix-guard-")
	if err != nil {
		return true, err
	}
	defer func() {
		if removing := os.RemoveAll(scratch); err == nil {
			err = removing
		}
	}()
	verdicts := judge(ctx, bars(scratch, slice), budget, stderr)
	if err := table(stdout, verdicts); err != nil {
		return true, err
	}
	return anyMissed(verdicts), ctx.Err()
}
