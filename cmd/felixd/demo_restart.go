package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"felix.local/felix/engine"
)

// checkTelemetry checks that the stream that is not durable is there and empty.
func (d *demo) checkTelemetry() error {
	shard, err := d.describe(telemetry())
	if err != nil {
		return err
	}
	records, err := d.client.read(d.app.ctx, request{method: "GET", path: streamPath(telemetry(), "records"), query: url.Values{"from": {"0"}}})
	if err != nil {
		return err
	}
	return d.claim(shard.NextOffset == 0 && len(records) == 0, "a stream that is not durable begins again",
		"%d records had been published to %s, next offset %d, reading from 0 gives %d", demoOrders, telemetry(), shard.NextOffset, len(records))
}

// checkGoingOn publishes one record more and reads it at its offset.
func (d *demo) checkGoingOn() error {
	const payload = "after-restart"
	next := uint64(len(d.feed.payloads))
	result, err := d.publish(d.app.ctx, orders(), payload)
	if err != nil {
		return err
	}
	records, err := d.client.read(d.app.ctx, request{
		method: "GET", path: streamPath(orders(), "records"), query: url.Values{"from": {strconv.FormatUint(next, 10)}},
	})
	if err != nil {
		return err
	}
	got := "nothing"
	if len(records) > 0 {
		got = fmt.Sprintf("%q at offset %d", records[0].payload(), records[0].Offset)
	}
	ok := result.FirstOffset == next && len(records) == 1 && records[0].Offset == next && string(records[0].payload()) == payload
	if ok {
		d.acked[next] = payload
	}
	if err := d.claim(ok, "publishing goes on where it stopped", "%q was given offset %d, and reading there gives %s", payload, result.FirstOffset, got); err != nil {
		return err
	}
	return d.catchUp(next + 1)
}

// checkStop ends the last server in order.
func (d *demo) checkStop() error {
	stopped, err := d.server.stop()
	d.server = nil
	if d.app.ctx.Err() != nil {
		return d.app.ctx.Err()
	}
	end := "exit code 0"
	if err != nil {
		end = err.Error()
	}
	return d.claim(err == nil && stopped.OK, "an orderly end leaves nothing to be synced",
		"%s, %d bytes not synced, %d shards poisoned", end, stopped.UnsyncedBytes, len(stopped.Poisoned))
}

// offline looks at the directory without a server.
func (d *demo) offline() error {
	dirs, err := shardDirectories(d.app.ctx, d.root)
	if err != nil {
		return err
	}
	if len(dirs) != 1 {
		return fmt.Errorf("%s holds %d shard directories, want 1", d.root, len(dirs))
	}
	if err := d.checkBytes(dirs[0]); err != nil {
		return err
	}
	return d.unchanged(dirs[0])
}

// checkBytes compares what is in the files with what the subscription was given.
func (d *demo) checkBytes(dir string) error {
	return d.opened(dir, func(log *engine.Log) error {
		equal := uint64(0)
		problem := records(d.app, log, func(offset uint64, payload []byte) error {
			if offset >= uint64(len(d.feed.payloads)) || string(payload) != d.feed.payloads[offset] {
				return fmt.Errorf("offset %d holds %q, which the subscription was not given", offset, payload)
			}
			equal++
			return nil
		})
		checked := fmt.Sprintf("%d of %d records compared from offset %d on, %d segments", equal, len(d.feed.payloads), log.BaseOffset(), len(log.Segments()))
		if problem != nil {
			checked += "; " + problem.Error()
		}
		return d.claim(problem == nil && log.BaseOffset() == 0 && equal == uint64(len(d.feed.payloads)) && equal == log.TailOffset(),
			"the files hold what the subscription was given, in that order", "%s", checked)
	})
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
