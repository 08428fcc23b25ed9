package broker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
)

// The steps that scenarios are made of.

func creating(n broker.StreamName, cfg broker.StreamConfig) func(*broker.Broker) error {
	return func(b *broker.Broker) error {
		_, _, err := b.CreateStream(context.Background(), n, cfg)
		return err
	}
}

func deleting(n broker.StreamName) func(*broker.Broker) error {
	return func(b *broker.Broker) error { return b.DeleteStream(context.Background(), n) }
}

func publishing(n broker.StreamName, shard int, texts ...string) func(*broker.Broker) error {
	return func(b *broker.Broker) error {
		s, err := b.Stream(n)
		if err == nil {
			_, err = s.Publish(context.Background(), broker.Explicit(shard), messages(texts...)...)
		}
		return err
	}
}

func deletingRecords(n broker.StreamName, shard int, offset uint64) func(*broker.Broker) error {
	return func(b *broker.Broker) error {
		s, err := b.Stream(n)
		if err == nil {
			_, err = s.DeleteRecords(context.Background(), shard, offset)
		}
		return err
	}
}

func inTurn(steps ...func(*broker.Broker) error) func(*broker.Broker) error {
	return func(b *broker.Broker) error {
		for _, step := range steps {
			if err := step(b); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestAStreamIsCreatedWholeOrNotAtAllWheneverPowerIsLost(t *testing.T) {
	crashScenario{
		prepare: inTurn(creating(name("other"), broker.StreamConfig{Durable: true}), publishing(name("other"), 0, "a")),
		steps: []func(*broker.Broker) error{
			creating(name("s"), broker.StreamConfig{
				Durable: true, Shards: 2, Format: broker.FormatKafka, Fsync: ptr(engine.FsyncPeriodic),
				RetentionBytes: ptr(int64(1 << 20)), RetentionAge: ptr(time.Hour),
			}),
			creating(name("memory"), broker.StreamConfig{Shards: 3}),
		},
	}.run(t)
}

func TestRetentionChangesAndShardsGrowWholeOrNotAtAllWheneverPowerIsLost(t *testing.T) {
	crashScenario{
		prepare: inTurn(
			creating(name("s"), broker.StreamConfig{Durable: true, RetentionBytes: ptr(int64(1 << 20)), RetentionAge: ptr(time.Hour)}),
			publishing(name("s"), 0, "a", "b"),
		),
		steps: []func(*broker.Broker) error{
			creating(name("s"), broker.StreamConfig{Durable: true, RetentionBytes: ptr(int64(1 << 30)), RetentionAge: ptr(2 * time.Hour)}),
			creating(name("s"), broker.StreamConfig{Durable: true, RetentionBytes: ptr(int64(0))}),
			func(b *broker.Broker) error {
				s, err := b.Stream(name("s"))
				if err == nil {
					err = s.Grow(context.Background(), 3)
				}
				return err
			},
			publishing(name("s"), 2, "in the new shard"),
		},
	}.run(t)
}

func TestRecordsAreDeletedOrNotWheneverPowerIsLost(t *testing.T) {
	long := make([]string, 40) // over several segments
	for i := range long {
		long[i] = fmt.Sprintf("%0400d", i)
	}
	crashScenario{
		prepare: inTurn(
			creating(name("s"), broker.StreamConfig{Durable: true, Shards: 2}),
			publishing(name("s"), 0, long[:20]...), publishing(name("s"), 0, long[20:]...), publishing(name("s"), 1, "x", "y"),
		),
		steps: []func(*broker.Broker) error{
			deletingRecords(name("s"), 0, 5),
			deletingRecords(name("s"), 1, 2), // all of them
			deletingRecords(name("s"), 0, 33),
			publishing(name("s"), 1, "z"),
			deletingRecords(name("s"), 0, 40),
		},
	}.run(t)
}

// A deletion that a crash cut short is carried out, or never happened; what is
// created under the name afterwards begins empty.
func TestAStreamIsDeletedWholeOrNotAtAllWheneverPowerIsLost(t *testing.T) {
	crashScenario{
		prepare: inTurn(
			creating(name("s"), broker.StreamConfig{Durable: true, Shards: 2}), publishing(name("s"), 0, "old 0", "old 1"), publishing(name("s"), 1, "old"),
			deletingRecords(name("s"), 0, 1),
			creating(name("other"), broker.StreamConfig{Durable: true}), publishing(name("other"), 0, "stays"),
		),
		steps: []func(*broker.Broker) error{
			deleting(name("s")),
			creating(name("s"), broker.StreamConfig{Durable: true, Shards: 2}),
			publishing(name("s"), 0, "new 0"),
			deleting(name("s")),
			creating(name("s"), broker.StreamConfig{Durable: true, Shards: 1}),
			publishing(name("s"), 0, "newest 0"),
		},
	}.run(t)
}

func TestAStreamThatACrashDeletedIsCreatedEmpty(t *testing.T) {
	crashScenario{
		prepare: inTurn(
			creating(name("s"), broker.StreamConfig{Durable: true, Shards: 2}),
			publishing(name("s"), 0, "old 0", "old 1"), publishing(name("s"), 1, "old 0"),
		),
		steps: []func(*broker.Broker) error{deleting(name("s"))},
		judge: func(ctx context.Context, b *broker.Broker, step int) error {
			if _, err := b.Stream(name("s")); err == nil {
				if step > 0 {
					return fmt.Errorf("the stream is there after its deletion returned")
				}
				if err := deleting(name("s"))(b); err != nil {
					return err
				}
			}
			if err := creating(name("s"), broker.StreamConfig{Durable: true, Shards: 2})(b); err != nil {
				return err
			}
			s, err := b.Stream(name("s"))
			if err != nil {
				return err
			}
			for shard := range 2 {
				if info, err := s.Shard(shard); err != nil || info.Base != 0 || info.Next != 0 || info.Durable != 0 {
					return fmt.Errorf("a new stream has %+v, %v", info, err)
				}
				if p, err := s.Publish(ctx, broker.Explicit(shard), messages("new")...); err != nil || p.First != 0 {
					return fmt.Errorf("its first record is %+v, %v", p, err)
				}
			}
			return nil
		},
	}.run(t)
}

// Under none a power loss takes records. The floor of a deletion never lies past
// what is left, or it would hide what is published next.
func TestADeletionOfRecordsNeverHidesWhatIsPublishedAfterAPowerLoss(t *testing.T) {
	crashScenario{
		prepare: inTurn(
			creating(name("s"), broker.StreamConfig{Durable: true, Fsync: ptr(engine.FsyncNone)}),
			publishing(name("s"), 0, "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"),
		),
		steps: []func(*broker.Broker) error{deletingRecords(name("s"), 0, 6), publishing(name("s"), 0, "10")},
		judge: func(ctx context.Context, b *broker.Broker, step int) error {
			s, err := b.Stream(name("s"))
			if err != nil {
				return err
			}
			info, err := s.Shard(0)
			if err != nil || info.State != broker.StateServing {
				return fmt.Errorf("%+v, %w", info, err)
			}
			switch {
			case step == 0 && info.Base != 0 && info.Base != 6, step > 0 && info.Base != 6:
				return fmt.Errorf("the base is %d", info.Base)
			case info.Base == 6 && info.Next < 10:
				return fmt.Errorf("the deletion reached the disk and the records up to 10 did not: %d", info.Next)
			}
			p, err := s.Publish(ctx, broker.Explicit(0), messages("after")...)
			if err != nil || p.First != info.Next {
				return fmt.Errorf("published at %+v of %+v, %w", p, info, err)
			}
			page, err := s.Read(ctx, 0, p.First, 1, 1)
			if err != nil || len(page.Records) != 1 || string(page.Records[0].Value) != "after" {
				return fmt.Errorf("what was published at %d reads as %+v, %w", p.First, page, err)
			}
			return nil
		},
	}.run(t)
}

// A deletion that its process could not make durable is carried out by the next one, and
// that one may lose power as well: the stream is there with its records, or not at all.
func TestADeletionThatAFormerProcessCouldNotFlushIsWholeOrNotAtAll(t *testing.T) {
	serving := inTurn(
		creating(name("s"), broker.StreamConfig{Durable: true, Shards: 2}),
		publishing(name("s"), 0, "a", "b"), publishing(name("s"), 1, "c"),
	)
	for life, prepare := range map[string]func(*broker.Broker) error{
		"the first":  serving,
		"the second": inTurn(creating(name("s"), broker.StreamConfig{Durable: true}), deleting(name("s")), serving),
	} {
		t.Run(life, func(t *testing.T) { carriedOnAfterAFailedFlush(t, prepare) })
	}
}

func carriedOnAfterAFailedFlush(t *testing.T, prepare func(*broker.Broker) error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	disk := simdisk.New()
	disk.MakeDir("/data")
	b, err := live(ctx, disk)
	if err != nil {
		t.Fatal(err)
	}
	if err := prepare(b.Broker); err != nil {
		t.Fatal(err)
	}
	whole := describe(ctx, b.Broker)
	disk.FailSync(simdisk.SyncFault{Dirs: true, Path: func(path string) bool { return strings.HasSuffix(path, broker.DefinitionsDir) }})
	if err := deleting(name("s"))(b.Broker); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	killed := disk.Crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath})
	if err := b.end(); err != nil {
		t.Fatal(err)
	}
	var next life
	images := crashes(killed, 0, crashSeeds, func() { next, err = live(ctx, killed) })
	if err != nil {
		t.Fatal(err)
	}
	outcomes := make(map[string]int)
	for _, image := range images {
		again, err := live(ctx, image.disk)
		if err != nil {
			t.Fatal(image.what, err)
		}
		got := describe(ctx, again.Broker)
		if outcomes[got]++; got != "" && (got != whole || image.step > 0) {
			t.Errorf("%s: there is\n%s", image.what, got)
		}
		if err := again.end(); err != nil {
			t.Error(err)
		}
	}
	if len(outcomes) != 2 {
		t.Errorf("met %v", outcomes)
	}
	if err := next.end(); err != nil {
		t.Error(err)
	}
}

// The name of a definition may be seen and not be on the device: the flush of its
// directory failed, and the process ended before it took the name back. Creating the
// stream was not answered, so that it may be there or not; what is acknowledged once it
// is served is there again when it is created again.
func TestRecordsOfAStreamWhoseNameAFormerProcessCouldNotFlushAreNotLost(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	disk := simdisk.New()
	disk.MakeDir("/data")
	b, err := live(ctx, disk)
	if err != nil {
		t.Fatal(err)
	}
	create := creating(name("s"), broker.StreamConfig{Durable: true})
	disk.FailSync(simdisk.SyncFault{Dirs: true, Path: func(path string) bool { return strings.HasSuffix(path, broker.DefinitionsDir) }})
	var killed *simdisk.Disk // right before the name is taken back, which is the last change of it
	disk.BeforeChange(func(c simdisk.Change) {
		if strings.HasSuffix(c.Path, ".json") {
			killed = disk.Crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath})
		}
	})
	if err := create(b.Broker); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	disk.BeforeChange(nil)
	if err := b.end(); err != nil {
		t.Fatal(err)
	}
	next, err := live(ctx, killed)
	if err != nil {
		t.Fatal(err)
	}
	if err := publishing(name("s"), 0, "a", "b")(next.Broker); err != nil {
		t.Fatal(err)
	}
	whole := describe(ctx, next.Broker)
	var images []*simdisk.Disk
	for seed := range uint64(16) {
		images = append(images, killed.Crash(simdisk.CrashOptions{Seed: seed}))
	}
	if err := next.end(); err != nil {
		t.Error(err)
	}
	gone := 0
	for seed, image := range images {
		last, err := live(ctx, image)
		if err != nil {
			t.Fatal(seed, err)
		}
		if describe(ctx, last.Broker) == "" {
			gone++
		}
		if err := create(last.Broker); err != nil {
			t.Fatal(seed, err)
		}
		if got := describe(ctx, last.Broker); got != whole {
			t.Errorf("seed %d: there is\n%swant\n%s", seed, got, whole)
		}
		if err := last.end(); err != nil {
			t.Error(seed, err)
		}
	}
	if gone == 0 || gone == len(images) {
		t.Errorf("the name was gone %d times of %d", gone, len(images))
	}
}
