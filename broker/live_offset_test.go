package broker

import "testing"

// A client that waits for the record before the live offset gets it, also where a
// generation began since.
func TestTheLiveOffsetIsBehindTheNewestRecordThatIsDelivered(t *testing.T) {
	b := memoryBroker(t, 0, 0)
	s, _, err := b.CreateStream(t.Context(), memoryName, StreamConfig{Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	h := (*s.shards.Load())[0]
	publish := func() {
		if _, err := s.Publish(t.Context(), Explicit(0), Message{Value: []byte("x")}, Message{Value: []byte("y")}); err != nil {
			t.Fatal(err)
		}
	}
	begin := func(generation uint64) {
		if _, err := h.log.AcceptGeneration(t.Context(), generation, ""); err != nil {
			t.Fatal(err)
		}
		if _, recorded, err := h.log.StartGeneration(t.Context(), generation, ""); err != nil || !recorded {
			t.Fatal(recorded, err)
		}
	}
	want := func(what string, start Start, first, live uint64) {
		t.Helper()
		sub, err := s.Subscribe(t.Context(), 0, start, SubscribeOptions{})
		if err != nil {
			t.Fatal(what, err)
		}
		defer sub.Close()
		if sub.Start() != first || sub.Live() != live {
			t.Errorf("%s: begins at %d, live from %d; want %d, %d", what, sub.Start(), sub.Live(), first, live)
		}
	}
	want("nothing is there", Latest(), 0, 0)
	publish()
	want("two records", Earliest(), 0, 2)
	begin(1)
	begin(2)
	want("two generations behind them", Earliest(), 0, 2)
	want("from behind the generations", Latest(), 4, 2)
	publish()
	want("records behind the generations", Earliest(), 0, 6)
	reads := b.Store().Stats().ReadRecords
	want("the ring has the newest", Latest(), 6, 6)
	if n := b.Store().Stats().ReadRecords - reads; n != 0 {
		t.Errorf("%d records were read from disk", n)
	}
}
