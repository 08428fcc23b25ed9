package bench

import (
	"context"
	"testing"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

func TestALoadThroughTheBrokerReachesEverySubscriber(t *testing.T) {
	b, err := broker.Open(t.Context(), broker.Config{Root: t.TempDir(), Engine: engine.DefaultConfig()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	name := broker.StreamName{Tenant: "t", Namespace: "n", Stream: "s"}
	stream, _, err := b.CreateStream(t.Context(), name, broker.StreamConfig{Durable: true, Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	subscribers, err := Subscribe(t.Context(), stream, 4)
	if err != nil {
		t.Fatal(err)
	}
	load := Load{Records: 600, PayloadBytes: 64, Batch: 3, Concurrency: 4}
	result, err := load.Run(t.Context(), BrokerTarget(stream), Hooks{})
	if err != nil || result.Appends != 200 {
		t.Fatalf("%+v, %v", result, err)
	}
	published := uint64(0)
	for shard := range 2 {
		info, err := stream.Shard(shard)
		if err != nil {
			t.Fatal(err)
		}
		published += info.Next
	}
	if published != 600 {
		t.Errorf("the shards hold %d records, of 600 published", published)
	}
	b.Drain() // ends subscriptions that delivered everything
	subscribers.wait.Wait()
	if got := b.Stats().DeliveredRecords; got != 2*published {
		t.Errorf("two subscriptions per shard took %d records, of %d", got, 2*published)
	}
	if err := subscribers.Close(); err != nil {
		t.Error(err)
	}
}
