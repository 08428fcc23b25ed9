package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"felix.local/felix/engine"
)

type doctorCommand struct {
	Dir     string `name:"dir" type:"path" env:"FELIX_DURABLE_STORAGE_DIR" default:"." placeholder:"DIR" help:"the data directory; a temporary one is made in it and removed"`
	Check   bool   `name:"check" help:"exit 3 when something keeps a store from working here; for health checks"`
	Samples int    `name:"samples" default:"64" placeholder:"N" help:"durable writes to measure of each sort"`
	storageFlags
	outputFlags
}

// Validate is called by kong.
func (c *doctorCommand) Validate() error {
	return validate(limit{"samples", int64(c.Samples), 1, 100_000})
}

// doctorEvent is everything doctor found.
type doctorEvent struct {
	Kernel     kernelReport     `json:"kernel"`
	Ring       ringReport       `json:"ring"`
	Backend    *backendReport   `json:"backend"`
	Journal    *journalReport   `json:"commit_journal"`
	Filesystem filesystemReport `json:"filesystem"`
	Cost       *costReport      `json:"cost"`
	Limits     limitsReport     `json:"limits"`
	// Problems keep a store from working here; Warnings do not.
	Problems []string `json:"problems"`
	Warnings []string `json:"warnings"`
}

// backendReport is what the engine chose.
type backendReport struct {
	Name            string `json:"name"`
	Driver          string `json:"driver,omitempty"`
	Requested       string `json:"requested"`
	Reason          string `json:"reason"`
	Remedy          string `json:"remedy,omitempty"`
	DirectOverwrite bool   `json:"direct_overwrite"`
	DirectReason    string `json:"direct_overwrite_reason,omitempty"`
	DsyncWrite      bool   `json:"dsync_write"`
}

func (doctorEvent) kind() string { return "doctor" }

func (e doctorEvent) text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("kernel", "%s, %d CPUs", e.Kernel.Release, e.Kernel.CPUs)
	line("", "io_uring_disabled %s, seccomp %s", orUnknown(e.Kernel.IOURingDisabled), e.Kernel.Seccomp)
	line("io_uring", "%s", e.Ring.text())
	if len(e.Ring.Features) > 0 {
		line("", "features %s", strings.Join(e.Ring.Features, " "))
	}
	if len(e.Ring.Opcodes) > 0 {
		line("", "operations %s (of %d the kernel knows)", strings.Join(e.Ring.Opcodes, " "), e.Ring.OpcodeCount)
	}
	if b := e.Backend; b != nil {
		line("backend", "%s (asked for %s)", backendName(engine.Backend{Name: b.Name, Driver: b.Driver}), b.Requested)
		if b.Reason != "" {
			line("", "because %s", b.Reason)
		}
		if b.Remedy != "" {
			line("", "to change it: %s", b.Remedy)
		}
		line("", "durable writes in one call: %s; overwriting past the page cache: %s", yesNo(b.DsyncWrite), yesNo(b.DirectOverwrite))
		if b.DirectReason != "" {
			line("", "because %s", b.DirectReason)
		}
	}
	if j := e.Journal; j != nil {
		line("journal", "%s", j.text())
	}
	f := e.Filesystem
	line("filesystem", "%s on %s (%s), options %s", f.Type, f.MountPoint, f.Source, f.Options)
	line("", "%d MiB and %d inodes free", f.FreeBytes>>20, f.FreeInodes)
	if c := e.Cost; c != nil {
		line("cost", "one durable %d-byte write of a growing file, median of %d:", c.Bytes, c.Samples)
		line("", "inline %d µs, pool %d µs, ring %s", c.InlineMicros, c.PoolMicros, orNone(c.RingMicros))
		line("", "over written blocks past the page cache, as the commit journal's: %s", orNone(c.DirectOverwriteMicros))
	}
	line("limits", "%s", e.Limits.text())
	for _, w := range e.Warnings {
		line("warning", "%s", w)
	}
	for _, p := range e.Problems {
		line("PROBLEM", "%s", p)
	}
	if len(e.Problems) == 0 {
		line("result", "a store works here")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func orNone(micros int64) string {
	if micros == 0 {
		return "not to be had"
	}
	return fmt.Sprintf("%d µs", micros)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func (c *doctorCommand) Run(a *app) error {
	config, err := c.storageFlags.config(nil)
	if err != nil {
		return err
	}
	config.Logger = a.logger
	d := &doctor{app: a, dir: c.Dir, config: config, samples: c.Samples}
	e := d.examine()
	if err := a.ctx.Err(); err != nil {
		return err
	}
	if err := a.output(c.outputFlags).emit(e); err != nil {
		return err
	}
	if c.Check && len(e.Problems) > 0 {
		return &exitError{code: exitVerify, err: fmt.Errorf("%d problems: %s", len(e.Problems), strings.Join(e.Problems, "; "))}
	}
	return nil
}

// doctor collects what it finds; nothing it meets ends the examination.
type doctor struct {
	app                *app
	dir                string
	config             engine.Config
	samples            int
	problems, warnings []string
}

func (d *doctor) problem(format string, args ...any) {
	d.problems = append(d.problems, fmt.Sprintf(format, args...))
}

func (d *doctor) warn(format string, args ...any) {
	d.warnings = append(d.warnings, fmt.Sprintf(format, args...))
}

func (d *doctor) examine() doctorEvent {
	misplaced := mayBeRoot(d.dir)
	if above := nearest(d.dir); above != "" && above != d.dir {
		if misplaced == nil {
			d.warn("%s is not there yet; serve would make it, and what is said here is about %s", d.dir, above)
		}
		d.dir = above
	}
	if dir, err := filepath.EvalSymlinks(d.dir); err == nil {
		d.dir = dir
	}
	e := doctorEvent{Kernel: d.kernel(), Limits: d.limits()}
	ring := d.ring(&e.Ring)
	if misplaced != nil {
		d.problem("%v", misplaced)
	} else if scratch, err := d.scratch(); err != nil {
		d.problem("the data directory cannot be used: %v", err)
	} else {
		e.Backend, e.Journal = d.backend(scratch.path)
		e.Cost = d.cost(scratch.path, ring)
		d.judgeJournal(e.Journal, e.Cost)
		if err := scratch.remove(); err != nil {
			d.warn("%v", err)
		}
	}
	if ring != nil {
		if err := ring.Close(); err != nil {
			d.warn("closing the ring: %v", err)
		}
	}
	// Last, because the writes just made show which journal the filesystem uses.
	e.Filesystem = d.filesystem()
	d.judgeCost(e.Cost, e.Filesystem.Type)
	for _, unknown := range engine.UnknownVariables(environ(), d.app.known) {
		d.warn("%s", unknownText(unknown))
	}
	e.Problems, e.Warnings = listed(d.problems), listed(d.warnings)
	return e
}
