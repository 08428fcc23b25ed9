package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"felix.local/felix/test/matrix/vm"
)

// kernelsCommand runs the table of kernels and denials.
type kernelsCommand struct {
	Quick    bool          `name:"quick" help:"this host with all denials, and one kernel with some."`
	Row      []string      `name:"row" placeholder:"NAME" help:"only these kernels, such as 6.12; host is this one's."`
	Cache    string        `name:"cache" default:".cache/matrix" type:"path" help:"where kernels are kept."`
	Work     string        `name:"work" type:"path" placeholder:"DIR" help:"where disks, logs and the host's data go, on the disk in question; a directory is made in it. Default: that for temporary files."`
	Keep     bool          `name:"keep" help:"leave the disks and logs."`
	Limit    time.Duration `name:"limit" default:"30m" help:"how long a machine may take."`
	JSON     string        `name:"json" placeholder:"FILE" help:"write everything that was seen."`
	Markdown string        `name:"markdown" placeholder:"FILE" help:"write the tables; they go to standard output too."`
}

const (
	// kernelsMin is how many kernels make a table.
	kernelsMin = 4
	// quickRow is the newest kernel whose package brings modules in a moderate download.
	quickRow = "6.12"
)

// Run runs the table.
func (c *kernelsCommand) Run(ctx context.Context) (err error) {
	wants, host, least, err := c.choose()
	if err != nil {
		return err
	}
	if len(wants) > 0 {
		if err := vm.Need("qemu-system-x86_64", "mkfs.ext4", "mkfs.xfs", "apt-get", "apt-cache", "dpkg-deb", "depmod", "modprobe", "xz"); err != nil {
			return err
		}
	}
	work, err := os.MkdirTemp(c.Work, "felix-matrix-")
	if err != nil {
		return err
	}
	if c.Keep {
		say("disks and logs are in %s", work)
	} else {
		defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	}
	// Users without rights run programs and write data in it.
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}
	say("building")
	p, err := build(ctx, work)
	if err != nil {
		return err
	}
	table := Table{Date: time.Now().UTC().Format(time.DateOnly), Command: c.command(), Revision: revision(ctx)}
	if host {
		say("host, %s", hostRelease())
		row, err := runHost(ctx, p, work, say)
		if err != nil {
			return err
		}
		if err := c.add(&table, row); err != nil {
			return err
		}
	}
	for _, want := range wants {
		row, err := c.kernel(ctx, want, p, work)
		if err != nil {
			return err
		}
		if err := c.add(&table, row); err != nil {
			return err
		}
	}
	table.judge(least)
	return c.report(&table)
}

// command is what to type for the same table: where files go makes no difference to it.
func (c *kernelsCommand) command() string {
	text := "go run ./test/matrix kernels"
	if c.Quick {
		text += " --quick"
	}
	for _, name := range c.Row {
		text += " --row " + name
	}
	return text
}

// choose is which kernels are run, whether the host is, and how many kernels have to be.
func (c *kernelsCommand) choose() (wants []vm.Want, host bool, least int, err error) {
	all := vm.Rows()
	chosen := c.Row
	switch {
	case c.Quick && len(chosen) > 0:
		return nil, false, 0, errors.New("--quick chooses the rows itself")
	case c.Quick:
		chosen = []string{hostRow, quickRow}
	case len(chosen) == 0:
		return all, true, kernelsMin, nil
	}
	for _, name := range chosen {
		i := slices.IndexFunc(all, func(w vm.Want) bool { return w.Row == name })
		switch {
		case name == hostRow:
			host = true
		case i < 0:
			return nil, false, 0, fmt.Errorf("no row %q is known", name)
		default:
			wants = append(wants, all[i])
		}
	}
	return wants, host, len(wants), nil
}

// kernel fetches and runs one. A suite that has gone skips its row, loudly.
func (c *kernelsCommand) kernel(ctx context.Context, want vm.Want, p programs, work string) (Row, error) {
	row := Row{Name: want.Row, Suite: want.Suite}
	started := time.Now()
	kernel, err := vm.Fetch(ctx, c.Cache, want)
	if gone := (*vm.GoneError)(nil); errors.As(err, &gone) && ctx.Err() == nil {
		row.Skipped = err.Error()
		say("SKIPPED: %s", row.Skipped)
		return row, nil
	}
	if err != nil {
		return row, err
	}
	say("%s: %s, fetched in %.1f s", want.Row, kernel.Package, time.Since(started).Seconds())
	if kernel.Note != "" {
		say("%s: %s", want.Row, kernel.Note)
	}
	dir := filepath.Join(work, "row-"+want.Row)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return row, err
	}
	k := kernelRun{kernel: kernel, programs: p, work: dir, limit: c.Limit, denials: denials()}
	if c.Quick {
		k.denials = quickDenials()
	}
	row, err = runKernel(ctx, k, say)
	say("%s: done in %.0f s", want.Row, row.Seconds)
	if err == nil && !c.Keep {
		err = os.RemoveAll(dir)
	}
	return row, err
}

// add takes a row in and writes what there is so far: a whole run takes long, and may be
// interrupted.
func (c *kernelsCommand) add(t *Table, row Row) error {
	for _, f := range row.failures() {
		say("FAILED: %s", f)
	}
	t.Rows = append(t.Rows, row)
	return c.save(t)
}

func (c *kernelsCommand) save(t *Table) error {
	if c.Markdown != "" {
		if err := os.WriteFile(c.Markdown, []byte(t.markdown()), 0o644); err != nil {
			return err
		}
	}
	if c.JSON == "" {
		return nil
	}
	b, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(c.JSON, append(b, '\n'), 0o644)
}

// report prints the tables, and ends with what failed.
func (c *kernelsCommand) report(t *Table) error {
	fmt.Print(t.markdown())
	if err := c.save(t); err != nil {
		return err
	}
	failures := t.failures()
	for _, f := range failures {
		say("FAILED: %s", f)
	}
	if len(failures) > 0 {
		return fmt.Errorf("%d failures", len(failures))
	}
	return nil
}

// say tells what is going on.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
