package kafka

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"felix.local/felix/bench"
	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

// BenchmarkProduceBesideTheEngine measures, in turns in one run, one franz-go
// producer (acks=all, no compression, 1 KiB records, 16 partitions) and the engine
// alone: 16 publishers, one per log, that append as many records at a time as
// the producer's batches had. One iteration is one such pair; the medians are
// reported. The client shares the processors with the server.
//
//	go test -run '^$' -bench ProduceBesideTheEngine -benchtime 5x ./kafka
func BenchmarkProduceBesideTheEngine(b *testing.B) {
	for _, mode := range []engine.FsyncMode{engine.FsyncOnCommit, engine.FsyncPeriodic, engine.FsyncNone} {
		b.Run(mode.String(), func(b *testing.B) { benchmarkProduce(b, mode) })
	}
}

const (
	produceRecords    = 131_072
	producePayload    = 1024
	producePartitions = 16
)

func benchmarkProduce(b *testing.B, mode engine.FsyncMode) {
	r := start(b, func(_ *Config, bcfg *broker.Config) { bcfg.Engine.FsyncMode = mode })
	var through, alone, ratios, dsync []float64
	for range b.N {
		floor, err := bench.MeasureFloor(b.Context(), bench.FloorOptions{Dir: r.broker.Store().Root()})
		if err != nil {
			b.Fatal(err)
		}
		appends := r.broker.Store().Stats().Appends
		x := r.produceRound(b)
		batch := int(produceRecords / (r.broker.Store().Stats().Appends - appends))
		y := engineRound(b, mode, max(1, batch))
		through, alone = append(through, x), append(alone, y)
		ratios, dsync = append(ratios, x/y), append(dsync, float64(floor.Inline.Microseconds()))
		b.ReportMetric(float64(batch), "records/append")
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(through), "kafka-records/s")
	b.ReportMetric(median(alone), "engine-records/s")
	b.ReportMetric(median(ratios), "kafka/engine")
	b.ReportMetric(median(dsync), "device-dsync-us")
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// produceRound gives acknowledged records per second of a topic of its own.
func (r *rig) produceRound(b *testing.B) float64 {
	name := broker.StreamName{Tenant: "bench", Namespace: "default", Stream: "load"}
	_, _, err := r.broker.CreateStream(b.Context(), name, broker.StreamConfig{
		Durable: true, Shards: producePartitions, Format: broker.FormatKafka,
	})
	if err != nil {
		b.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(r.addr), kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.DefaultProduceTopic(name.Dotted()), kgo.MaxProduceRequestsInflightPerBroker(16), kgo.MaxBufferedRecords(produceRecords), kgo.ProducerLinger(0))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	value := make([]byte, producePayload)
	var wait sync.WaitGroup
	var once sync.Once
	var failed error
	wait.Add(produceRecords)
	begun := time.Now()
	for range produceRecords {
		client.Produce(b.Context(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				once.Do(func() { failed = err })
			}
			wait.Done()
		})
	}
	wait.Wait()
	took := time.Since(begun)
	if failed != nil {
		b.Fatal(failed)
	}
	if err := r.broker.DeleteStream(b.Context(), name); err != nil {
		b.Fatal(err)
	}
	return produceRecords / took.Seconds()
}

// engineRound gives the same of a store of its own.
func engineRound(b *testing.B, mode engine.FsyncMode, batch int) float64 {
	cfg := engine.DefaultConfig()
	cfg.FsyncMode = mode
	store, err := engine.OpenStore(b.Context(), b.TempDir(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	logs := make([]*engine.Log, producePartitions)
	for i := range logs {
		if logs[i], err = store.OpenLog(b.Context(), engine.ShardKey{Tenant: "bench", Namespace: "default", Stream: "load", Shard: uint32(i)}); err != nil {
			b.Fatal(err)
		}
	}
	load := bench.Load{Records: produceRecords, PayloadBytes: producePayload, Batch: batch, Concurrency: producePartitions}
	result, err := load.Run(b.Context(), bench.LogTarget(logs), bench.Hooks{})
	if err != nil {
		b.Fatal(err)
	}
	if err := store.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
	return result.RecordsPerSecond()
}
