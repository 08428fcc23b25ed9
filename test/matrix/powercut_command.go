package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"felix.local/felix/test/matrix/diskerror"
	"felix.local/felix/test/matrix/powercut"
	"felix.local/felix/test/matrix/vm"
)

// crashFlags are what the commands about power cuts and disk errors share.
type crashFlags struct {
	Cache    string `name:"cache" default:".cache/matrix" type:"path" help:"where kernels are kept."`
	Work     string `name:"work" type:"path" placeholder:"DIR" help:"where disks and logs go; a directory is made in it. Default: that for temporary files."`
	Keep     bool   `name:"keep" help:"leave the disks and logs; those of a run that found something stay anyway."`
	JSON     string `name:"json" placeholder:"FILE" help:"write everything that was seen."`
	Markdown string `name:"markdown" placeholder:"FILE" help:"write the tables; they go to standard output too."`
}

// powercutCommand cuts the power of guests.
type powercutCommand struct {
	crashFlags
	Row          []string `name:"row" default:"6.12" placeholder:"NAME" help:"these kernels."`
	Backend      []string `name:"backend" enum:"ring,pool" default:"ring,pool" help:"these backends."`
	Cuts         int      `name:"cuts" default:"20" placeholder:"N" help:"power cuts during appends; each is one of every mode and backend."`
	RecoveryCuts int      `name:"recovery-cuts" default:"5" placeholder:"N" help:"power cuts during recovery."`
	Moments      int      `name:"moments" default:"44" placeholder:"N" help:"moments of the disk's log of writes at which its power is cut, each with three fates of its cache; 0: none."`
	Appends      int      `name:"appends" default:"25" placeholder:"N" help:"appends of each publisher while the disk logs."`
	Seed         uint64   `name:"seed" placeholder:"N" help:"where power is cut; drawn and printed by default."`
	Lie          bool     `name:"lie" help:"check of the checker: under on_commit the guest acknowledges what is not durable, and the run fails unless records are found to be lost."`
}

// Run runs the power cuts and the replays, and fails for every finding.
func (c *powercutCommand) Run(ctx context.Context) error {
	if c.Cuts < 0 || c.RecoveryCuts < 0 || c.Moments < 0 || c.Appends < 1 {
		return errors.New("numbers of cuts and moments are 0 or more, appends 1 or more")
	}
	asked := powercut.Asked{Cuts: c.Cuts, RecoveryCuts: c.RecoveryCuts, Moments: c.Moments}
	if asked == (powercut.Asked{}) {
		return errors.New("no cuts and no moments: nothing is asked for")
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	say("seed %d", c.Seed)
	report := powercut.Report{Date: time.Now(), Command: commandLine(), Revision: revision(ctx), Seed: c.Seed, Lie: c.Lie, Asked: asked}
	err := c.each(ctx, c.Row, func(k vm.Kernel, guest, dir string) error {
		o := powercut.Options{
			Kernel: k, Guest: guest, Dir: dir, Backends: c.Backend, Cuts: c.Cuts, RecoveryCuts: c.RecoveryCuts,
			Moments: c.Moments, Appends: c.Appends, Seed: c.Seed, Lie: c.Lie, Progress: sayLine,
		}
		return c.run(ctx, o, &report)
	}, skipTo(&report.Skipped))
	return c.finish(report, report.Markdown(), report.Failures(), err)
}

func (c *powercutCommand) run(ctx context.Context, o powercut.Options, report *powercut.Report) error {
	if c.Cuts+c.RecoveryCuts > 0 {
		rows, err := powercut.Cuts(ctx, o)
		report.Cuts = append(report.Cuts, rows...)
		if err != nil {
			return err
		}
	}
	if c.Moments == 0 {
		return nil
	}
	replay, err := powercut.Replay(ctx, o)
	if missing := (*vm.NoModuleError)(nil); errors.As(err, &missing) {
		skipTo(&report.Skipped)(fmt.Sprintf("kernel %s, replay of the disk's log: %v", o.Kernel.Row, err))
		return nil
	}
	report.Replays = append(report.Replays, replay)
	return err
}

// diskerrorCommand has the disks of guests fail.
type diskerrorCommand struct {
	crashFlags
	Row  []string `name:"row" default:"6.1,6.12" placeholder:"NAME" help:"these kernels."`
	Disk []string `name:"disk" enum:"nvme,virtio" default:"nvme,virtio" help:"these kinds of disk."`
}

// Run runs all cells, and fails for every finding.
func (c *diskerrorCommand) Run(ctx context.Context) error {
	report := diskerror.Report{Date: time.Now(), Command: commandLine(), Revision: revision(ctx)}
	skip := skipTo(&report.Skipped)
	err := c.each(ctx, c.Row, func(k vm.Kernel, guest, dir string) error {
		found := 0
		for _, disk := range c.Disk {
			rows, err := diskerror.Run(ctx, diskerror.Options{Kernel: k, Guest: guest, Dir: dir, Disks: []string{disk}, Progress: sayLine})
			report.Rows = append(report.Rows, rows...)
			for _, row := range rows {
				found += len(row.Findings)
			}
			if missing := (*vm.NoModuleError)(nil); errors.As(err, &missing) {
				skip(fmt.Sprintf("kernel %s, disk %s: %v", k.Row, disk, err))
			} else if err != nil {
				return err
			}
		}
		if found > 0 {
			return fmt.Errorf("%d findings", found)
		}
		return nil
	}, skip)
	return c.finish(report, report.Markdown(), report.Failures(), err)
}

// each builds the guest program and runs something per kernel, in a directory of its own.
// A kernel that has gone is skipped, loudly; when none is left, that is an error. What run
// leaves stays where it fails, and is named in the error; otherwise nothing stays, however
// this ends, unless it is to be kept.
func (f crashFlags) each(ctx context.Context, names []string, run func(k vm.Kernel, guest, dir string) error, skip func(reason string)) (err error) {
	work, err := os.MkdirTemp(f.Work, "felix-matrix-")
	if err != nil {
		return err
	}
	stays := f.Keep
	if f.Keep {
		say("disks and logs are in %s", work)
	}
	defer func() {
		if !stays {
			err = errors.Join(err, os.RemoveAll(work))
		}
	}()
	guest := filepath.Join(work, "guest")
	if err := vm.Build(ctx, guest, guestPackage); err != nil {
		return err
	}
	ran := 0
	for _, name := range names {
		i := slices.IndexFunc(vm.Rows(), func(w vm.Want) bool { return w.Row == name })
		if i < 0 {
			return fmt.Errorf("no row %q is known", name)
		}
		k, err := vm.Fetch(ctx, f.Cache, vm.Rows()[i])
		if gone := (*vm.GoneError)(nil); errors.As(err, &gone) && ctx.Err() == nil {
			skip(err.Error())
			continue
		}
		if err != nil {
			return err
		}
		say("kernel %s, %s", k.Row, k.Package)
		if k.Note != "" {
			say("%s", k.Note)
		}
		dir := filepath.Join(work, k.Row)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		if err := run(k, guest, dir); err != nil {
			stays = true
			return fmt.Errorf("kernel %s: %w; disks and logs are in %s", k.Row, err, dir)
		}
		ran++
	}
	if ran == 0 {
		return errors.New("no kernel was run")
	}
	return nil
}

// skipTo is what is told of a part that is not run: it is said, and goes into a report.
func skipTo(skipped *[]string) func(reason string) {
	return func(reason string) {
		say("SKIPPED: %s", reason)
		*skipped = append(*skipped, reason)
	}
}

// finish prints what is known, also when the run broke off, and ends with what failed.
func (f crashFlags) finish(report any, text string, failures []string, err error) error {
	fmt.Print(text)
	if f.Markdown != "" {
		err = errors.Join(err, os.WriteFile(f.Markdown, []byte(text), 0o644))
	}
	if f.JSON != "" {
		b, failed := json.MarshalIndent(report, "", "  ")
		err = errors.Join(err, failed, os.WriteFile(f.JSON, append(b, '\n'), 0o644))
	}
	for _, line := range failures {
		say("FAILED: %s", line)
	}
	if len(failures) > 0 {
		err = errors.Join(err, fmt.Errorf("%d failures", len(failures)))
	}
	return err
}

func commandLine() string { return commandOf(os.Args[1:]) }

// commandOf is what to type for the same tables: where files go makes no difference to
// them.
func commandOf(args []string) string {
	text := "go run ./test/matrix"
	for i := 0; i < len(args); i++ {
		switch name, _, joined := strings.Cut(args[i], "="); name {
		case "--cache", "--work", "--json", "--markdown":
			if !joined {
				i++
			}
		case "--keep":
		default:
			text += " " + args[i]
		}
	}
	return text
}

func sayLine(line string) { say("%s", line) }
