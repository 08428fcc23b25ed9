package broker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"felix.local/felix/broker"
	"felix.local/felix/internal/simdisk"
)

// simulatedRoot is the storage root on a simulated disk.
const simulatedRoot = "/data/store"

// life is one broker on a simulated disk.
type life struct {
	*broker.Broker
	end func() error
}

func live(ctx context.Context, disk *simdisk.Disk) (life, error) {
	queue := disk.NewQueue(simdisk.QueueOptions{})
	cfg := broker.Config{Root: simulatedRoot, Engine: quietEngine(), Logger: slog.New(slog.DiscardHandler)}
	cfg.Engine.FS, cfg.Engine.Queue = disk, queue
	cfg.Engine.NowMicros = func() uint64 { return 1_700_000_000_000_000 }
	b, err := broker.Open(ctx, cfg)
	if err != nil {
		return life{}, errors.Join(err, queue.Close())
	}
	return life{b, func() error { return errors.Join(b.Close(ctx), queue.Close()) }}, nil
}

// describe tells everything that a client can see of a broker's streams.
func describe(ctx context.Context, b *broker.Broker) string {
	var text strings.Builder
	for _, info := range b.Streams() {
		fmt.Fprintf(&text, "%v err=%v durable=%v format=%v", info.Name, info.Err, info.Config.Durable, info.Config.Format)
		if c := info.Config; c.Durable {
			fmt.Fprintf(&text, " fsync=%v bytes=%d age=%v", *c.Fsync, *c.RetentionBytes, *c.RetentionAge)
		}
		s, err := b.Stream(info.Name)
		if err != nil {
			fmt.Fprintf(&text, " %v\n", err)
			continue
		}
		for _, shard := range info.Shards {
			fmt.Fprintf(&text, " | %v [%d,%d)", shard.State, shard.Base, shard.Next)
			page, err := s.Read(ctx, shard.Shard, shard.Base, 1<<20, 0)
			for _, record := range page.Records {
				fmt.Fprintf(&text, " %d=%s", record.Offset, record.Value)
			}
			if err != nil {
				fmt.Fprintf(&text, " %v", err)
			}
		}
		text.WriteByte('\n')
	}
	return text.String()
}

// crashScenario is a sequence of changes; power is lost at each operation of each.
type crashScenario struct {
	prepare func(b *broker.Broker) error
	steps   []func(b *broker.Broker) error
	// judge looks at what a crash left; nil wants what there was before or after
	// the step under way, and once a step has returned what there was after it.
	judge func(ctx context.Context, b *broker.Broker, step int) error
}

// image is what a crash left while a step was under way.
type image struct {
	disk *simdisk.Disk
	step int
	what string
}

const crashSeeds = 4

// crashes takes what a crash leaves right before each change of a disk while do
// runs, and right after it.
func crashes(disk *simdisk.Disk, step int, seeds uint64, do func()) []image {
	var mu sync.Mutex // engines remove what was deleted beside everything else
	var images []image
	seen, over := make(map[uint64]bool), false
	takeLocked := func(step int, what string) {
		for seed := range seeds + 1 {
			o := simdisk.CrashOptions{Seed: seed*7919 + uint64(len(images))}
			if seed == seeds {
				o.Kind = simdisk.ProcessDeath
			}
			d := disk.Crash(o)
			if digest := d.Digest(); !seen[digest] {
				seen[digest] = true
				images = append(images, image{d, step, fmt.Sprintf("%s, seed %d", what, seed)})
			}
		}
	}
	disk.BeforeChange(func(c simdisk.Change) {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			takeLocked(step, fmt.Sprintf("%s %s %v", c.What, c.Path, c.Kind))
		}
	})
	do()
	disk.BeforeChange(nil)
	mu.Lock()
	defer mu.Unlock()
	over = true
	clear(seen) // what was seen before the step returned is judged anew
	takeLocked(step+1, "returned")
	return images
}

func (s crashScenario) run(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	disk := simdisk.New()
	disk.MakeDir("/data")
	b, err := live(ctx, disk)
	if err != nil {
		t.Fatal(err)
	}
	if s.prepare != nil {
		if err := s.prepare(b.Broker); err != nil {
			t.Fatal(err)
		}
	}
	states := []string{describe(ctx, b.Broker)}
	var images []image
	for i, step := range s.steps {
		images = append(images, crashes(disk, i, crashSeeds, func() { err = step(b.Broker) })...)
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, describe(ctx, b.Broker))
		if s.judge == nil && states[i] == states[i+1] {
			t.Fatalf("step %d changes nothing that is seen", i)
		}
	}
	if err := b.end(); err != nil {
		t.Fatal(err)
	}
	seen := make([]map[string]bool, len(states)) // by step
	for i := range seen {
		seen[i] = make(map[string]bool)
	}
	judged := 0
	judge := func(b life, step int) error {
		judged++
		if s.judge != nil {
			return errors.Join(s.judge(ctx, b.Broker, step), b.end())
		}
		got, allowed := describe(ctx, b.Broker), states[step:min(step+2, len(states))]
		seen[step][got] = true
		var err error
		if !slices.Contains(allowed, got) {
			err = fmt.Errorf("there is\n%swant\n%s", got, strings.Join(allowed, "or\n"))
		}
		return errors.Join(err, b.end())
	}
	for n, im := range images {
		var again []image
		var b life
		start := func() { b, err = live(ctx, im.disk) }
		if n%20 == 0 { // every so often the start after the crash is cut short as well
			again = crashes(im.disk, im.step, 2, start)
		} else {
			start()
		}
		if err == nil {
			err = judge(b, im.step)
		}
		for i := 0; i < len(again) && err == nil; i++ {
			if b, err = live(ctx, again[i].disk); err == nil {
				err = judge(b, im.step)
			}
			if err != nil {
				err = fmt.Errorf("and once more (%s): %w", again[i].what, err)
			}
		}
		if err != nil {
			t.Fatalf("a crash in step %d (%s): %v", im.step, im.what, err)
		}
	}
	t.Logf("%d images, %d lives judged", len(images), judged)
	for step := range s.steps {
		if s.judge == nil && len(seen[step]) < 2 {
			t.Errorf("the crashes of step %d never showed both of its sides", step)
		}
	}
}
