package broker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
)

func TestAHandleOfADeletedStreamChangesNothingOfTheNextOne(t *testing.T) {
	for what, cfg := range map[string]broker.StreamConfig{"durable": {Durable: true}, "in memory": {}} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			old := r.create(name("s"), cfg)
			r.fill(old, 0, 10)
			sub := r.subscribe(old, 0, broker.Earliest(), broker.SubscribeOptions{})
			if err := r.b.DeleteStream(r.ctx, name("s")); err != nil {
				t.Fatal(err)
			}
			errorAs[*broker.NotFoundError](t, r.b.DeleteStream(r.ctx, name("s")))
			s := r.create(name("s"), cfg)
			r.fill(s, 0, 4)
			for what, use := range map[string]func() error{
				"Publish":       func() error { _, err := old.Publish(r.ctx, broker.Explicit(0), messages("x")...); return err },
				"Read":          func() error { _, err := old.Read(r.ctx, 0, 2, 100, 1); return err },
				"Read the next": func() error { _, err := old.Read(r.ctx, 0, 10, 100, 1); return err },
				"Subscribe": func() error {
					_, err := old.Subscribe(r.ctx, 0, broker.Latest(), broker.SubscribeOptions{})
					return err
				},
				"Resolve":           func() error { _, err := old.Resolve(r.ctx, 0, broker.AtTime(1)); return err },
				"Resolve the next":  func() error { _, err := old.Resolve(r.ctx, 0, broker.Latest()); return err },
				"Resolve the first": func() error { _, err := old.Resolve(r.ctx, 0, broker.Earliest()); return err },
				"DeleteRecords":     func() error { _, err := old.DeleteRecords(r.ctx, 0, 3); return err },
				"Grow":              func() error { return old.Grow(r.ctx, 3) },
				"Next": func() error {
					for {
						if _, err := sub.Next(r.ctx); err != nil {
							return err
						}
					}
				},
			} {
				var deleted *broker.DeletedError
				if err := use(); !errors.As(err, &deleted) || deleted.Stream != name("s") {
					t.Errorf("%s: %v", what, err)
				}
			}
			check := func() {
				t.Helper()
				if info := r.info(s, 0); info.Base != 0 || info.Next != 4 || s.Shards() != 1 {
					t.Errorf("%+v", info)
				}
			}
			check()
			if !cfg.Durable {
				return
			}
			r.reopen()
			s = r.stream(name("s"))
			check()
		})
	}
}

// A flood of publishers, subscribers, readers and watchers, and a stream that comes
// and goes under them: each gets an answer that says so, and what is created anew
// begins at 0.
func TestAStreamIsDeletedAndCreatedUnderEverybody(t *testing.T) {
	for what, cfg := range map[string]broker.StreamConfig{"durable": {Durable: true, Shards: 2}, "in memory": {Shards: 2}} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, unflushed, tinyRing, func(c *broker.Config) { c.SubscriberQueue = 4 })
			r.create(name("s"), cfg)
			ctx, stop := context.WithCancel(r.ctx)
			var wait sync.WaitGroup
			var used atomic.Int64
			acceptable := func(err error) bool {
				return err == nil || ctx.Err() != nil || is[*broker.DeletedError](err) || is[*broker.NotFoundError](err) ||
					is[*broker.CursorTooOldError](err) || is[*broker.CursorInFutureError](err)
			}
			users := []func(s *broker.Stream) error{
				func(s *broker.Stream) error {
					_, err := s.Publish(ctx, broker.RoundRobin(), messages("a", "b", "c")...)
					return err
				},
				func(s *broker.Stream) error {
					sub, err := s.Subscribe(ctx, 0, broker.Earliest(), broker.SubscribeOptions{})
					if err != nil {
						return err
					}
					defer sub.Close()
					for at := sub.Start(); ; {
						d, err := sub.Next(ctx)
						if err != nil {
							return err
						}
						if d.Missed == nil && d.Records[0].Offset != at {
							return errors.New("a gap")
						}
						at = d.Next
					}
				},
				func(s *broker.Stream) error {
					sub, err := s.Subscribe(ctx, 1, broker.Latest(), broker.SubscribeOptions{WhenFull: broker.WhenFullBlock, PageRecords: 2})
					if err != nil {
						return err
					}
					defer sub.Close()
					for range 5 {
						if _, err := sub.Next(ctx); err != nil {
							return err
						}
					}
					return nil
				},
				func(s *broker.Stream) error { _, err := s.Read(ctx, 1, 3, 1000, 0); return err },
				func(s *broker.Stream) error { _, err := s.DeleteRecords(ctx, 0, 2); return err },
				func(s *broker.Stream) error {
					watch := r.b.NewWatch()
					defer watch.Close()
					if err := watch.Add(s, 0); err != nil {
						return err
					}
					select {
					case <-watch.C:
					case <-ctx.Done():
					}
					return nil
				},
				func(s *broker.Stream) error { r.b.Stats(); r.b.Health(); r.b.Streams(); return nil },
			}
			for _, use := range users {
				wait.Go(func() {
					for ctx.Err() == nil {
						s, err := r.b.Stream(name("s"))
						if err == nil {
							err = use(s)
						}
						if !acceptable(err) {
							t.Errorf("%v (%T)", err, err)
							return
						}
						used.Add(1)
					}
				})
			}
			for range 5 {
				for before := used.Load(); used.Load() < before+20 && r.ctx.Err() == nil; {
					time.Sleep(0) // lets the others go on
				}
				if err := r.b.DeleteStream(r.ctx, name("s")); err != nil {
					t.Error(err)
					break
				}
				if _, created, err := r.b.CreateStream(r.ctx, name("s"), cfg); err != nil || !created {
					t.Errorf("created %v, %v", created, err)
					break
				}
			}
			stop()
			wait.Wait()
			if n := r.b.Stats().Subscriptions; n != 0 {
				t.Errorf("%d subscriptions are still counted", n)
			}
			if err := r.b.Close(r.ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// What a deletion that failed half-way leaves is a stream that nobody publishes to,
// since the next start may carry it out; deleting it again goes on.
func TestADeletionThatFailsCanBeCarriedOn(t *testing.T) {
	for what, fault := range map[string]faultdisk.Fault{
		"the rename of a shard":    {Kinds: faultdisk.Rename, Path: func(path string) bool { return filepath.Base(filepath.Dir(path)) == ".deleted" }},
		"the flush of the root":    {Kinds: faultdisk.FlushDir, Path: func(path string) bool { return filepath.Base(path) == "root" }},
		"the definition's removal": {Kinds: faultdisk.Remove, Path: func(path string) bool { return filepath.Ext(path) == ".json" }},
		"the flush after the mark": {Kinds: faultdisk.FlushDir, Path: func(path string) bool { return filepath.Base(path) == "streams" }},
		"the last flush":           {Kinds: faultdisk.FlushDir, At: 2, Path: func(path string) bool { return filepath.Base(path) == "streams" }},
	} {
		t.Run(what, func(t *testing.T) {
			disk, set := faulty(t)
			r := newRig(t, set, func(c *broker.Config) { c.Root = filepath.Join(c.Root, "root") })
			s := r.create(name("s"), broker.StreamConfig{Durable: true, Shards: 2})
			r.fill(s, 0, 3)
			fault.Errno = syscall.EIO
			put := disk.Inject(fault)
			if err := r.b.DeleteStream(r.ctx, name("s")); !errors.Is(err, syscall.EIO) {
				t.Fatal(err)
			}
			if put.Hits() != 1 {
				t.Fatalf("the fault hit %d times", put.Hits())
			}
			_, published := s.Publish(r.ctx, broker.Explicit(0), messages("lost")...)
			_, _, created := r.b.CreateStream(r.ctx, name("s"), broker.StreamConfig{Durable: true})
			for _, err := range []error{published, created, s.Grow(r.ctx, 5)} {
				errorAs[*broker.DeletedError](t, err)
			}
			if err := r.b.DeleteStream(r.ctx, name("s")); err != nil {
				t.Fatal(err)
			}
			s = r.create(name("s"), broker.StreamConfig{Durable: true, Shards: 2})
			if info := r.info(s, 0); info.Next != 0 {
				t.Errorf("the new stream has %+v", info)
			}
		})
	}
}

// Where nothing of the deletion reached the disk, the stream goes on.
func TestADeletionThatCouldNotBeginChangesNothing(t *testing.T) {
	disk, set := faulty(t)
	r := newRig(t, set)
	s := r.create(name("s"), broker.StreamConfig{Durable: true})
	r.fill(s, 0, 3)
	for _, kind := range []faultdisk.Kinds{faultdisk.Create, faultdisk.Write, faultdisk.Flush, faultdisk.Rename} {
		isTemporary := func(path string) bool { return filepath.Ext(path) == ".tmp" }
		put := disk.Inject(faultdisk.Fault{Kinds: kind, Errno: syscall.ENOSPC, Path: isTemporary})
		if err := r.b.DeleteStream(r.ctx, name("s")); !errors.Is(err, syscall.ENOSPC) || put.Hits() != 1 {
			t.Errorf("%v: %v after %d hits", kind, err, put.Hits())
		}
		r.fill(s, 0, r.info(s, 0).Next+1)
	}
	next := r.info(s, 0).Next
	r.reopen()
	if info := r.info(r.stream(name("s")), 0); info.Next != next || info.State != broker.StateServing {
		t.Errorf("%+v, want %d records", info, next)
	}
}

func TestAPoisonedAndARefusedShardAreDeleted(t *testing.T) {
	disk, set := faulty(t)
	r := newRig(t, set)
	s := r.create(name("s"), broker.StreamConfig{Durable: true, Shards: 2})
	r.fill(s, 0, 3)
	disk.Inject(faultdisk.Fault{Kinds: faultdisk.WriteDsync, Errno: syscall.EIO, Path: isLog})
	if _, err := s.Publish(r.ctx, broker.Explicit(0), messages("x")...); !errors.Is(err, engine.ErrPoisoned) {
		t.Fatal(err)
	}
	if err := r.b.DeleteStream(r.ctx, name("s")); err != nil {
		t.Fatal(err)
	}
	s = r.create(name("s"), broker.StreamConfig{Durable: true, Shards: 2})
	r.fill(s, 0, 2)
	if err := r.b.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	// A file where the shard's directory belongs makes the open be refused.
	dir := filepath.Join(r.cfg.Root, engine.ShardKey{Tenant: "t", Namespace: "n", Stream: "s", Shard: 1, Incarnation: 1}.DirName())
	if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	r.open()
	if info := r.info(r.stream(name("s")), 1); info.State != broker.StateRefused {
		t.Fatalf("%+v", info)
	}
	if err := r.b.DeleteStream(r.ctx, name("s")); err != nil {
		t.Fatal(err)
	}
	r.fill(r.create(name("s"), broker.StreamConfig{Durable: true, Shards: 2}), 1, 2)
}

// The second stream of a name has directories of its own, also for shards that the
// first one had and it gets later.
func TestAStreamOfAFormerNameHasAnIncarnationOfItsOwn(t *testing.T) {
	r := newRig(t)
	wide := r.create(name("s"), broker.StreamConfig{Durable: true, Shards: 3})
	r.fill(wide, 2, 5)
	r.forget("s")
	r.reopen()
	narrow := r.create(name("s"), broker.StreamConfig{Durable: true, Shards: 1})
	r.fill(narrow, 0, 2)
	if err := r.b.DeleteStream(r.ctx, name("s")); err != nil {
		t.Fatal(err)
	}
	again := r.create(name("s"), broker.StreamConfig{Durable: true, Shards: 3})
	for shard := range 3 {
		if info := r.info(again, shard); info.Next != 0 {
			t.Errorf("shard %d begins with %+v", shard, info)
		}
	}
	r.fill(again, 2, 4)
	dir := engine.ShardKey{Tenant: "t", Namespace: "n", Stream: "s", Shard: 2, Incarnation: 1}.DirName()
	if _, err := os.Stat(filepath.Join(r.cfg.Root, dir)); err != nil {
		t.Error(err)
	}
	// A definition that is lost does not lose the records, whichever incarnation it was.
	r.forget("s")
	r.reopen()
	found := r.create(name("s"), broker.StreamConfig{Durable: true, Shards: 3})
	if info := r.info(found, 2); info.Next != 4 {
		t.Errorf("%+v", info)
	}
}
