package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"felix.local/felix/bench/internal/rig"
)

func main() {
	rig.Main(func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		return run(ctx, args, defaultSizes(), stdout, stderr)
	})
}

// run is the program without the process around it.
func run(ctx context.Context, args []string, of sizes, stdout, stderr io.Writer) int {
	var markdown bool
	words := rig.Words{Command: "scale", Rounds: "how often each point is measured", One: "curve"}
	flags, ok := rig.Parse(words, args, stderr, func(set *flag.FlagSet) {
		set.BoolVar(&markdown, "markdown", false, "print tables for a document")
	})
	if !ok {
		return rig.ExitUsage
	}
	m := measurer{slice: flags.Slice, rounds: flags.Rounds, sizes: of, progress: stderr}
	table := text
	if markdown {
		table = document
	}
	drawn, err := m.scale(ctx, flags, func(d drawing) error { return table(stdout, d) })
	if flags.JSON != "" && len(drawn) > 0 {
		err = errors.Join(err, flags.Write(recordOf(flags, drawn)))
	}
	if err != nil {
		fmt.Fprintln(stderr, "scale:", err)
		return rig.ExitFailed
	}
	return rig.ExitOK
}

// scale measures curves in a directory that it makes and removes, and tells of each
// when it is done. One that fails does not keep the others from being measured.
func (m measurer) scale(ctx context.Context, flags rig.Flags, done func(drawing) error) (drawn []drawing, err error) {
	err = rig.Within(flags.Dir, ".felix-scale-", func(dir string) (err error) {
		m.dir = dir
		if m.modes, err = m.modesHere(ctx); err != nil {
			return err
		}
		list, err := rig.Choose(flags, m.curves(), func(c curve) string { return c.name })
		if err != nil {
			return err
		}
		drawn, err = draw(ctx, list, done)
		return err
	})
	return drawn, err
}

// draw measures curves.
func draw(ctx context.Context, list []curve, done func(drawing) error) (drawn []drawing, err error) {
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
