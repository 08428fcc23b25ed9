package broker

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"

	"felix.local/felix/engine"
)

// memoryBroker has a root, small rings and a bound for all of them.
func memoryBroker(t *testing.T, ringBytes, total int64) *Broker {
	t.Helper()
	cfg := Config{Root: t.TempDir(), Engine: engine.DefaultConfig(), RingBytes: ringBytes, RingBytesTotal: total, Logger: slog.New(slog.DiscardHandler)}
	cfg.Engine.FsyncMode = engine.FsyncNone
	cfg.Engine.MinFreeBytes, cfg.Engine.MinFreeInodes = 0, 0
	cfg.Engine.Logger = cfg.Logger
	b, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

var memoryName = StreamName{"t", "n", "s"}

// weights is what the rings of a stream take, as they say themselves.
func weights(s *Stream) (total int64, counts []int) {
	for _, h := range *s.shards.Load() {
		h.mu.Lock()
		total += h.mu.ring.weight()
		counts = append(counts, h.mu.ring.count)
		h.mu.Unlock()
	}
	return total, counts
}

func TestTheRingsOfAllShardsKeepWithinTheirCommonBound(t *testing.T) {
	const shards, bound = 8, 100_000
	b := memoryBroker(t, 60_000, bound)
	s, _, err := b.CreateStream(t.Context(), memoryName, StreamConfig{Durable: true, Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for shard := range shards {
		wait.Go(func() {
			for range 100 {
				if _, err := s.Publish(t.Context(), Explicit(shard), Message{Value: make([]byte, 1000)}, Message{Value: make([]byte, 700)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	total, counts := weights(s)
	if total != b.ringBytes.Load() {
		t.Errorf("the rings take %d bytes, and %d are counted", total, b.ringBytes.Load())
	}
	if total > bound {
		t.Errorf("the rings take %d bytes of %d", total, bound)
	}
	if held := slices.Max(counts); held < 10 {
		t.Errorf("the rings hold %v records", counts)
	}
	for shard := range shards {
		for at := uint64(0); at < 200; {
			p, err := s.Read(t.Context(), shard, at, 20_000, 0)
			if err != nil || p.Next != 200 || len(p.Records) == 0 || p.Records[0].Offset != at {
				t.Fatalf("shard %d at %d: %+v, %v", shard, at, p, err)
			}
			at += uint64(len(p.Records))
		}
	}
}

// Publishers go on until they are told that the stream is gone: what is committed
// behind the deletion's back takes no part of the bound with it.
func TestADeletedStreamGivesItsRingsBack(t *testing.T) {
	b := memoryBroker(t, 1<<20, 1<<30)
	for range 6 {
		s, created, err := b.CreateStream(t.Context(), memoryName, StreamConfig{Durable: true, Shards: 2})
		if err != nil || !created {
			t.Fatal(created, err)
		}
		var wait sync.WaitGroup
		started := make(chan struct{}, 4)
		for i := range cap(started) {
			wait.Go(func() {
				for n := 0; ; n++ {
					if _, err := s.Publish(t.Context(), Explicit(i%2), Message{Value: make([]byte, 100)}); err != nil {
						return
					}
					if n == 3 {
						started <- struct{}{}
					}
				}
			})
		}
		for range cap(started) {
			<-started
		}
		if err := b.DeleteStream(t.Context(), memoryName); err != nil {
			t.Fatal(err)
		}
		wait.Wait()
		if left := b.ringBytes.Load(); left != 0 {
			t.Fatalf("%d bytes are counted without a stream", left)
		}
	}
}

// A ring that holds the last records of a large batch does not keep the rest of the
// batch alive.
func TestARingKeepsNoMoreOfABatchThanItHolds(t *testing.T) {
	const record, batch = 1 << 10, 16 << 20
	for what, durable := range map[string]bool{"durable": true, "in memory": false} {
		t.Run(what, func(t *testing.T) {
			b := memoryBroker(t, 8<<20, 100<<10)
			b.cfg.RingRecords = 50
			s, _, err := b.CreateStream(t.Context(), memoryName, StreamConfig{Durable: durable, Shards: 4})
			if err != nil {
				t.Fatal(err)
			}
			messages := make([]Message, batch/record)
			for i := range messages {
				messages[i].Value = make([]byte, record)
			}
			before := reachable()
			for shard := range 4 {
				if _, err := s.Publish(t.Context(), Explicit(shard), messages...); err != nil {
					t.Fatal(err)
				}
			}
			if grown := reachable() - before; grown > 4<<20 {
				t.Errorf("4 rings of 50 records of 1 KiB keep %d bytes", grown)
			}
			runtime.KeepAlive(messages)
		})
	}
}

func reachable() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestABlockingSubscriptionIsNeverFurtherBehindThanTheRing(t *testing.T) {
	b := memoryBroker(t, 0, 0)
	b.cfg.RingRecords, b.cfg.SubscriberQueue = 3, 100
	s, _, err := b.CreateStream(t.Context(), memoryName, StreamConfig{Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	sub, err := s.Subscribe(t.Context(), 0, Latest(), SubscribeOptions{WhenFull: WhenFullBlock})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	h := (*s.shards.Load())[0]
	for range 3 {
		h.mu.Lock()
		if h.fullLocked() {
			t.Error("full too early")
		}
		h.mu.Unlock()
		if _, err := s.Publish(t.Context(), Explicit(0), Message{Value: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.fullLocked() {
		t.Error("not full with all of the ring to read")
	}
}

func TestASlabGivesEachPayloadItsOwnBytes(t *testing.T) {
	var s slab
	sizes := []int{0, 1, 100, slabBytes - 102, 0, 5, slabBytes, slabBytes + 1, 3, 0, 40_000, 30_000}
	left := int64(0)
	for _, size := range sizes {
		left += int64(size)
	}
	var entries []entry
	for i, size := range sizes {
		b := make([]byte, size)
		for k := range b {
			b[k] = byte(i + 1)
		}
		entries = s.add(entries, uint64(i), b, left)
		left -= int64(size)
		clear(b) // it is a copy
	}
	kept := int64(0)
	for i, e := range entries {
		c := e.payload
		kept += e.keeps
		if len(c) != sizes[i] || cap(c) != len(c) {
			t.Errorf("copy %d has %d of %d bytes", i, len(c), cap(c))
		}
		for _, got := range c {
			if got != byte(i+1) {
				t.Fatalf("copy %d holds bytes of copy %d", i, got-1)
			}
		}
	}
	if want := int64(5*slabBytes + 1 + 30_000); kept != want {
		t.Errorf("the entries keep %d bytes, and the slabs have %d", kept, want)
	}
}

// What the bound counts is what the rings keep reachable: slots and slabs, and nothing
// of a ring that is empty.
func TestTheCommonBoundIsAboutMemory(t *testing.T) {
	const shards, bound = 200, 2 << 20
	b := memoryBroker(t, 4<<20, bound)
	s, _, err := b.CreateStream(t.Context(), memoryName, StreamConfig{Durable: true, Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	publish := func(shard int, sizes ...int) {
		messages := make([]Message, len(sizes))
		for i, size := range sizes {
			messages[i].Value = make([]byte, size)
		}
		if _, err := s.Publish(t.Context(), Explicit(shard), messages...); err != nil {
			t.Fatal(err)
		}
	}
	before := reachable()
	for shard := range shards {
		publish(shard, make([]int, 1200)...)   // slots
		publish(shard, 200<<10, 64, 64, 64, 1) // a slab and small ones behind it
	}
	if grown := reachable() - before; grown > 2*bound {
		t.Errorf("%d rings keep %d bytes, the bound is %d", shards, grown, bound)
	}
	if total, _ := weights(s); total > bound || total != b.ringBytes.Load() {
		t.Errorf("the rings weigh %d bytes, %d are counted, of %d", total, b.ringBytes.Load(), bound)
	}
}

// A ring that nobody writes to makes room for one that is written to.
func TestARingThatWentIdleGivesItsPlaceToABusyOne(t *testing.T) {
	b := memoryBroker(t, 64<<10, 100<<10)
	s, _, err := b.CreateStream(t.Context(), memoryName, StreamConfig{Durable: true, Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	for shard := range 4 {
		for range 60 {
			if _, err := s.Publish(t.Context(), Explicit(shard), Message{Value: make([]byte, 1000)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, counts := weights(s)
	if counts[3] < 50 {
		t.Errorf("the busiest shard's ring holds %d records, all of them %v", counts[3], counts)
	}
}

func TestInMemoryStreamsKeepWithinTheirCommonBound(t *testing.T) {
	b := memoryBroker(t, 8<<20, 0)
	b.cfg.MemoryBytesTotal = 1 << 20
	s, _, err := b.CreateStream(t.Context(), memoryName, StreamConfig{Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	var subs []*Subscription
	for _, opts := range []SubscribeOptions{{}, {WhenFull: WhenFullBlock}, {}} {
		sub, err := s.Subscribe(t.Context(), 0, Earliest(), opts)
		if err != nil {
			t.Fatal(err)
		}
		subs = append(subs, sub)
	}
	refused := 0
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // a publish that would wait for a full subscription ends
	for n := range 100 {
		_, err := s.Publish(ctx, Explicit(n%2), Message{Value: make([]byte, 100<<10)})
		var memory *MemoryError
		var blocked *BlockedError
		if errors.As(err, &memory) || errors.As(err, &blocked) {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
		if got := b.memoryBytes.Load(); got > b.cfg.MemoryBytesTotal {
			t.Fatalf("%d bytes are held of %d", got, b.cfg.MemoryBytesTotal)
		}
	}
	if refused == 0 {
		t.Error("nothing was ever refused")
	}
	// Who holds publishers back misses nothing.
	for at, next := uint64(0), (*s.shards.Load())[0].info().Next; at < next; {
		d, err := subs[1].Next(t.Context())
		if err != nil || d.Missed != nil {
			t.Fatalf("at %d of %d: %+v, %v", at, next, d, err)
		}
		at = d.Next
	}
	for _, sub := range subs {
		sub.Close()
	}
	if err := b.DeleteStream(t.Context(), memoryName); err != nil {
		t.Fatal(err)
	}
	if left := b.memoryBytes.Load(); left != 0 {
		t.Errorf("%d bytes are counted when everything is gone", left)
	}
}

func TestAnIdleSubscriptionKeepsNoPage(t *testing.T) {
	b := memoryBroker(t, 0, 0)
	s, _, err := b.CreateStream(t.Context(), memoryName, StreamConfig{Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	sub, err := s.Subscribe(t.Context(), 0, Earliest(), SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	if _, err := s.Publish(t.Context(), Explicit(0), make([]Message, 3000)...); err != nil {
		t.Fatal(err)
	}
	for sub.next < 3000 {
		d, err := sub.Next(t.Context())
		if err != nil || len(d.Records) > DefaultPageRecords {
			t.Fatalf("%d records, %v", len(d.Records), err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sub.Next(ctx); !errors.Is(err, context.Canceled) || sub.records != nil {
		t.Errorf("%v, and a page of %d", err, cap(sub.records))
	}
}
