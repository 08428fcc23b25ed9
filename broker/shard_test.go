package broker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/fallback"
	"felix.local/felix/internal/faultdisk"
)

// bareShard is a shard of a broker without a root.
func bareShard(t *testing.T) *shard {
	t.Helper()
	b, err := Open(t.Context(), Config{RingRecords: 8})
	if err != nil {
		t.Fatal(err)
	}
	return b.newShard(StreamName{"t", "n", "s"}, 0, FormatRaw, 0)
}

// A subscriber looks at a shard and finds nothing; then a record is committed, then
// the log is poisoned, and only then it looks whether there will be more.
func TestWhatWasCommittedJustBeforeThePoisonIsDelivered(t *testing.T) {
	h := bareShard(t)
	sub := &Subscription{shard: h, wake: make(chan struct{}, 1)}
	h.mu.Lock()
	h.mu.ring.push(entry{timestamp: 1, payload: []byte("last words")})
	h.mu.next = 1
	h.mu.Unlock()
	h.Poisoned(errors.New("the device is gone"), 1)
	if err := sub.poisoned(); err != nil {
		t.Errorf("it ends with a record to read: %v", err)
	}
	sub.next = 1
	if err := sub.poisoned(); err == nil {
		t.Error("it does not end when all was read")
	}
}

// heldFollower holds the log's lock in Poisoned until it is let go.
type heldFollower struct {
	*shard
	entered, letGo chan struct{}
}

func (f *heldFollower) Poisoned(cause error, readable uint64) {
	close(f.entered)
	<-f.letGo
	f.shard.Poisoned(cause, readable)
}

// A backend that is lost poisons logs that are being opened, too: Poisoned, under
// the log's lock, meets the opener on its way to the log.
func TestALogThatIsPoisonedWhileItIsOpenedHoldsUpNobody(t *testing.T) {
	for range 20 {
		pool := fallback.Open(fallback.Options{})
		disk := faultdisk.New(device.OS(), pool, faultdisk.Options{})
		cfg := engine.DefaultConfig()
		cfg.FsyncMode = engine.FsyncOnCommit
		cfg.FS, cfg.Queue = disk.FS(), disk.Queue()
		cfg.Logger = slog.New(slog.DiscardHandler)
		store, err := engine.OpenStore(t.Context(), t.TempDir(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		h := bareShard(t)
		f := &heldFollower{h, make(chan struct{}), make(chan struct{})}
		log, err := store.OpenLogWith(t.Context(), engine.ShardKey{Tenant: "t", Namespace: "n", Stream: "s"}, engine.LogOptions{Follower: f})
		if err != nil {
			t.Fatal(err)
		}
		disk.Inject(faultdisk.Fault{Kinds: faultdisk.WriteDsync | faultdisk.Flush, Errno: 5})
		var wait sync.WaitGroup
		wait.Go(func() { _, _ = log.Append(context.Background(), engine.Record{Payload: []byte("x")}) })
		<-f.entered
		began := make(chan struct{})
		wait.Go(func() {
			close(began)
			h.begin(log)
		})
		<-began
		wait.Go(func() { close(f.letGo) })
		done := make(chan struct{})
		go func() {
			defer close(done)
			wait.Wait()
		}()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatal("the opener and the log wait for each other")
		}
		if state, _ := h.status(); state != StatePoisoned {
			t.Errorf("the shard is %v", state)
		}
		_ = store.Close(context.Background()) // it is poisoned, and says so
		if err := disk.Queue().Close(); err != nil {
			t.Error(err)
		}
	}
}

// A log may have committed more than the shard was told; its view ends where the
// shard was told, on disk as in the ring.
func TestAReadFromDiskEndsWhereTheViewEnds(t *testing.T) {
	b := memoryBroker(t, 0, 0)
	s, _, err := b.CreateStream(t.Context(), memoryName, StreamConfig{Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := s.Publish(t.Context(), Explicit(0), Message{Value: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	h := (*s.shards.Load())[0]
	h.mu.Lock()
	h.mu.ring.reset(5)
	h.mu.next = 5
	h.mu.Unlock()
	p, err := s.Read(t.Context(), 0, 2, 1<<20, 0)
	if err != nil || len(p.Records) != 3 || p.Next != 5 {
		t.Errorf("%+v, %v", p, err)
	}
}

// The log says what it has; what was deleted of that is gone all the same.
func TestTheOldestOfATrimIsNeverBelowTheFloor(t *testing.T) {
	h := bareShard(t)
	h.mu.next, h.mu.floor = 20, 7
	for logOldest, want := range map[uint64]uint64{4: 7, 7: 7, 12: 12} {
		var gone *CursorTooOldError
		if err := h.readError(&engine.TrimmedError{Requested: 1, Oldest: logOldest}); !errors.As(err, &gone) || gone.Oldest != want || gone.Requested != 1 {
			t.Errorf("%d: %v", logOldest, err)
		}
	}
}

// The last look of a subscription that learns of the drain before it learns of a
// record.
func TestADrainEndsNoSubscriptionThatHasSomethingToTake(t *testing.T) {
	h := bareShard(t)
	h.broker.Drain()
	sub := &Subscription{shard: h, wake: make(chan struct{}, 1)}
	var closed *ClosedError
	if err := sub.wait(t.Context()); !errors.As(err, &closed) {
		t.Errorf("with nothing to take: %v", err)
	}
	h.mu.next = 1
	if err := sub.wait(t.Context()); err != nil {
		t.Errorf("with a record to take: %v", err)
	}
}

func TestASubscriptionThatIsClosedLeavesNothingInTheShard(t *testing.T) {
	b, err := Open(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := b.CreateStream(t.Context(), memoryName, StreamConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var subs []*Subscription
	for i := range 10 {
		sub, err := s.Subscribe(t.Context(), 0, Latest(), SubscribeOptions{WhenFull: WhenFull(i % 2)})
		if err != nil {
			t.Fatal(err)
		}
		subs = append(subs, sub)
	}
	for _, i := range []int{3, 0, 9, 5, 1, 2, 8, 4, 6, 7} {
		subs[i].Close()
	}
	h := (*s.shards.Load())[0]
	if n := len(h.mu.watchers) + len(h.mu.queues) + len(h.mu.blockers) + h.mu.subscriptions + int(h.blocking.Load()); n != 0 {
		t.Errorf("%d watchers, %d queues, %d blockers, %d subscriptions", len(h.mu.watchers), len(h.mu.queues), len(h.mu.blockers), h.mu.subscriptions)
	}
}

// Nobody waits for room in a shard that takes nothing: the log says why.
func TestAFullSubscriptionHoldsNobodyBackFromAPoisonedShard(t *testing.T) {
	h := bareShard(t)
	sub := &Subscription{shard: h}
	h.mu.blockers = []*Subscription{sub}
	h.mu.next = 1 << 20
	h.mu.state = StatePoisoned
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := h.waitForRoom(ctx); err != nil {
		t.Error(err)
	}
}
