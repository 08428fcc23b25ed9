package broker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// A record that starts a generation takes an offset and is no reader's.
func TestReadersPassOverTheStartOfAGeneration(t *testing.T) {
	b := memoryBroker(t, 0, 0)
	s, _, err := b.CreateStream(t.Context(), memoryName, StreamConfig{Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	h := (*s.shards.Load())[0]
	follower, err := s.Subscribe(t.Context(), 0, Earliest(), SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	publish := func() {
		if _, err := s.Publish(t.Context(), Explicit(0), Message{Value: []byte("x")}, Message{Value: []byte("y")}); err != nil {
			t.Fatal(err)
		}
	}
	start := func(generation uint64) {
		if _, err := h.log.AcceptGeneration(t.Context(), generation, ""); err != nil {
			t.Fatal(err)
		}
		if _, recorded, err := h.log.StartGeneration(t.Context(), generation, ""); err != nil || !recorded {
			t.Fatal(recorded, err)
		}
	}
	publish()
	start(1)
	publish()
	start(2)
	want := []uint64{0, 1, 3, 4}
	take := func(what string, sub *Subscription) {
		t.Helper()
		var got []uint64
		for len(got) < len(want) {
			d, err := sub.Next(t.Context())
			if err != nil {
				t.Fatal(what, err)
			}
			for _, record := range d.Records {
				got = append(got, record.Offset)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: delivered %v, want %v", what, got, want)
		}
	}
	take("what comes", follower)
	reader, err := s.Subscribe(t.Context(), 0, Earliest(), SubscribeOptions{PageRecords: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	take("what was there", reader)

	// Behind the last record there is nothing, and nobody turns in a circle there.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	before := b.Stats().DiskReads
	if d, err := reader.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("delivered %+v, %v", d, err)
	}
	if reads := b.Stats().DiskReads - before; reads > 2 {
		t.Errorf("it read %d times for nothing", reads)
	}
	page, err := s.Read(t.Context(), 0, 5, 1<<20, 0)
	if err != nil || len(page.Records) != 0 || page.Continue != 6 || page.Next != 6 {
		t.Errorf("%+v, %v", page, err)
	}
	publish()
	want = []uint64{6, 7}
	take("what comes behind it", follower)
	take("and to a reader of disk", reader)
	if at, err := s.Resolve(t.Context(), 0, AtTime(1)); err != nil || at != 0 {
		t.Errorf("%d, %v", at, err)
	}
}
