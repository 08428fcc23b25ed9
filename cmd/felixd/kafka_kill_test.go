package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// producerKillPartitions is how many partitions the killed server's topic has.
const producerKillPartitions = 3

// producerKills is how often a server is killed under a producer, per mode and backend.
func producerKills() int {
	if os.Getenv("FELIX_LONG_TESTS") == "1" {
		return 20
	}
	return 5
}

// A producer of the Kafka protocol with its default idempotence goes on over every kill
// of the server, and in the end each partition holds each of its records once and in
// order. A kill leaves the page cache alone, so this holds in every mode.
func TestAKilledServerHasEachRecordOfAnIdempotentProducerOnce(t *testing.T) {
	for backend, setting := range backends() {
		for _, mode := range []string{"periodic", "on_commit"} {
			t.Run(backend+" "+mode, func(t *testing.T) {
				t.Parallel()
				producerKillLoop(t, setting, mode)
			})
		}
	}
}

func producerKillLoop(t *testing.T, ioURing, mode string) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	kafkaAddr := freeAddr(t)
	flags := append(killFlags(t, mode), "--kafka-addr", kafkaAddr)
	p := spawn(t, os.Stderr, ioURing, flags...)
	definition := definitionDocument{Durable: new(true), Shards: new(producerKillPartitions), Format: "kafka"}
	if _, err := processClient(t, p).create(t.Context(), stream("orders"), definition); err != nil {
		t.Fatal(err)
	}
	w := startProducing(t, kafkaAddr)
	kills := producerKills()
	for range kills {
		w.awaitAcks(t, 1+random.IntN(300))
		if err := p.kill(); err != nil {
			t.Fatal(err)
		}
		p = spawn(t, os.Stderr, ioURing, flags...)
	}
	w.awaitAcks(t, 100)
	sent := w.finish(t)
	total, got := 0, consumeAll(t, kafkaAddr, sent)
	for partition := range sent {
		want := make([]string, sent[partition])
		for n := range want {
			want[n] = producedValue(partition, n)
		}
		if !slices.Equal(got[partition], want) {
			t.Errorf("partition %d holds %d records that are not the %d sent, each once and in order; first difference at %d",
				partition, len(got[partition]), len(want), firstDifference(got[partition], want))
		}
		total += len(got[partition])
	}
	duplicates, failures := w.offsets(), w.failed.Load()
	if failures != 0 {
		t.Errorf("the producer gave up %d records", failures)
	}
	t.Logf("%d records over %d kills, each once; %d were acknowledged without an offset", total, kills, duplicates)
	if _, err := p.stop(); err != nil {
		t.Error(err)
	}
}

func producedValue(partition, n int) string {
	return fmt.Sprintf("partition %d record %d", partition, n)
}

func firstDifference(a, b []string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// kafkaProducer produces without a pause, until it is told to finish.
type kafkaProducer struct {
	client *kgo.Client
	stop   chan struct{}
	done   chan [producerKillPartitions]int
	// acks has room for one signal that something was acknowledged.
	acks          chan struct{}
	acked, failed atomic.Int64

	mu      sync.Mutex
	unknown int // acknowledged without a place, guarded by mu
}

func startProducing(t *testing.T, addr string) *kafkaProducer {
	t.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(2000),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(2000), kgo.MetadataMinAge(10*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	w := &kafkaProducer{
		client: client, stop: make(chan struct{}), done: make(chan [producerKillPartitions]int, 1), acks: make(chan struct{}, 1),
	}
	go w.run(t.Context())
	return w
}

func (w *kafkaProducer) run(ctx context.Context) {
	var sent [producerKillPartitions]int
	for i := 0; ; i++ {
		select {
		case <-w.stop:
			w.done <- sent
			return
		default:
		}
		partition := i % producerKillPartitions
		w.client.Produce(ctx, &kgo.Record{
			Topic: "t1.default.orders", Partition: int32(partition), Value: []byte(producedValue(partition, sent[partition])),
		}, w.acknowledged)
		sent[partition]++
	}
}

func (w *kafkaProducer) acknowledged(r *kgo.Record, err error) {
	if err != nil {
		w.failed.Add(1)
	} else {
		w.acked.Add(1)
		if r.Offset < 0 {
			w.mu.Lock()
			w.unknown++
			w.mu.Unlock()
		}
	}
	select {
	case w.acks <- struct{}{}:
	default:
	}
}

func (w *kafkaProducer) offsets() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unknown
}

// awaitAcks waits until so many more records are acknowledged.
func (w *kafkaProducer) awaitAcks(t *testing.T, n int) {
	t.Helper()
	late := time.After(time.Minute)
	for enough := w.acked.Load() + int64(n); w.acked.Load() < enough; {
		select {
		case <-w.acks:
		case <-late:
			t.Fatalf("%d records are acknowledged, %d given up", w.acked.Load(), w.failed.Load())
		}
	}
}

// finish stops producing, and gives how many records were sent to each partition once
// all are acknowledged.
func (w *kafkaProducer) finish(t *testing.T) []int {
	t.Helper()
	close(w.stop)
	sent := <-w.done
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.client.Flush(ctx); err != nil {
		t.Fatalf("after %d acknowledgements: %v", w.acked.Load(), err)
	}
	return sent[:]
}

// consumeAll reads every partition up to its end; it wants at least what was sent.
func consumeAll(t *testing.T, addr string, sent []int) [][]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	places := make(map[int32]kgo.Offset)
	for partition := range sent {
		places[int32(partition)] = kgo.NewOffset().AtStart()
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t1.default.orders": places}))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	got, ended := make([][]string, len(sent)), make([]bool, len(sent))
	for slices.Contains(ended, false) {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, r := range p.Records {
				got[p.Partition] = append(got[p.Partition], string(r.Value))
				ended[p.Partition] = r.Offset+1 >= p.HighWatermark
			}
		})
	}
	return got
}
