package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/recovery"
)

// crash kills the server while publishers publish and a subscription follows, starts
// it again, resumes, and checks that everything acknowledged is there.
func (d *demo) crash(cycle int) error {
	// Every second subscription ends when half of the records are there, so that
	// there is something to resume.
	if err := d.publishAndKill(cycle%2 == 0); err != nil {
		return err
	}
	if err := d.checkLeft(cycle); err != nil {
		return err
	}
	if err := d.start(); err != nil {
		return err
	}
	shard, err := d.describe(orders())
	if err != nil {
		return err
	}
	seen := len(d.feed.payloads)
	problem := d.catchUp(shard.NextOffset)
	missing, twice := d.missing()
	more := ""
	if problem != nil {
		more = "; " + problem.Error()
	}
	err = d.claim(problem == nil && missing == 0 && shard.NextOffset >= uint64(len(d.acked)),
		"a killed server loses nothing that it acknowledged",
		"cycle %d: %d records were acknowledged, %d of them are missing or differ, next offset %d%s",
		cycle+1, len(d.acked), missing, shard.NextOffset, more)
	if err != nil {
		return err
	}
	return d.claim(problem == nil && twice == 0 && uint64(len(d.feed.payloads)) == shard.NextOffset,
		"a subscription resumed after the kill gets every record once, in order",
		"cycle %d: %d records before, resumed at offset %d, %d to the end, %d given twice%s",
		cycle+1, seen, seen, len(d.feed.payloads), twice, more)
}

// publishAndKill kills the server after so many acknowledgements, while publishers
// and, unless it leaves before, a subscription go on.
func (d *demo) publishAndKill(leaves bool) error {
	ctx, cancel := context.WithCancel(d.app.ctx)
	defer cancel()
	var following, publishing sync.WaitGroup
	following.Go(func() { _ = d.follow(ctx) }) // what ended it is met again when it is resumed
	var mu sync.Mutex                          // guards acked
	var acks atomic.Int64
	enough := make(chan struct{})
	failures := make(chan error, demoPublishers)
	for range demoPublishers {
		publishing.Go(func() {
			for {
				payload := demoOrder(d.next.Add(1) - 1)
				got, err := d.publish(d.app.ctx, orders(), payload)
				if err != nil {
					failures <- err
					return
				}
				mu.Lock()
				d.acked[got.FirstOffset] = payload
				mu.Unlock()
				n := acks.Add(1)
				if leaves && n == int64(d.Acks/2) {
					cancel()
				}
				if n == int64(d.Acks) {
					close(enough)
				}
			}
		})
	}
	var early error
	select {
	case <-enough:
	case early = <-failures:
	}
	// The answers to publishes that the server wrote before it died still arrive, and
	// those acknowledgements count too.
	err := d.server.kill()
	d.server = nil
	publishing.Wait()
	cancel()
	following.Wait()
	if d.app.ctx.Err() != nil {
		return d.app.ctx.Err()
	}
	if early != nil {
		return early
	}
	return err
}

// checkLeft looks at what a kill left, as felixd log inspect does.
func (d *demo) checkLeft(cycle int) error {
	dirs, err := shardDirectories(d.app.ctx, d.root)
	if err != nil {
		return err
	}
	policy := recovery.Policy{IndexSpacingBytes: demoIndexSpacing, SideCopiesKept: d.config.SideCopiesKept}
	refused := 0
	for _, dir := range dirs {
		snapshot, err := recovery.Inspect(device.OS(), dir, logLabel, policy)
		if err != nil {
			return err
		}
		if recovery.Decide(snapshot, policy).Refused() {
			refused++
		}
	}
	return d.claim(len(dirs) == 1 && refused == 0, "what a kill leaves can be opened again",
		"cycle %d: %d shard directories inspected, %d would be refused", cycle+1, len(dirs), refused)
}

// childEnvironment is an environment with these settings and no others: the demo
// says itself how its servers run, and a setting of the user's that it did not take
// from a flag must not change what it claims.
func childEnvironment(environ []string, settings map[string]string) []string {
	child := slices.DeleteFunc(slices.Clone(environ), func(line string) bool {
		name, _, _ := strings.Cut(line, "=")
		return strings.HasPrefix(name, engine.VariablePrefix) && name != "FELIX_LOG_LEVEL" || name == "NOTIFY_SOCKET"
	})
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		child = append(child, name+"="+settings[name])
	}
	return child
}
