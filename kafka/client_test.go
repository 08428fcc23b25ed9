package kafka

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"felix.local/felix/broker"
)

// seen is what a reader can tell about a record.
type seen struct {
	Partition int32
	Offset    int64
	Key       []byte
	Value     []byte
	Headers   []kgo.RecordHeader
	Millis    int64
}

func look(records []*kgo.Record) []seen {
	var out []seen
	for _, r := range records {
		out = append(out, seen{r.Partition, r.Offset, r.Key, r.Value, r.Headers, r.Timestamp.UnixMilli()})
	}
	return out
}

func TestEveryCodecKeepsKeysValuesHeadersAndTimes(t *testing.T) {
	r := start(t)
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			r.create(name, 1, nil)
			c := r.client(kgo.ProducerBatchCompression(codec))
			records := varied(name, 300)
			r.produce(c, records...)
			got := r.consume(len(records), from(name, 0, kgo.NewOffset().AtStart()))
			if diff := cmp.Diff(look(records), look(got)); diff != "" {
				t.Errorf("(-produced +consumed):\n%s", diff)
			}
		})
	}
}

// varied are records of all shapes, compressible, with times in order.
func varied(topic string, n int) []*kgo.Record {
	at := time.UnixMilli(1_700_000_000_000)
	var records []*kgo.Record
	for i := range n {
		r := &kgo.Record{Topic: topic, Offset: int64(i), Timestamp: at.Add(time.Duration(i) * time.Second)}
		r.Value = []byte(strings.Repeat(fmt.Sprintf("value %d ", i), 1+i%40))
		switch i % 4 {
		case 0:
			r.Key = []byte(fmt.Sprintf("key %d", i))
		case 1:
			r.Key, r.Value = []byte{}, []byte{}
		case 2:
			r.Value = nil
		}
		for h := range i % 3 {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: "name", Value: []byte(fmt.Sprint(h))})
		}
		if i%5 == 0 {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: "", Value: nil})
		}
		records = append(records, r)
	}
	return records
}

func TestAcksZeroOneAndAllAreServed(t *testing.T) {
	r := start(t)
	r.create("acks", 1, nil)
	for i, acks := range []kgo.Acks{kgo.NoAck(), kgo.LeaderAck(), kgo.AllISRAcks()} {
		c := r.client(kgo.DisableIdempotentWrite(), kgo.RequiredAcks(acks))
		r.produce(c, &kgo.Record{Topic: "acks", Value: []byte{byte(i)}})
		if got := r.consume(i+1, from("acks", 0, kgo.NewOffset().AtStart())); got[i].Value[0] != byte(i) {
			t.Errorf("record %d holds %v", i, got[i].Value)
		}
	}
}

func TestPipelinedProducesKeepTheOrderOfEachPartition(t *testing.T) {
	const partitions, each = 4, 2000
	r := start(t)
	r.create("ordered", partitions, nil)
	c := r.client(kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(16), kgo.ProducerBatchMaxBytes(2000))
	for i := range each {
		for p := range int32(partitions) {
			c.Produce(r.ctx(), &kgo.Record{Topic: "ordered", Partition: p, Value: []byte(fmt.Sprintf("%d of %d", i, p))}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	if err := c.Flush(r.ctx()); err != nil {
		t.Fatal(err)
	}
	at := map[int32]kgo.Offset{}
	for p := range int32(partitions) {
		at[p] = kgo.NewOffset().AtStart()
	}
	next := make([]int, partitions)
	for _, record := range r.consume(partitions*each, map[string]map[int32]kgo.Offset{"ordered": at}) {
		p := record.Partition
		if want := fmt.Sprintf("%d of %d", next[p], p); string(record.Value) != want || record.Offset != int64(next[p]) {
			t.Fatalf("partition %d, offset %d: %q; expected %q", p, record.Offset, record.Value, want)
		}
		next[p]++
	}
}

func TestFetchingBeginsAtOffsetsAndTimes(t *testing.T) {
	r := start(t)
	r.create("places", 1, nil)
	records := varied("places", 100)
	r.produce(r.client(), records...)
	millis := records[40].Timestamp.UnixMilli()
	for name, test := range map[string]struct {
		at   kgo.Offset
		want int64
	}{
		"start":          {kgo.NewOffset().AtStart(), 0},
		"exact":          {kgo.NewOffset().At(17), 17},
		"ten to the end": {kgo.NewOffset().AtEnd().Relative(-10), 90},
		"time":           {kgo.NewOffset().AfterMilli(millis), 40},
		"time between":   {kgo.NewOffset().AfterMilli(millis + 1), 41},
	} {
		if got := r.consume(1, from("places", 0, test.at)); got[0].Offset != test.want {
			t.Errorf("%s: begins at %d; expected %d", name, got[0].Offset, test.want)
		}
	}
}

func TestALongPollIsAnsweredByThePublishItWaitsFor(t *testing.T) {
	r := start(t)
	r.create("poll", 2, nil)
	c := r.client(kgo.FetchMaxWait(patience), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		"poll": {0: kgo.NewOffset().AtStart(), 1: kgo.NewOffset().AtStart()},
	}))
	producer := r.client()
	for i := range 20 {
		begun := time.Now()
		r.produce(producer, &kgo.Record{Topic: "poll", Partition: int32(i % 2), Value: []byte{byte(i)}})
		got := c.PollFetches(r.ctx()).Records()
		if len(got) != 1 || got[0].Value[0] != byte(i) || time.Since(begun) > patience/2 {
			t.Fatalf("publish %d: got %d records after %v", i, len(got), time.Since(begun))
		}
	}
}

func TestALargeBacklogComesWholeInSmallFetches(t *testing.T) {
	r := start(t)
	r.create("backlog", 3, nil)
	random := rand.New(rand.NewPCG(1, 2))
	c := r.client()
	want := make([][][]byte, 3)
	for i := range 900 {
		value := make([]byte, random.IntN(5000))
		for k := range value {
			value[k] = byte(random.Uint32())
		}
		p := i % 3
		want[p] = append(want[p], value)
		c.Produce(r.ctx(), &kgo.Record{Topic: "backlog", Partition: int32(p), Value: value}, nil)
	}
	if err := c.Flush(r.ctx()); err != nil {
		t.Fatal(err)
	}
	at := kgo.NewOffset().AtStart()
	got := r.consume(900, map[string]map[int32]kgo.Offset{"backlog": {0: at, 1: at, 2: at}},
		kgo.FetchMaxBytes(20_000), kgo.FetchMaxPartitionBytes(3000))
	for _, record := range got {
		if !bytes.Equal(record.Value, want[record.Partition][record.Offset]) {
			t.Fatalf("partition %d offset %d differs", record.Partition, record.Offset)
		}
	}
}

func TestARecordAboveAllFetchBoundsStillComes(t *testing.T) {
	r := start(t)
	r.create("large", 1, nil)
	value := bytes.Repeat([]byte("large"), 1<<20)
	r.produce(r.client(kgo.ProducerBatchMaxBytes(16<<20), kgo.ProducerBatchCompression(kgo.NoCompression())), &kgo.Record{Topic: "large", Value: value})
	got := r.consume(1, from("large", 0, kgo.NewOffset().AtStart()), kgo.FetchMaxBytes(1000), kgo.FetchMaxPartitionBytes(1000))
	if !bytes.Equal(got[0].Value, value) {
		t.Error("the record came back different")
	}
}

func TestAStreamOfFormatRawHoldsValuesAlone(t *testing.T) {
	r := start(t)
	r.create("raw", 1, map[string]string{configFormat: formatRaw})
	c := r.client(kgo.RecordRetries(0))
	r.produce(c, &kgo.Record{Topic: "raw", Value: []byte("value")}, &kgo.Record{Topic: "raw", Value: []byte{}})
	for what, record := range map[string]*kgo.Record{
		"keys":        {Topic: "raw", Key: []byte("k"), Value: []byte("v")},
		"headers":     {Topic: "raw", Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "h"}}},
		"null values": {Topic: "raw"},
	} {
		if err := c.ProduceSync(r.ctx(), record).FirstErr(); !errors.Is(err, kerr.InvalidRecord) {
			t.Errorf("%s: %v; expected an invalid record", what, err)
		}
	}
	got := r.consume(2, from("raw", 0, kgo.NewOffset().AtStart()))
	if string(got[0].Value) != "value" || got[0].Key != nil || len(got[1].Value) != 0 {
		t.Errorf("read %v", look(got))
	}
}

func TestWhatIsPublishedHereIsReadThereAndTheOtherWay(t *testing.T) {
	r := start(t)
	r.create("acme.orders.new", 1, nil)
	stream, err := r.broker.Stream(broker.StreamName{Tenant: "acme", Namespace: "orders", Stream: "new"})
	if err != nil {
		t.Fatal(err)
	}
	message := broker.Message{
		Key: []byte("k"), Value: []byte("v"), Headers: []broker.Header{{Key: "h", Value: []byte("x")}},
		TimestampMicros: 1_700_000_000_123_456,
	}
	if _, err := stream.Publish(r.ctx(), broker.Explicit(0), message); err != nil {
		t.Fatal(err)
	}
	r.produce(r.client(), &kgo.Record{Topic: "acme.orders.new", Key: []byte("back"), Timestamp: time.UnixMilli(5)})
	got := r.consume(2, from("acme.orders.new", 0, kgo.NewOffset().AtStart()))
	if g := got[0]; string(g.Key) != "k" || string(g.Value) != "v" || g.Headers[0].Key != "h" || g.Timestamp.UnixMilli() != 1_700_000_000_123 {
		t.Errorf("read %+v", look(got[:1]))
	}
	page, err := stream.Read(r.ctx(), 0, 1, 1<<20, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := broker.Record{Offset: 1, Message: broker.Message{Key: []byte("back"), TimestampMicros: 5000}}
	if diff := cmp.Diff([]broker.Record{want}, page.Records); diff != "" {
		t.Errorf("(-produced +stored):\n%s", diff)
	}
}

func TestATopicIsMadeOnFirstUseUnlessThatIsOff(t *testing.T) {
	for _, on := range []bool{true, false} {
		r := start(t, func(c *Config, _ *broker.Config) { c.AutoCreate = on })
		c := r.client(kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(0))
		err := c.ProduceSync(r.ctx(), &kgo.Record{Topic: "fresh", Value: []byte("v")}).FirstErr()
		if on != (err == nil) {
			t.Errorf("with creation %t: %v", on, err)
		}
		stream, err := r.broker.Stream(broker.StreamName{Tenant: "default", Namespace: "default", Stream: "fresh"})
		if on != (err == nil) {
			t.Fatalf("with creation %t: %v", on, err)
		}
		if on {
			if cfg := stream.Config(); !cfg.Durable || cfg.Shards != 1 || cfg.Format != broker.FormatKafka {
				t.Errorf("made %+v", cfg)
			}
		}
	}
}

func TestAnInMemoryServerServesInMemoryTopics(t *testing.T) {
	r := start(t, func(_ *Config, b *broker.Config) { b.Root = "" })
	c := r.client(kgo.AllowAutoTopicCreation())
	r.produce(c, &kgo.Record{Topic: "memory", Value: []byte("v")})
	if got := r.consume(1, from("memory", 0, kgo.NewOffset().AtStart())); string(got[0].Value) != "v" {
		t.Errorf("read %q", got[0].Value)
	}
	_, err := r.admin().CreateTopic(r.ctx(), 1, 1, map[string]*string{configDurable: ptr("true")}, "disk")
	if !errors.Is(err, kerr.InvalidConfig) {
		t.Errorf("a durable topic gave %v", err)
	}
}

func ptr[T any](v T) *T { return &v }

func TestAClientThatWantsIdempotenceAndCanDoWithoutIsServed(t *testing.T) {
	r := start(t)
	r.create("idempotent", 1, nil)
	c, err := kgo.NewClient(kgo.SeedBrokers(r.addr))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r.produce(c, &kgo.Record{Topic: "idempotent", Value: []byte("v")})
	r.consume(1, from("idempotent", 0, kgo.NewOffset().AtStart()))
}
