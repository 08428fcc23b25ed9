package broker_test

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"syscall"
	"testing"
	"time"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
)

func TestDrainingRefusesWhatIsNewAndDeliversWhatIsThere(t *testing.T) {
	eachKind(t, func(r *rig, s *broker.Stream) {
		waiting := r.subscribe(s, 0, broker.Latest(), broker.SubscribeOptions{})
		ended := make(chan error, 1)
		go func() { ended <- takeNumbered(r.ctx, waiting, 0, 1<<40) }()
		behind := r.subscribe(s, 0, broker.Earliest(), broker.SubscribeOptions{PageRecords: 7})
		r.fill(s, 0, 100)
		r.b.Drain()
		r.b.Drain()
		errorAs[*broker.ClosedError](r, <-ended)
		r.wantNumbered(behind, 0, 100)
		_, err := behind.Next(r.ctx)
		errorAs[*broker.ClosedError](r, err)

		_, published := s.Publish(r.ctx, broker.Explicit(0), messages("x")...)
		_, subscribed := s.Subscribe(r.ctx, 0, broker.Earliest(), broker.SubscribeOptions{})
		_, _, created := r.b.CreateStream(r.ctx, name("new"), broker.StreamConfig{})
		for _, err := range []error{published, subscribed, created, r.b.DeleteStream(r.ctx, s.Name()), s.Grow(r.ctx, 2)} {
			errorAs[*broker.ClosedError](r, err)
		}
		if h := r.b.Health(); h.Ready || h.Reason == "" {
			r.Errorf("%+v", h)
		}
		r.wantTexts(s, 0, 98, numbered(98), numbered(99)) // reads go on
	})
}

func TestAfterCloseEveryUseSaysSoAndWritesNothing(t *testing.T) {
	eachKind(t, func(r *rig, s *broker.Stream) {
		r.fill(s, 0, 20)
		sub := r.subscribe(s, 0, broker.Latest(), broker.SubscribeOptions{})
		if err := r.b.Close(r.ctx); err != nil {
			r.Fatal(err)
		}
		before := ""
		if r.cfg.Root != "" {
			before = listing(r, r.cfg.Root)
		}
		_, published := s.Publish(r.ctx, broker.Explicit(0), messages("x")...)
		_, subscribed := s.Subscribe(r.ctx, 0, broker.Earliest(), broker.SubscribeOptions{})
		_, old := s.Read(r.ctx, 0, 2, 100, 0)
		_, newest := s.Read(r.ctx, 0, 19, 100, 0)
		_, deleted := s.DeleteRecords(r.ctx, 0, 10)
		_, resolved := s.Resolve(r.ctx, 0, broker.AtTime(1))
		_, next := sub.Next(r.ctx)
		_, _, created := r.b.CreateStream(r.ctx, name("new"), broker.StreamConfig{})
		for i, err := range []error{published, subscribed, old, newest, deleted, resolved, next, created, s.Grow(r.ctx, 9), r.b.DeleteStream(r.ctx, s.Name())} {
			var closed *broker.ClosedError
			if !errors.As(err, &closed) {
				r.Errorf("use %d: %v (%T)", i, err, err)
			}
		}
		if r.cfg.Root != "" {
			if after := listing(r, r.cfg.Root); after != before {
				r.Errorf("there was\n%s\nand is\n%s", before, after)
			}
		}
		r.b.Stats()
		r.b.Health()
		r.b.Streams()
	})
}

// Close meets publishers, subscribers and changes of definitions. Who was
// acknowledged finds the record after the restart, and nobody is left behind.
func TestClosingUnderEverybodyLosesNothingThatWasAcknowledged(t *testing.T) {
	for range 3 {
		r := newRig(t, tinyRing, func(c *broker.Config) { c.SubscriberQueue = 8 })
		s := r.create(name("s"), broker.StreamConfig{Durable: true, Shards: 2})
		var wait sync.WaitGroup
		started := make(chan struct{}, 100)
		finished := func(what string, err error) {
			var closed *broker.ClosedError
			if !errors.As(err, &closed) {
				t.Errorf("%s ended with %v (%T)", what, err, err)
			}
		}
		var mu sync.Mutex
		acknowledged := make([]map[uint64]string, 2)
		for shard := range acknowledged {
			acknowledged[shard] = make(map[uint64]string)
		}
		for p := range 6 {
			wait.Go(func() {
				for n := 0; ; n++ {
					text := string(rune('a'+p)) + numbered(uint64(n))
					got, err := s.Publish(r.ctx, broker.Explicit(p%2), messages(text)...)
					if err != nil {
						finished("a publisher", err)
						return
					}
					mu.Lock()
					acknowledged[p%2][got.First] = text
					mu.Unlock()
					if n == 5 {
						started <- struct{}{}
					}
				}
			})
		}
		for i := range 4 {
			sub := r.subscribe(s, i%2, broker.Earliest(), broker.SubscribeOptions{WhenFull: broker.WhenFull(i / 2), PageRecords: 3})
			wait.Go(func() {
				for at := uint64(0); ; {
					d, err := sub.Next(r.ctx)
					if err != nil {
						finished("a subscriber", err)
						return
					}
					if d.Records[0].Offset != at {
						t.Errorf("%d where %d belongs", d.Records[0].Offset, at)
						return
					}
					at = d.Next
				}
			})
		}
		wait.Go(func() {
			for {
				if _, err := s.Read(r.ctx, 0, 0, 1000, 0); err != nil {
					finished("a reader", err)
					return
				}
			}
		})
		wait.Go(func() {
			for n := 0; ; n++ {
				if _, _, err := r.b.CreateStream(r.ctx, name("other"), broker.StreamConfig{Durable: true}); err != nil {
					finished("who creates", err)
					return
				}
				if err := r.b.DeleteStream(r.ctx, name("other")); err != nil {
					finished("who deletes", err)
					return
				}
			}
		})
		for range 6 {
			<-started
		}
		if err := r.b.Close(r.ctx); err != nil {
			t.Error(err)
		}
		wait.Wait()
		r.b = nil
		r.open()
		s = r.stream(name("s"))
		for shard, records := range acknowledged {
			for at, text := range records {
				page := r.read(s, shard, at)
				if len(page.Records) == 0 || string(page.Records[0].Value) != text {
					t.Errorf("shard %d: %d was acknowledged as %q and is %+v", shard, at, text, page.Records)
				}
			}
		}
	}
}

func TestACloseThatRanOutOfTimeGoesOn(t *testing.T) {
	disk, set := faulty(t)
	r := newRig(t, set, unflushed)
	s := r.create(name("s"), broker.StreamConfig{Durable: true})
	r.fill(s, 0, 3)
	held := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Stall: true, Path: isLog})
	t.Cleanup(held.Remove)
	ctx, cancel := context.WithTimeout(r.ctx, 20*time.Millisecond)
	defer cancel()
	if err := r.b.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("closing while a flush hangs: %v", err)
	}
	_, err := s.Publish(r.ctx, broker.Explicit(0), messages("x")...)
	errorAs[*broker.ClosedError](t, err)
	held.Release()
	if err := r.b.Close(r.ctx); err != nil {
		t.Errorf("closing again: %v", err)
	}
	r.b = nil
	r.open()
	r.wantTexts(r.stream(name("s")), 0, 0, numbered(0), numbered(1), numbered(2))
}

func TestABrokerThatCannotOpenLeavesTheRootFree(t *testing.T) {
	disk, set := faulty(t)
	r := newRig(t, set)
	r.create(name("s"), broker.StreamConfig{Durable: true})
	if err := r.b.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	r.b = nil
	for _, kind := range []faultdisk.Kinds{faultdisk.ReadDir, faultdisk.FlushDir, faultdisk.OpenDir} {
		put := disk.Inject(faultdisk.Fault{Kinds: kind, Errno: syscall.EIO, Path: func(path string) bool { return path == r.cfg.Root+"/"+broker.DefinitionsDir }})
		b, err := broker.Open(r.ctx, r.cfg)
		if err == nil {
			t.Errorf("%v: opened with the definitions unseen", kind)
			_ = b.Close(r.ctx)
		}
		put.Remove()
	}
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	if _, err := broker.Open(ctx, r.cfg); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r.open()
	r.fill(r.stream(name("s")), 0, 1)
	if _, err := broker.Open(r.ctx, r.cfg); err == nil {
		t.Error("two brokers have one root")
	}
}

func TestEveryNumberOfAConfigurationIsChecked(t *testing.T) {
	for i := range reflect.TypeFor[broker.Config]().NumField() {
		var cfg broker.Config
		field, name := reflect.ValueOf(&cfg).Elem().Field(i), reflect.TypeFor[broker.Config]().Field(i).Name
		if !field.CanInt() {
			continue
		}
		field.SetInt(-1)
		if _, err := broker.Open(t.Context(), cfg); errorAs[*broker.InvalidError](t, err).Problem != name+" is negative" {
			t.Errorf("%s below zero: %v", name, err)
		}
	}
}

func TestSettingsBelowZeroAreRefusedTogether(t *testing.T) {
	_, err := broker.Open(t.Context(), broker.Config{RingRecords: -1, RingBytes: -1, PageBytes: -5, SubscriptionsMax: -1})
	e := errorAs[*broker.InvalidError](t, err)
	if e.Problem != "RingRecords is negative; RingBytes is negative; PageBytes is negative; SubscriptionsMax is negative" {
		t.Errorf("%+v", e)
	}
	cfg := broker.Config{Root: t.TempDir()} // no engine settings at all
	if _, err := broker.Open(t.Context(), cfg); err == nil {
		t.Error("an engine without settings")
	}
	var wrong *engine.ConfigError
	cfg.Engine = quietEngine()
	cfg.Engine.SegmentBytes = 1
	if _, err := broker.Open(t.Context(), cfg); !errors.As(err, &wrong) {
		t.Error(err)
	}
}
