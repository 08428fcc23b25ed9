package kafka

import (
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

// BenchmarkProduceIdempotentOnePartition measures one franz-go producer with its default
// idempotence, batches of 4 KiB for one partition, under on_commit: appends/sync is how
// many of its batches under way share a flush.
//
//	go test -run "^$" -bench ProduceIdempotentOnePartition -benchtime 3x ./kafka
func BenchmarkProduceIdempotentOnePartition(b *testing.B) {
	r := start(b, func(_ *Config, c *broker.Config) { c.Engine.FsyncMode = engine.FsyncOnCommit })
	name := broker.StreamName{Tenant: "bench", Namespace: "default", Stream: "one"}
	if _, _, err := r.broker.CreateStream(b.Context(), name, broker.StreamConfig{Durable: true, Format: broker.FormatKafka}); err != nil {
		b.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(r.addr), kgo.DefaultProduceTopic(name.Dotted()), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(4<<10), kgo.MaxBufferedRecords(20000))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	const records = 6000
	value := make([]byte, 1024)
	before := r.broker.Store().Stats()
	for range b.N {
		var wait sync.WaitGroup
		wait.Add(records)
		for range records {
			client.Produce(b.Context(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
				if err != nil {
					b.Error(err)
				}
				wait.Done()
			})
		}
		wait.Wait()
	}
	now := r.broker.Store().Stats()
	b.ReportMetric(float64(records*b.N)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(now.Appends-before.Appends)/float64(now.Syncs-before.Syncs), "appends/sync")
}
