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
	h.mu.ring.push(entry{1, []byte("last words")})
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
		log, err := store.OpenLogWith(t.Context(), key(h.stream, 0), engine.LogOptions{Follower: f})
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
