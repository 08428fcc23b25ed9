package broker_test

import (
	"testing"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

func TestABatchOfAProducerIsStoredAndDeliveredOnce(t *testing.T) {
	r := newRig(t)
	s := r.create(name("orders"), broker.StreamConfig{Durable: true, Shards: 2, Format: broker.FormatKafka})
	sub, err := s.Subscribe(t.Context(), 1, broker.Earliest(), broker.SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	batch := func(sequence uint64) engine.ProducerBatch {
		return engine.ProducerBatch{Producer: 7, Sequence: sequence}
	}
	messages := []broker.Message{{Key: []byte("a"), Value: []byte("1")}, {Value: []byte("2")}}
	for try := range 3 {
		got, err := s.PublishProduced(t.Context(), broker.Explicit(1), batch(0), messages...)
		want := broker.Published{Shard: 1, First: 0, Last: 1, Duplicate: try > 0}
		if err != nil || got != want {
			t.Fatalf("try %d: %+v, %v; want %+v", try, got, err, want)
		}
	}
	_, err = s.PublishProduced(t.Context(), broker.Explicit(1), batch(0), broker.Message{Value: []byte("another")}, broker.Message{})
	if refused := errorAs[*engine.SequenceError](t, err); refused.Reason != engine.SequenceReused {
		t.Errorf("%v", refused)
	}
	_, err = s.PublishProduced(t.Context(), broker.Explicit(1), batch(2), messages...)
	if refused := errorAs[*engine.SequenceError](t, err); refused.Reason != engine.SequenceGap || refused.Expected != 1 {
		t.Errorf("%v", refused)
	}
	_, err = s.PublishProduced(t.Context(), broker.Explicit(0), batch(1), messages...)
	if refused := errorAs[*engine.SequenceError](t, err); refused.Reason != engine.SequenceUnknown {
		t.Errorf("sequences are per shard: %v", refused)
	}
	if got := collect(t, t.Context(), sub, 2); len(got) != 2 || got[0] != (seen{0, "1"}) || got[1] != (seen{1, "2"}) {
		t.Errorf("delivered %v", got)
	}
	if page, err := s.Read(t.Context(), 1, 0, 1<<20, 0); err != nil || len(page.Records) != 2 || page.Next != 2 {
		t.Errorf("%+v, %v", page, err)
	}
	if stats := r.b.Stats(); stats.Publishes != 1 || stats.Duplicates != 2 || stats.PublishFailures != 3 {
		t.Errorf("%+v", stats)
	}
}

func TestARetryAfterARestartIsStillADuplicate(t *testing.T) {
	r := newRig(t)
	s := r.create(name("orders"), broker.StreamConfig{Durable: true})
	batch := engine.ProducerBatch{Producer: 7, Numbering: engine.ByRecord}
	messages := []broker.Message{{Value: []byte("1")}, {Value: []byte("2")}}
	if _, err := s.PublishProduced(t.Context(), broker.RoundRobin(), batch, messages...); err != nil {
		t.Fatal(err)
	}
	r.reopen()
	s = r.stream(name("orders"))
	got, err := s.PublishProduced(t.Context(), broker.RoundRobin(), batch, messages...)
	if err != nil || got != (broker.Published{First: 0, Last: 1, Duplicate: true}) {
		t.Errorf("%+v, %v", got, err)
	}
	batch.Sequence = 2
	got, err = s.PublishProduced(t.Context(), broker.RoundRobin(), batch, messages...)
	if err != nil || got != (broker.Published{First: 2, Last: 3}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAnInMemoryStreamTakesNoIdempotentProducer(t *testing.T) {
	r := newRig(t)
	s := r.create(name("memory"), broker.StreamConfig{})
	_, err := s.PublishProduced(t.Context(), broker.RoundRobin(), engine.ProducerBatch{}, broker.Message{})
	errorAs[*broker.InvalidError](t, err)
}

// Batches that have their places are acknowledged in their order, and counted then.
func TestBatchesOfAProducerAreUnderWayTogether(t *testing.T) {
	r := newRig(t)
	s := r.create(name("orders"), broker.StreamConfig{Durable: true, Format: broker.FormatKafka})
	batch := func(sequence uint64) engine.ProducerBatch {
		return engine.ProducerBatch{Producer: 7, Sequence: sequence}
	}
	messages := []broker.Message{{Key: []byte("a"), Value: []byte("1")}, {Value: []byte("2")}}
	var under []broker.Pending
	var want []broker.Published
	for _, sequence := range []uint64{0, 1, 1, 2} {
		p, err := s.PublishProducedAsync(t.Context(), broker.Explicit(0), batch(sequence), messages...)
		if err != nil {
			t.Fatal(sequence, err)
		}
		duplicate := len(under) == 2
		want = append(want, broker.Published{First: 2 * sequence, Last: 2*sequence + 1, Duplicate: duplicate})
		if at, ok := p.Place(); !ok || at != want[len(under)] {
			t.Errorf("batch %d has the place %+v, %t; want %+v", sequence, at, ok, want[len(under)])
		}
		under = append(under, p)
	}
	for i, p := range under {
		if got, err := p.Wait(t.Context()); err != nil || got != want[i] {
			t.Errorf("%+v, %v; want %+v", got, err, want[i])
		}
	}
	if _, err := s.PublishProducedAsync(t.Context(), broker.Explicit(0), batch(4), messages...); err == nil {
		t.Error("a batch behind a gap has a place")
	}
	reused, err := s.PublishProducedAsync(t.Context(), broker.Explicit(0), batch(2), messages[0])
	if err != nil {
		t.Fatal(err)
	}
	if at, ok := reused.Place(); ok {
		t.Errorf("other records under a sequence have the place %+v", at)
	}
	_, err = reused.Wait(t.Context())
	if refused := errorAs[*engine.SequenceError](t, err); refused.Reason != engine.SequenceReused {
		t.Error(refused)
	}
	stats := r.b.Stats()
	if stats.Publishes != 3 || stats.PublishedRecords != 6 || stats.PublishedBytes != 9 || stats.Duplicates != 1 || stats.PublishFailures != 2 {
		t.Errorf("%+v", stats)
	}
	memory := r.create(name("memory"), broker.StreamConfig{})
	_, err = memory.PublishProducedAsync(t.Context(), broker.RoundRobin(), batch(0), messages...)
	errorAs[*broker.InvalidError](t, err)
}
