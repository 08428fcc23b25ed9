package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"felix.local/felix/bench/internal/rig"
)

func main() { rig.Main(run) }

// run is the program without the process around it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var inform bool
	var budget time.Duration
	words := rig.Words{Command: "guard", Rounds: "pairs that a ratio is made from", One: "row"}
	flags, ok := rig.Parse(words, args, stderr, func(set *flag.FlagSet) {
		set.BoolVar(&inform, "inform", false, "exit 0 whatever is measured")
		set.DurationVar(&budget, "budget", 2*time.Minute, "no measurement is repeated once this time has passed")
	})
	if !ok {
		return rig.ExitUsage
	}
	verdicts, err := guard(ctx, flags, budget, stdout, stderr)
	missed := anyMissed(verdicts)
	if err == nil && flags.JSON != "" {
		err = flags.Write(recordOf(flags, verdicts))
	}
	if err != nil {
		fmt.Fprintln(stderr, "guard:", err)
		missed = true
	}
	if missed && !inform {
		return rig.ExitFailed
	}
	return rig.ExitOK
}

// guard measures bars in a directory that it makes and removes.
func guard(ctx context.Context, flags rig.Flags, budget time.Duration, stdout, stderr io.Writer) (verdicts []verdict, err error) {
	err = rig.Within(flags.Dir, ".felix-guard-", func(dir string) error {
		m := measurer{dir: dir, slice: flags.Slice, rounds: flags.Rounds}
		list, err := rig.Choose(flags, bars(m), func(b bar) string { return b.name })
		if err != nil {
			return err
		}
		verdicts = judge(ctx, list, budget, stderr)
		if err := table(stdout, verdicts); err != nil {
			return err
		}
		return ctx.Err()
	})
	return verdicts, err
}
