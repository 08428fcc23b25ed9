package filesystems

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"

	"felix.local/felix/engine"
)

// child is a process with a job.
type child struct {
	job
	said
	store *engine.Store
	logs  []*engine.Log
	// tags are the last ones used, per shard.
	tags []uint32
}

// runJob is the program of a child; it gives the exit code.
func runJob(text string) int {
	c := &child{}
	c.out = json.NewEncoder(os.Stdout)
	if err := json.Unmarshal([]byte(text), &c.job); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if err := c.open(); err != nil {
		c.say(event{Kind: refused, Problem: problemOf(err)})
		return 0
	}
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		name, argument, _ := strings.Cut(commands.Text(), " ")
		if err := c.obey(name, argument); err != nil {
			c.say(event{Kind: did, Problem: problemOf(err)})
		} else {
			c.say(event{Kind: did})
		}
	}
	return 0
}

func (c *child) open() error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	ctx := context.Background()
	if c.store, err = engine.OpenStore(ctx, c.Root, cfg); err != nil {
		return err
	}
	for shard := range c.Shards {
		l, err := c.store.OpenLog(ctx, engine.ShardKey{Tenant: "t", Namespace: "n", Stream: "s", Shard: uint32(shard)})
		if err != nil {
			return err // the process ends; what that leaves is as after a kill
		}
		c.logs, c.tags = append(c.logs, l), append(c.tags, c.Session<<20)
	}
	b, journal := c.store.Backend(), c.store.Journal()
	c.say(event{Kind: opened, Journal: &journal, Backend: &backend{
		Name: b.Name, Reason: b.Reason, Filesystem: b.Filesystem, Dsync: b.DsyncWrite, Direct: b.DirectOverwrite, DirectReason: b.DirectReason,
	}})
	return nil
}

// obey carries a command out:
//
//	append N   N windows of appends to every log
//	fill       windows until one is refused
//	publish    the same, each log beside the others
//	script N   the Nth part of a workload that is always the same
//	records    tell what the logs hold
//	close      close the store
func (c *child) obey(name, argument string) error {
	ctx := context.Background()
	switch name {
	case "append", "script":
		n, err := strconv.Atoi(argument)
		if err != nil {
			return err
		}
		if name == "script" {
			return c.script(ctx, n)
		}
		return c.windows(ctx, n)
	case "fill":
		for {
			if err := c.windows(ctx, 1); err != nil {
				return err
			}
		}
	case "publish":
		return c.publish(ctx)
	case "records":
		return c.records(ctx)
	case "close":
		return c.store.Close(ctx)
	default:
		return errors.New("no such command: " + name)
	}
}

func (c *child) windows(ctx context.Context, n int) error {
	for range n {
		for shard := range c.logs {
			if err := c.window(ctx, shard); err != nil {
				return err
			}
		}
	}
	return nil
}

// publish appends to all logs at once until every one has refused an append, and
// tells of each how it ended.
func (c *child) publish(ctx context.Context) error {
	errs := make([]error, len(c.logs))
	var all sync.WaitGroup
	for shard, l := range c.logs {
		all.Go(func() {
			for errs[shard] == nil {
				errs[shard] = c.window(ctx, shard)
				if errs[shard] == nil && l.FsyncMode() != engine.FsyncOnCommit {
					c.say(event{Kind: durable, Shard: shard, Last: l.DurableOffset()})
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// windowAppends is how many appends to a log are under way at once.
const windowAppends = 4

// window has some appends to a log under way at once, and tells of each that was
// acknowledged. The error is that of the first that was not.
func (c *child) window(ctx context.Context, shard int) error {
	var errs []error
	var pending [windowAppends]engine.Pending
	var tags [windowAppends]uint32
	n := 0
	for ; n < windowAppends; n++ {
		c.tags[shard]++
		tags[n] = c.tags[shard]
		random := rand.New(rand.NewPCG(uint64(shard), uint64(tags[n])))
		batch := make([]engine.Record, 1+random.IntN(3))
		for i := range batch {
			size := c.PayloadMin + random.IntN(1+c.PayloadMax-c.PayloadMin)
			batch[i].Payload = payload(shard, tags[n], i, size)
		}
		var err error
		if pending[n], err = c.logs[shard].AppendAsync(ctx, batch...); err != nil {
			errs = append(errs, err)
			break
		}
	}
	for i, p := range pending[:n] {
		result, err := p.Wait(ctx)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		c.say(event{Kind: acked, Shard: shard, First: result.First, Last: result.Last, Tag: tags[i]})
	}
	if len(errs) == 0 {
		return nil
	}
	for _, err := range errs[1:] { // all of a window fail for the same reason
		if problemOf(err).Type != problemOf(errs[0]).Type {
			return fmt.Errorf("of one window: %w, and then: %w", errs[0], err)
		}
	}
	return errs[0]
}

// scriptAppends is the length of one part of the script, per log.
const scriptAppends = 60

// script is a part of a workload whose bytes are always the same: batches of several
// sizes, larger than a segment's rest and empty ones among them, and a seal.
func (c *child) script(ctx context.Context, part int) error {
	random := rand.New(rand.NewPCG(7, uint64(part)))
	for i := range scriptAppends {
		for shard, l := range c.logs {
			c.tags[shard]++
			batch := make([]engine.Record, 1+random.IntN(4))
			for k := range batch {
				batch[k].Payload = payload(shard, c.tags[shard], k, random.IntN(c.PayloadMax))
			}
			result, err := l.Append(ctx, batch...)
			if err != nil {
				return err
			}
			c.say(event{Kind: acked, Shard: shard, First: result.First, Last: result.Last, Tag: c.tags[shard]})
		}
		if i == scriptAppends/2 {
			if _, err := c.logs[0].Seal(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// records reads every log from its base to its tail.
func (c *child) records(ctx context.Context) error {
	var errs []error
	for shard, l := range c.logs {
		e := event{Kind: records, Shard: shard, First: l.BaseOffset(), Last: l.TailOffset(), Poisoned: l.Poisoned() != nil}
		for next := e.First; next < e.Last; {
			page, err := l.ReadRange(ctx, next, 1<<20)
			if err == nil && len(page) == 0 {
				err = fmt.Errorf("nothing is read at offset %d of %d", next, e.Last)
			}
			if err != nil {
				errs = append(errs, err)
				break
			}
			for _, record := range page {
				tag, ok := tagOf(shard, record.Payload)
				if !ok || record.Offset != next {
					return fmt.Errorf("shard %d: at offset %d is record %d with other bytes than were written", shard, next, record.Offset)
				}
				e.Tags = append(e.Tags, tag)
				next++
			}
		}
		c.say(e)
	}
	return errors.Join(errs...)
}
