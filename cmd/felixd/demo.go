package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"felix.local/felix/engine"
)

type demoCommand struct {
	Dir    string `name:"dir" type:"path" placeholder:"DIR" help:"directory for the demo's logs, on the disk in question; default: a temporary one"`
	Keep   bool   `name:"keep" help:"leave the logs behind"`
	Cycles int    `name:"cycles" default:"3" placeholder:"N" help:"times the writer is killed"`
	Acks   int    `name:"acks" default:"200" placeholder:"N" help:"acknowledgements after which the writer is killed"`
	backendFlags
	outputFlags
}

// Validate is called by kong.
func (c *demoCommand) Validate() error {
	return validate(limit{"cycles", int64(c.Cycles), 1, 10_000}, limit{"acks", int64(c.Acks), 1, 1_000_000})
}

// The demo's logs are small, so that a few hundred records roll segments.
const (
	demoSegmentBytes = 32 << 10
	demoIndexSpacing = 1024
	demoPayloadBytes = 128
)

// claimEvent is one statement, with the numbers it was checked with.
type claimEvent struct {
	Claim   string `json:"claim"`
	OK      bool   `json:"ok"`
	Checked string `json:"checked"`
}

func (claimEvent) kind() string { return "claim" }

func (e claimEvent) text() string {
	verdict := "ok  "
	if !e.OK {
		verdict = "FAIL"
	}
	return fmt.Sprintf("%s  %s: %s", verdict, e.Claim, e.Checked)
}

// demoEvent sums up.
type demoEvent struct {
	Claims  int    `json:"claims"`
	Failed  int    `json:"failed"`
	Backend string `json:"backend"`
	Reason  string `json:"reason"`
}

func (demoEvent) kind() string { return "demo" }

func (e demoEvent) text() string {
	backend := e.Backend
	if e.Reason != "" {
		backend += " (" + e.Reason + ")"
	}
	return fmt.Sprintf("%d claims checked, %d failed; backend %s", e.Claims, e.Failed, backend)
}

// demo is one run.
type demo struct {
	*demoCommand
	app     *app
	out     *output
	config  engine.Config
	backend engine.Backend
	claims  int
	failed  int
}

// claim checks a statement and says with which numbers.
func (d *demo) claim(ok bool, claim, checked string, args ...any) error {
	d.claims++
	if !ok {
		d.failed++
	}
	return d.out.emit(claimEvent{Claim: claim, OK: ok, Checked: fmt.Sprintf(checked, args...)})
}

func (c *demoCommand) Run(a *app) (err error) {
	config, err := c.backendFlags.config()
	if err != nil {
		return err
	}
	config.FsyncMode, config.SegmentBytes, config.IndexSpacingBytes = engine.FsyncOnCommit, demoSegmentBytes, demoIndexSpacing
	config.Logger = a.logger
	dir, remove, err := c.directory()
	if err != nil {
		return err
	}
	defer joined(&err, remove)
	d := &demo{demoCommand: c, app: a, out: a.output(c.outputFlags), config: config}
	for cycle := range c.Cycles {
		if err := d.crash(filepath.Join(dir, "crash"), cycle); err != nil {
			return err
		}
	}
	if err := d.unchanged(filepath.Join(dir, "crash")); err != nil {
		return err
	}
	if err := d.restart(filepath.Join(dir, "restart")); err != nil {
		return err
	}
	err = d.out.emit(demoEvent{Claims: d.claims, Failed: d.failed, Backend: backendName(d.backend), Reason: d.backend.Reason})
	if err == nil && d.failed > 0 {
		err = fmt.Errorf("%d of %d claims do not hold", d.failed, d.claims)
	}
	return err
}

// directory is where the demo's logs go, and what removes them.
func (c *demoCommand) directory() (string, func() error, error) {
	if c.Dir != "" {
		if err := os.MkdirAll(c.Dir, 0o750); err != nil {
			return "", nil, err
		}
	}
	dir, err := os.MkdirTemp(c.Dir, "felix-demo-")
	if err != nil {
		return "", nil, err
	}
	if c.Keep {
		return dir, func() error { return nil }, nil
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}

// opened runs f on the log of a shard directory and closes it.
func (d *demo) opened(dir string, f func(*engine.Log) error) (err error) {
	store, log, err := engine.OpenSingle(d.app.ctx, dir, logLabel, d.config)
	if err != nil {
		return err
	}
	d.backend = store.Backend()
	defer joined(&err, func() error { return store.Close(context.WithoutCancel(d.app.ctx)) })
	return f(log)
}

// unchanged opens and closes a recovered log twice and compares all bytes.
func (d *demo) unchanged(dir string) error {
	nothing := func(*engine.Log) error { return nil }
	var digests [3]string
	for i := range digests {
		var err error
		if digests[i], err = directoryDigest(dir); err != nil {
			return err
		}
		if i < len(digests)-1 {
			if err := d.opened(dir, nothing); err != nil {
				return err
			}
		}
	}
	return d.claim(digests[0] == digests[1] && digests[1] == digests[2],
		"opening a recovered log again changes no byte",
		"directory digests %.12s, %.12s, %.12s over two reopenings", digests[0], digests[1], digests[2])
}

// records reads the log from its base to its tail, in pages.
func records(a *app, log *engine.Log, each func(offset uint64, payload []byte) error) error {
	for next := log.BaseOffset(); next < log.TailOffset(); {
		page, err := log.ReadRange(a.ctx, next, pageBytes)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return errors.New("a read below the tail returned nothing")
		}
		for _, r := range page {
			if r.Offset != next {
				return fmt.Errorf("offset %d where %d was due", r.Offset, next)
			}
			if err := each(r.Offset, r.Payload); err != nil {
				return err
			}
			next++
		}
	}
	return nil
}
