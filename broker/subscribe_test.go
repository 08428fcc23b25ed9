package broker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

// tinyRing makes nearly every read one from disk.
func tinyRing(c *broker.Config) { c.RingRecords = 8 }

// eachKind runs a test on a durable and on an in-memory stream that hold all of a
// short history.
func eachKind(t *testing.T, test func(r *rig, s *broker.Stream)) {
	t.Run("durable", func(t *testing.T) {
		r := newRig(t, tinyRing)
		test(r, r.create(name("s"), broker.StreamConfig{Durable: true}))
	})
	t.Run("in memory", func(t *testing.T) {
		r := newRig(t, inMemory)
		test(r, r.create(name("s"), broker.StreamConfig{}))
	})
}

func TestASubscriptionBeginsWhereItWasToldTo(t *testing.T) {
	eachKind(t, func(r *rig, s *broker.Stream) {
		for at := range uint64(30) {
			_, err := s.Publish(r.ctx, broker.Explicit(0), broker.Message{Value: []byte(numbered(at)), TimestampMicros: 1000 + at*10})
			if err != nil {
				r.Fatal(err)
			}
		}
		for what, c := range map[string]struct {
			start broker.Start
			want  uint64
		}{
			"earliest":                      {broker.Earliest(), 0},
			"latest":                        {broker.Latest(), 30},
			"offset 0":                      {broker.AtOffset(0), 0},
			"offset 17":                     {broker.AtOffset(17), 17},
			"the last":                      {broker.AtOffset(29), 29},
			"the next":                      {broker.AtOffset(30), 30},
			"a time before all":             {broker.AtTime(1), 0},
			"the time of a record":          {broker.AtTime(1100), 10},
			"a time between two":            {broker.AtTime(1101), 11},
			"the last time":                 {broker.AtTime(1290), 29},
			"a time after all":              {broker.AtTime(1291), 30},
			"the end of time":               {broker.AtTime(1<<64 - 1), 30},
			"time 0, where all times begin": {broker.AtTime(0), 0},
		} {
			sub := r.subscribe(s, 0, c.start, broker.SubscribeOptions{PageRecords: 7})
			if sub.Start() != c.want || sub.Live() != 30 {
				r.Errorf("%s: begins at %d, live from %d; want %d, 30", what, sub.Start(), sub.Live(), c.want)
			}
			if resolved, err := s.Resolve(r.ctx, 0, c.start); err != nil || resolved != c.want {
				r.Errorf("%s: resolved as %d, %v; want %d", what, resolved, err, c.want)
			}
			r.wantNumbered(sub, c.want, 30)
		}
		// All of them wait for what is published next.
		sub := r.subscribe(s, 0, broker.AtOffset(30), broker.SubscribeOptions{})
		r.fill(s, 0, 33)
		r.wantNumbered(sub, 30, 33)
	})
}

func TestAnOffsetThatDoesNotExistYetIsToldFromOneThatIsGone(t *testing.T) {
	eachKind(t, func(r *rig, s *broker.Stream) {
		r.fill(s, 0, 10)
		if _, err := s.DeleteRecords(r.ctx, 0, 4); err != nil {
			r.Fatal(err)
		}
		for what, ask := range map[string]func(offset uint64) error{
			"Subscribe": func(offset uint64) error {
				_, err := s.Subscribe(r.ctx, 0, broker.AtOffset(offset), broker.SubscribeOptions{})
				return err
			},
			"Read":    func(offset uint64) error { _, err := s.Read(r.ctx, 0, offset, 1, 1); return err },
			"Resolve": func(offset uint64) error { _, err := s.Resolve(r.ctx, 0, broker.AtOffset(offset)); return err },
		} {
			for _, offset := range []uint64{0, 3} {
				if e := errorAs[*broker.CursorTooOldError](r, ask(offset)); e.Oldest != 4 || e.Requested != offset {
					r.Errorf("%s(%d): %+v", what, offset, e)
				}
			}
			for _, offset := range []uint64{11, 1<<64 - 1} {
				if e := errorAs[*broker.CursorInFutureError](r, ask(offset)); e.Next != 10 || e.Requested != offset {
					r.Errorf("%s(%d): %+v", what, offset, e)
				}
			}
		}
		if n := r.info(s, 0).Subscriptions; n != 0 {
			r.Errorf("%d subscriptions are left of those refused", n)
		}
		if n := r.b.Stats().Subscriptions; n != 0 {
			r.Errorf("%d subscriptions are counted that were refused", n)
		}
	})
}

func TestAShardThatDoesNotExistIsNamed(t *testing.T) {
	r := newRig(t, inMemory)
	s := r.create(name("s"), broker.StreamConfig{Shards: 3})
	for _, shard := range []int{-1, 3, 1 << 40} {
		_, published := s.Publish(r.ctx, broker.Explicit(shard), messages("x")...)
		_, subscribed := s.Subscribe(r.ctx, shard, broker.Latest(), broker.SubscribeOptions{})
		_, read := s.Read(r.ctx, shard, 0, 1, 1)
		_, deleted := s.DeleteRecords(r.ctx, shard, 0)
		_, resolved := s.Resolve(r.ctx, shard, broker.Earliest())
		watched := r.b.NewWatch().Add(s, shard)
		for _, err := range []error{published, subscribed, read, deleted, resolved, watched} {
			if e := errorAs[*broker.NoShardError](t, err); e.Shard != shard || e.Shards != 3 {
				t.Errorf("%+v", e)
			}
		}
	}
}

// A ring of 8 records and pages of 3 make a subscription that begins anywhere go
// from disk to the ring to what is published while it reads.
func TestDiskRingAndLiveJoinWithoutAGapUnderARacingPublisher(t *testing.T) {
	r := newRig(t, tinyRing, unflushed)
	s := r.create(name("s"), broker.StreamConfig{Durable: true})
	const history, total = 300, 1500
	r.fill(s, 0, history)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var wait sync.WaitGroup
	errs := make(chan error, 64)
	for range 48 {
		from := random.Uint64N(history + 1)
		opts := broker.SubscribeOptions{PageRecords: 3}
		if random.IntN(2) == 0 {
			opts.PageBytes = 1 + random.Int64N(60)
		}
		wait.Go(func() {
			errs <- func() error {
				sub, err := s.Subscribe(r.ctx, 0, broker.AtOffset(from), opts)
				if err != nil {
					return err
				}
				defer sub.Close()
				if sub.Start() != from || sub.Live() < history {
					return fmt.Errorf("begins at %d, live from %d", sub.Start(), sub.Live())
				}
				return takeNumbered(r.ctx, sub, from, total)
			}()
		})
	}
	for at := uint64(history); at < total; {
		n := 1 + random.Uint64N(12) // also batches that are larger than the ring
		texts := make([]string, 0, n)
		for ; n > 0 && at < total; n-- {
			texts = append(texts, numbered(at))
			at++
		}
		r.publish(s, 0, texts...)
	}
	wait.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if stats := r.b.Stats(); stats.DiskReads == 0 || stats.RingReads == 0 {
		t.Errorf("one side of the join was never read: %+v", stats)
	}
}

// The same for subscriptions that begin at the oldest or the newest record while
// records go past: what they deliver first is where they said they begin.
func TestASubscriptionDeliversFromItsStartOnWhileRecordsGoPast(t *testing.T) {
	for what, set := range map[string]func(*broker.Config){
		"durable":   func(c *broker.Config) { c.Engine.FsyncMode, c.Engine.SegmentBytes = engine.FsyncNone, 64<<20 },
		"in memory": inMemory,
	} {
		t.Run(what, func(t *testing.T) {
			rounds := 2000
			r := newRig(t, set, func(c *broker.Config) { c.RingRecords = 2 })
			if r.cfg.Root != "" {
				rounds = 40
			}
			s := r.create(name("s"), broker.StreamConfig{Durable: r.cfg.Root != ""})
			r.fill(s, 0, 3)
			var wait sync.WaitGroup
			ctx, stop := context.WithCancel(r.ctx)
			for range 2 {
				wait.Go(func() {
					for ctx.Err() == nil {
						if _, err := s.Publish(r.ctx, broker.Explicit(0), messages("x")...); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			for round := range rounds {
				start := []broker.Start{broker.Earliest(), broker.Latest(), broker.AtTime(0)}[round%3]
				sub, err := s.Subscribe(r.ctx, 0, start, broker.SubscribeOptions{})
				if err != nil {
					t.Fatal(err)
				}
				d, err := sub.Next(r.ctx)
				if err != nil || d.Missed != nil || d.Records[0].Offset != sub.Start() {
					t.Errorf("round %d: begins at %d, gave %+v, %v", round, sub.Start(), d, err)
				}
				sub.Close()
				if t.Failed() {
					break
				}
			}
			stop()
			wait.Wait()
		})
	}
}

func TestASlowSubscriberFallsBackToDiskAndGetsEveryOffset(t *testing.T) {
	r := newRig(t, tinyRing, unflushed)
	s := r.create(name("s"), broker.StreamConfig{Durable: true})
	sub := r.subscribe(s, 0, broker.Latest(), broker.SubscribeOptions{PageRecords: 2})
	at := uint64(0)
	for next := uint64(1); next < 2000; next += 1 + next/3 { // it falls further and further behind
		r.fill(s, 0, next)
		r.wantNumbered(sub, at, at+1)
		at += 2
		if at > next {
			at = next
		}
	}
	end := r.info(s, 0).Next
	if disk := r.b.Stats().DiskReads; disk == 0 {
		t.Error("it never read from disk")
	}
	for got := uint64(0); got != end; {
		got = r.next(sub).Next
	}
	if dropped := r.b.Stats().DroppedRecords; dropped != 0 {
		t.Errorf("%d records of a durable stream were dropped", dropped)
	}
}

func TestADeliveryKeepsToItsBounds(t *testing.T) {
	eachKind(t, func(r *rig, s *broker.Stream) {
		for range 20 {
			r.publish(s, 0, string(make([]byte, 100)))
		}
		for what, c := range map[string]struct {
			opts broker.SubscribeOptions
			want int
		}{
			"records":                 {broker.SubscribeOptions{PageRecords: 3}, 3},
			"bytes":                   {broker.SubscribeOptions{PageBytes: 250}, 2},
			"exactly so many bytes":   {broker.SubscribeOptions{PageBytes: 300}, 3},
			"less than one record":    {broker.SubscribeOptions{PageBytes: 1}, 1},
			"whichever comes first":   {broker.SubscribeOptions{PageBytes: 450, PageRecords: 9}, 4},
			"whichever comes first 2": {broker.SubscribeOptions{PageBytes: 950, PageRecords: 4}, 4},
		} {
			for _, from := range []uint64{0, 14} { // on disk and in the ring
				sub := r.subscribe(s, 0, broker.AtOffset(from), c.opts)
				d := r.next(sub)
				if len(d.Records) != c.want || d.Next != from+uint64(c.want) {
					r.Errorf("%s from %d: %d records, next %d; want %d records", what, from, len(d.Records), d.Next, c.want)
				}
			}
		}
	})
}

func TestSubscriptionsAreLimited(t *testing.T) {
	r := newRig(t, inMemory, func(c *broker.Config) { c.SubscriptionsMax = 3 })
	s := r.create(name("s"), broker.StreamConfig{Shards: 2})
	var subs []*broker.Subscription
	for i := range 3 {
		subs = append(subs, r.subscribe(s, i%2, broker.Latest(), broker.SubscribeOptions{}))
	}
	_, err := s.Subscribe(r.ctx, 0, broker.Latest(), broker.SubscribeOptions{})
	if e := errorAs[*broker.LimitError](t, err); e.Max != 3 {
		t.Errorf("%+v", e)
	}
	subs[0].Close()
	subs[0].Close() // again changes nothing
	r.subscribe(s, 0, broker.Latest(), broker.SubscribeOptions{})
	if _, err := s.Subscribe(r.ctx, 0, broker.Latest(), broker.SubscribeOptions{}); err == nil {
		t.Error("closing one twice made room for two")
	}
	// Those that are refused for another reason take no place.
	subs[1].Close()
	for range 5 {
		if _, err := s.Subscribe(r.ctx, 0, broker.AtOffset(99), broker.SubscribeOptions{}); err == nil {
			t.Error("a subscription from the future")
		}
	}
	r.subscribe(s, 0, broker.Latest(), broker.SubscribeOptions{})
}

func TestASubscriptionThatWaitsEndsWithItsContext(t *testing.T) {
	eachKind(t, func(r *rig, s *broker.Stream) {
		sub := r.subscribe(s, 0, broker.Latest(), broker.SubscribeOptions{})
		ctx, cancel := context.WithCancel(r.ctx)
		ended := make(chan error, 1)
		go func() {
			_, err := sub.Next(ctx)
			ended <- err
		}()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			r.Error(err)
		}
		// It goes on where it was.
		r.fill(s, 0, 2)
		r.wantNumbered(sub, 0, 2)
	})
}
