package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"felix.local/felix/bench"
	"felix.local/felix/broker"
)

// subscribersPublishers publish while subscriptions take everything.
const subscribersPublishers = 4

func (m measurer) subscribersCurve() curve {
	return curve{
		name: "subscribers", axis: "subscribers", show: count,
		columns: []column{
			{"records_per_second", "records/s", 0},
			{"p50_us", "p50 µs", 0},
			{"p99_us", "p99 µs", 0},
			{"cpu_us_per_append", "CPU µs/append", 1},
			{"deliveries_per_second", "deliveries/s", 0},
			{"cpu_us_per_delivery", "CPU µs/delivery", 2},
			{"behind", "behind", 0},
			{"catch_up_ms", "caught up ms", 1},
			{"heap_kib_each", "heap KiB each", 1},
			{"resident_kib_each", "RSS KiB each, loaded", 1},
			{"device_dsync_us", "device dsync µs", 0},
		},
		about: "Subscriptions to one shard of a stream, each taking every record that 4 publishers append, on_commit in segments, records of 128 bytes. " +
			"Behind is how many records a subscription had not taken on average when the last was acknowledged, and how long they took is next to it. " +
			"Processor time of a delivery is that of everything by deliveries. Memory is what a subscription that waits added, and what the load added at its end.",
		measure: func(ctx context.Context, into *lines) error {
			for round := range m.rounds {
				for _, n := range m.sizes.subscribers {
					m.note("subscribers: %d, round %d", n, round+1)
					err := m.within(func(dir string) error {
						s, err := m.subscribers(ctx, dir, n)
						if err == nil {
							into.add(int64(n), segmentsMode.name, s)
						}
						return err
					})
					if err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
}

// subscribers measures a load with n subscriptions. It is no trial of package bench,
// because deliveries are counted while the load is measured and every one of them is
// waited for.
func (m measurer) subscribers(ctx context.Context, dir string, n int) (sample, error) {
	config := brokerConfig(segmentsMode)
	config.Root = root(dir)
	b, err := broker.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	found, ledger, err := m.subscribed(ctx, b, n)
	if err = errors.Join(err, b.Close(context.WithoutCancel(ctx))); err != nil {
		return nil, err
	}
	return found, withStream(ctx, bench.BrokerOptions{Dir: config.Root, Broker: config}, func(_ *broker.Broker, s *broker.Stream) error {
		_, err := ledger.Verify(ctx, 1, readStream(s))
		return err
	})
}

// subscribed subscribes, publishes, and waits until everything was delivered.
func (m measurer) subscribed(ctx context.Context, b *broker.Broker, n int) (sample, *bench.Ledger, error) {
	name := broker.StreamName{Tenant: "scale", Namespace: "default", Stream: "load"}
	stream, _, err := b.CreateStream(ctx, name, broker.StreamConfig{Durable: true, Shards: 1})
	if err != nil {
		return nil, nil, err
	}
	floorBefore, err := m.floor(ctx)
	if err != nil {
		return nil, nil, err
	}
	before, err := held()
	if err != nil {
		return nil, nil, err
	}
	crowd, err := subscribe(ctx, stream, n)
	if err != nil {
		return nil, nil, errors.Join(err, crowd.end(b))
	}
	found, result, err := m.published(ctx, b, stream, before, n)
	began := time.Now()
	if err = errors.Join(err, crowd.end(b), crowd.tookAll(stream)); err != nil {
		return nil, nil, err
	}
	found["catch_up_ms"] = time.Since(began).Seconds() * 1e3
	floorAfter, err := m.floor(ctx)
	row := result.Row("", segmentsMode.fsync.String(), bench.BackendName(b.Store().Backend()), 1, floorBefore, floorAfter)
	row.CPUMicrosPerAppend = float64(result.CPU.Nanoseconds()) / 1e3 / float64(max(1, result.Appends))
	for _, key := range []string{"records_per_second", "p50_us", "p99_us", "cpu_us_per_append", "device_dsync_us"} {
		found[key] = loadSample(row)[key]
	}
	return found, result.Ledger, err
}

func (m measurer) floor(ctx context.Context) (bench.Floor, error) {
	return bench.MeasureFloor(ctx, bench.FloorOptions{Dir: m.dir, Samples: floorSamples})
}

// published puts the load on a stream with n subscriptions. before is what the process
// held without them.
func (m measurer) published(ctx context.Context, b *broker.Broker, stream *broker.Stream, before memory, n int) (sample, bench.Result, error) {
	waiting, err := held()
	if err != nil {
		return nil, bench.Result{}, err
	}
	var begun, ended broker.Stats
	var loaded int64
	var looking error
	load := m.load(subscribersPublishers)
	load.Remember = true
	result, err := load.Run(ctx, bench.BrokerTarget(stream), bench.Hooks{
		Measuring: func() { begun = b.Stats() },
		Measured: func() {
			ended = b.Stats()
			loaded, looking = resident()
		},
	})
	if err = errors.Join(err, looking); err != nil {
		return nil, result, err
	}
	deliveries := float64(ended.DeliveredRecords - begun.DeliveredRecords)
	return sample{
		"heap_kib_each":         kibEach(waiting.heap, before.heap, n),
		"resident_kib_each":     kibEach(loaded, before.resident, n),
		"deliveries_per_second": deliveries / result.Elapsed.Seconds(),
		"cpu_us_per_delivery":   float64(result.CPU.Nanoseconds()) / 1e3 / max(1, deliveries),
		"behind":                float64(ended.PublishedRecords) - float64(ended.DeliveredRecords)/float64(n),
	}, result, nil
}

// crowd is subscriptions that take everything.
type crowd struct {
	subs []*broker.Subscription
	wait sync.WaitGroup
	// next is one past the last record that each of them took.
	next []uint64
	errs []error
}

// subscribe begins n subscriptions to a shard that is empty. What was begun is returned
// with an error too.
func subscribe(ctx context.Context, stream *broker.Stream, n int) (*crowd, error) {
	c := &crowd{next: make([]uint64, n), errs: make([]error, n)}
	for i := range n {
		sub, err := stream.Subscribe(ctx, 0, broker.Earliest(), broker.SubscribeOptions{})
		if err != nil {
			return c, err
		}
		c.subs = append(c.subs, sub)
		c.wait.Go(func() { c.errs[i] = c.take(ctx, i, sub) })
	}
	return c, nil
}

// take takes records until the broker drains. Each has to be the one after the last.
func (c *crowd) take(ctx context.Context, i int, sub *broker.Subscription) error {
	for {
		d, err := sub.Next(ctx)
		var closed *broker.ClosedError
		if errors.As(err, &closed) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, r := range d.Records {
			if r.Offset != c.next[i] {
				return fmt.Errorf("subscription %d got offset %d, want %d", i, r.Offset, c.next[i])
			}
			c.next[i]++
		}
	}
}

// end drains the broker, and returns when all took what there is.
func (c *crowd) end(b *broker.Broker) error {
	b.Drain()
	c.wait.Wait()
	for _, sub := range c.subs {
		sub.Close()
	}
	return errors.Join(c.errs...)
}

// tookAll says who missed records at the end.
func (c *crowd) tookAll(stream *broker.Stream) error {
	info, err := stream.Shard(0)
	if err != nil {
		return err
	}
	for i, next := range c.next {
		if next != info.Next {
			return fmt.Errorf("subscription %d took the records below offset %d, of %d", i, next, info.Next)
		}
	}
	return nil
}

// readStream reads the shard back.
func readStream(s *broker.Stream) bench.ReadBack {
	return func(ctx context.Context, _ int, from uint64) ([]bench.Stored, uint64, error) {
		page, err := s.Read(ctx, 0, from, pageBytes, 0)
		stored := make([]bench.Stored, len(page.Records))
		for i, r := range page.Records {
			stored[i] = bench.Stored{Offset: r.Offset, Payload: r.Value}
		}
		return stored, page.Continue, err
	}
}
