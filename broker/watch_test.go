package broker_test

import (
	"sync"
	"testing"

	"felix.local/felix/broker"
)

// woken waits for one wake-up.
func (r *rig) woken(w *broker.Watch) {
	r.Helper()
	select {
	case <-w.C:
	case <-r.ctx.Done():
		r.Fatal("no wake-up came")
	}
}

func (r *rig) asleep(w *broker.Watch) {
	r.Helper()
	select {
	case <-w.C:
		r.Error("a wake-up for nothing")
	default:
	}
}

// A watcher adds, looks, and waits, against publishers who never wait for it. It
// must see every record, though a wake-up may stand for many.
func TestNoWakeUpIsLostBetweenLookingAndWaiting(t *testing.T) {
	for what, set := range map[string]func(*broker.Config){"durable": unflushed, "in memory": inMemory} {
		t.Run(what, func(t *testing.T) {
			const shards, rounds = 3, 3000
			r := newRig(t, set)
			s := r.create(name("s"), broker.StreamConfig{Durable: r.cfg.Root != "", Shards: shards})
			watch := r.b.NewWatch()
			defer watch.Close()
			for shard := range shards {
				if err := watch.Add(s, shard); err != nil {
					t.Fatal(err)
				}
			}
			// One publishes, the other answers each record by allowing the next: a lost
			// wake-up stops both for good.
			allowed := make(chan struct{}, 1)
			var wait sync.WaitGroup
			wait.Go(func() {
				for round := range rounds {
					if _, err := s.Publish(r.ctx, broker.Explicit(round%shards), messages("x")...); err != nil {
						t.Error(err)
						return
					}
					select {
					case <-allowed:
					case <-r.ctx.Done():
						return
					}
				}
			})
			for seen := uint64(0); seen < rounds; {
				now := uint64(0)
				for shard := range shards {
					now += r.info(s, shard).Next
				}
				if now == seen {
					r.woken(watch)
					continue
				}
				if now != seen+1 {
					t.Fatalf("%d records after %d", now, seen)
				}
				seen = now
				allowed <- struct{}{}
			}
			wait.Wait()
		})
	}
}

func TestAWatchIsWokenByEveryKindOfChange(t *testing.T) {
	r := newRig(t)
	s := r.create(name("s"), broker.StreamConfig{Durable: true, Shards: 2})
	watch := r.b.NewWatch()
	for range 2 { // the second time changes nothing
		if err := watch.Add(s, 0); err != nil {
			t.Fatal(err)
		}
	}
	r.asleep(watch)
	r.fill(s, 1, 1)
	r.asleep(watch)
	r.fill(s, 0, 3)
	r.woken(watch)
	if _, err := s.DeleteRecords(r.ctx, 0, 2); err != nil {
		t.Fatal(err)
	}
	r.woken(watch)
	watch.Remove(s, 0)
	r.fill(s, 0, 4)
	r.asleep(watch)
	if err := watch.Add(s, 1); err != nil {
		t.Fatal(err)
	}
	watch.Remove(s, 7) // there is none
	if err := r.b.DeleteStream(r.ctx, s.Name()); err != nil {
		t.Fatal(err)
	}
	r.woken(watch)
	watch.Close()
	watch.Close()
}

func TestAClosedWatchLeavesNothingBehind(t *testing.T) {
	r := newRig(t, inMemory)
	s := r.create(name("s"), broker.StreamConfig{Shards: 4})
	watch := r.b.NewWatch()
	for shard := range 4 {
		if err := watch.Add(s, shard); err != nil {
			t.Fatal(err)
		}
	}
	other := r.b.NewWatch()
	defer other.Close()
	if err := other.Add(s, 0); err != nil {
		t.Fatal(err)
	}
	watch.Close()
	r.fill(s, 0, 1)
	r.asleep(watch)
	r.woken(other)
}

func TestManyWatchersComeAndGoWhileRecordsArePublished(t *testing.T) {
	r := newRig(t, inMemory)
	s := r.create(name("s"), broker.StreamConfig{Shards: 2})
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 300 {
				watch := r.b.NewWatch()
				if err := watch.Add(s, 0); err != nil {
					t.Error(err)
				}
				before := r.info(s, 0).Next
				if _, err := s.Publish(r.ctx, broker.Explicit(0), messages("x")...); err != nil {
					t.Error(err)
				}
				select {
				case <-watch.C:
				case <-r.ctx.Done():
					t.Errorf("no wake-up at %d", before)
					return
				}
				watch.Close()
			}
		})
	}
	wait.Wait()
}
