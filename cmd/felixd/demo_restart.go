package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"felix.local/felix/engine"
)

// demoOrders is how many orders are appended before the restart.
const demoOrders = 500

func demoKey() engine.ShardKey {
	return engine.ShardKey{Tenant: "t1", Namespace: "default", Stream: "orders"}
}

func demoOrder(i uint64) string { return fmt.Sprintf("order-%04d", i) }

// demoOrdersCommand appends the orders and ends without closing anything.
type demoOrdersCommand struct {
	Root string `arg:"" type:"path" help:"root directory"`
	backendFlags
}

func (c *demoOrdersCommand) Run(a *app) error {
	config, err := c.backendFlags.config()
	if err != nil {
		return err
	}
	config.FsyncMode, config.SegmentBytes, config.IndexSpacingBytes = engine.FsyncOnCommit, demoSegmentBytes, demoIndexSpacing
	config.Logger = a.logger
	store, err := engine.OpenStore(a.ctx, c.Root, config)
	if err != nil {
		return err
	}
	log, err := store.OpenLog(a.ctx, demoKey())
	if err != nil {
		return err
	}
	for i := range uint64(demoOrders) {
		if _, err := log.Append(a.ctx, engine.Record{Payload: []byte(demoOrder(i))}); err != nil {
			return err
		}
	}
	os.Exit(exitOK)
	return nil
}

// restart appends orders in a process that ends without closing, opens the root
// again, and goes on where it stopped.
func (d *demo) restart(root string) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.CommandContext(d.app.ctx, self, "demo-orders", root)
	child.Env = childEnvironment(os.Environ(), given(&d.backendFlags))
	child.Stderr = d.app.stderr
	if err := child.Run(); err != nil {
		if d.app.ctx.Err() != nil {
			return d.app.ctx.Err()
		}
		return fmt.Errorf("the writer of orders failed: %w", err)
	}
	store, err := engine.OpenStore(d.app.ctx, root, d.config)
	if err != nil {
		return err
	}
	defer joined(&err, func() error { return store.Close(context.WithoutCancel(d.app.ctx)) })
	log, err := store.OpenLog(d.app.ctx, demoKey())
	if err != nil {
		return err
	}
	if err := d.checkOrders(log); err != nil {
		return err
	}
	return d.checkGoingOn(log)
}

func (d *demo) checkOrders(log *engine.Log) error {
	found := uint64(0)
	problem := records(d.app, log, func(offset uint64, payload []byte) error {
		if want := demoOrder(offset); string(payload) != want {
			return fmt.Errorf("offset %d holds %q, want %q", offset, payload, want)
		}
		found++
		return nil
	})
	checked := fmt.Sprintf("%d of %d records compared, %s to %s, from offset %d on, next offset %d",
		found, demoOrders, demoOrder(0), demoOrder(demoOrders-1), log.BaseOffset(), log.TailOffset())
	if problem != nil {
		checked += "; " + problem.Error()
	}
	return d.claim(problem == nil && found == demoOrders && log.TailOffset() == demoOrders,
		"records survive a process that ends without closing", "%s", checked)
}

func (d *demo) checkGoingOn(log *engine.Log) error {
	const payload = "after-restart"
	result, err := log.Append(d.app.ctx, engine.Record{Payload: []byte(payload)})
	if err != nil {
		return err
	}
	page, err := log.ReadRange(d.app.ctx, demoOrders, pageBytes)
	if err != nil {
		return err
	}
	ok := result.First == demoOrders && len(page) == 1 && page[0].Offset == demoOrders && string(page[0].Payload) == payload
	got := "nothing"
	if len(page) > 0 {
		got = fmt.Sprintf("%q at offset %d", page[0].Payload, page[0].Offset)
	}
	return d.claim(ok, "appending goes on where it stopped", "%q was given offset %d, and reading there gives %s", payload, result.First, got)
}
