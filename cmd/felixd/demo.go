package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

type demoCommand struct {
	Dir    string `name:"dir" type:"path" placeholder:"DIR" help:"directory for the demo's streams, on the disk in question; default: a temporary one"`
	Keep   bool   `name:"keep" help:"leave the streams behind"`
	Cycles int    `name:"cycles" default:"3" placeholder:"N" help:"times the server is killed"`
	Acks   int    `name:"acks" default:"200" placeholder:"N" help:"acknowledgements after which it is killed"`
	backendFlags
	outputFlags
}

// Validate is called by kong.
func (c *demoCommand) Validate() error {
	return validate(limit{"cycles", int64(c.Cycles), 1, 10_000}, limit{"acks", int64(c.Acks), 1, 1_000_000})
}

const (
	// The demo's segments are small, so that the default run rolls some.
	demoSegmentBytes = 32 << 10
	demoIndexSpacing = 1024
	// demoOrders is how many records each stream gets before the first kill.
	demoOrders = 500
	// demoPublishers publish while the server is killed.
	demoPublishers = 4
)

// orders is the durable stream, telemetry the one that is not.
func orders() broker.StreamName {
	return broker.StreamName{Tenant: "t1", Namespace: "default", Stream: "orders"}
}

func telemetry() broker.StreamName {
	return broker.StreamName{Tenant: "t1", Namespace: "default", Stream: "telemetry"}
}

func demoOrder(i uint64) string { return fmt.Sprintf("order-%04d", i) }

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

	root    string
	program string
	server  *serveProcess
	client  *client
	// feed is the subscription to orders, over all servers.
	feed *demoFeed
	// acked is what was acknowledged, by offset.
	acked map[uint64]string
	// next numbers the orders.
	next atomic.Uint64
}

// claim checks a statement and says with which numbers.
func (d *demo) claim(ok bool, claim, checked string, args ...any) error {
	d.claims++
	if !ok {
		d.failed++
	}
	return d.out.emit(claimEvent{Claim: claim, OK: ok, Checked: fmt.Sprintf(checked, args...)})
}

// Run publishes, kills, restarts, resumes and verifies.
func (c *demoCommand) Run(a *app) (err error) {
	config, err := c.backendFlags.config()
	if err != nil {
		return err
	}
	config.FsyncMode, config.SegmentBytes, config.IndexSpacingBytes = engine.FsyncOnCommit, demoSegmentBytes, demoIndexSpacing
	config.Logger = a.logger
	root, remove, err := c.directory()
	if err != nil {
		return err
	}
	defer joined(&err, remove)
	program, err := os.Executable()
	if err != nil {
		return err
	}
	d := &demo{
		demoCommand: c, app: a, out: a.output(c.outputFlags), config: config, root: root, program: program,
		feed: new(demoFeed), acked: make(map[uint64]string),
	}
	if err := d.online(); err != nil {
		return err
	}
	if err := d.offline(); err != nil {
		return err
	}
	err = d.out.emit(demoEvent{Claims: d.claims, Failed: d.failed, Backend: backendName(d.backend), Reason: d.backend.Reason})
	if err == nil && d.failed > 0 {
		err = fmt.Errorf("%d of %d claims do not hold", d.failed, d.claims)
	}
	return err
}

// online is the part with servers.
func (d *demo) online() (err error) {
	if err := d.start(); err != nil {
		return err
	}
	defer func() {
		if d.server != nil {
			err = errors.Join(err, d.server.kill())
		}
	}()
	if err := d.fill(); err != nil {
		return err
	}
	for cycle := range d.Cycles {
		if err := d.crash(cycle); err != nil {
			return err
		}
	}
	if err := d.checkTelemetry(); err != nil {
		return err
	}
	if err := d.checkGoingOn(); err != nil {
		return err
	}
	return d.checkStop()
}

// directory is where the demo's streams go, and what removes them.
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

// start starts a server on the demo's directory. It gets the demo's settings and no
// others.
func (d *demo) start() error {
	server, err := startServe(d.app.ctx, d.program, childEnvironment(os.Environ(), given(&d.backendFlags)), d.app.stderr,
		"--dir", d.root, "--fsync", "on_commit", "--http-addr", "127.0.0.1:0", "--kafka-addr", "off", "--admin-addr", "off",
		"--segment-bytes", strconv.Itoa(demoSegmentBytes), "--index-spacing-bytes", strconv.Itoa(demoIndexSpacing))
	if err != nil {
		return err
	}
	d.server = server
	d.client, err = server.client()
	return err
}

// fill creates the streams and publishes the first orders to both, one by one.
func (d *demo) fill() error {
	ctx := d.app.ctx
	if _, err := d.client.create(ctx, orders(), definitionDocument{Durable: new(true), Shards: new(1), Format: "raw"}); err != nil {
		return err
	}
	if _, err := d.client.create(ctx, telemetry(), definitionDocument{Durable: new(false), Shards: new(1), Format: "raw"}); err != nil {
		return err
	}
	for i := range uint64(demoOrders) {
		for _, name := range []broker.StreamName{orders(), telemetry()} {
			got, err := d.publish(ctx, name, demoOrder(i))
			if err != nil {
				return err
			}
			if got.FirstOffset != i {
				return fmt.Errorf("%s was given offset %d in %s, want %d", demoOrder(i), got.FirstOffset, name, i)
			}
		}
		d.acked[i] = demoOrder(i)
	}
	d.next.Store(demoOrders)
	return nil
}

func (d *demo) publish(ctx context.Context, name broker.StreamName, payload string) (publishedEvent, error) {
	return d.client.publish(ctx, name, nil, "application/octet-stream", []byte(payload))
}

// describe asks the server about a stream's only shard.
func (d *demo) describe(name broker.StreamName) (shardDocument, error) {
	var stream streamDocument
	if err := d.client.json(d.app.ctx, request{method: "GET", path: streamPath(name)}, &stream); err != nil {
		return shardDocument{}, err
	}
	if len(stream.ShardList) != 1 {
		return shardDocument{}, fmt.Errorf("%s has %d shards, want 1", name, len(stream.ShardList))
	}
	return stream.ShardList[0], nil
}
