package kafka

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"felix.local/felix/broker"
	"felix.local/felix/internal/faultdisk"
)

func TestProducesThatAreRefused(t *testing.T) {
	r := start(t)
	r.create("t", 1, nil)
	with := func(change func(*kmsg.ProduceRequest)) *kmsg.ProduceRequest {
		request := produceOf("t", 0, value("v"))
		change(request)
		return request
	}
	for name, test := range map[string]struct {
		request *kmsg.ProduceRequest
		want    code
	}{
		"acks 2":                      {with(func(p *kmsg.ProduceRequest) { p.Acks = 2 }), codeInvalidRequiredAcks},
		"transaction":                 {with(func(p *kmsg.ProduceRequest) { p.TransactionID = kmsg.StringPtr("t") }), codeInvalidRequest},
		"no such topic":               {produceOf("missing", 0, value("v")), codeUnknownTopicOrPartition},
		"no such shard":               {produceOf("t", 1, value("v")), codeUnknownTopicOrPartition},
		"a shard below 0":             {produceOf("t", -1, value("v")), codeUnknownTopicOrPartition},
		"no topic's name":             {produceOf("a/b", 0, value("v")), codeInvalidTopic},
		"no records":                  {produceOf("t", 0, nil), codeInvalidRecord},
		"a producer without an epoch": {produceOf("t", 0, remake(put64(batchProducerAt, 7))), codeInvalidRecord},
		"an old format":               {produceOf("t", 0, remake(func(b []byte) []byte { b[batchMagicAt] = 0; return b })), codeUnsupportedForMessageFormat},
		"a wrong checksum":            {produceOf("t", 0, put32(batchCRCAt, 1)(value("v"))), codeCorruptMessage},
	} {
		part := r.dial().ask(test.request).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if code(part.ErrorCode) != test.want || part.BaseOffset != -1 || part.ErrorMessage == nil || *part.ErrorMessage == "" {
			t.Errorf("%s: %+v; expected code %d and a message", name, part, test.want)
		}
	}
	if p := r.dial().ask(fetchOf("t", 0, 0)).(*kmsg.FetchResponse).Topics[0].Partitions[0]; p.HighWatermark != 0 {
		t.Errorf("%d records were stored", p.HighWatermark)
	}
}

func TestOnePartitionsRefusalIsNotTheOthers(t *testing.T) {
	r := start(t)
	r.create("t", 2, nil)
	request := produceOf("t", 0, []byte("no batch"))
	good := kmsg.NewProduceRequestTopicPartition()
	good.Partition, good.Records = 1, append(value("first"), value("second")...)
	request.Topics[0].Partitions = append(request.Topics[0].Partitions, good)
	parts := r.dial().ask(request).(*kmsg.ProduceResponse).Topics[0].Partitions
	if code(parts[0].ErrorCode) != codeCorruptMessage || parts[1].ErrorCode != 0 {
		t.Errorf("got %+v", parts)
	}
	if got := r.consume(2, from("t", 1, kgo.NewOffset().AtStart())); string(got[1].Value) != "second" {
		t.Errorf("read %v", look(got))
	}
}

func TestAFailureWithoutAnAnswerEndsTheConnection(t *testing.T) {
	r := start(t)
	r.create("t", 1, nil)
	c := r.dial()
	request := produceOf("t", 0, value("v"))
	request.Acks = 0
	c.send(request)
	c.ask(version(3, kmsg.NewPtrApiVersionsRequest())) // the next answer is this one's
	request.Topics[0].Partitions[0].Records = []byte("no batch")
	c.send(request)
	c.ended("a failed produce with acks=0")
	if p := r.dial().ask(fetchOf("t", 0, 0)).(*kmsg.FetchResponse).Topics[0].Partitions[0]; p.HighWatermark != 1 {
		t.Errorf("%d records were stored", p.HighWatermark)
	}
}

// What gathers behind a slow publish goes together. One that is too large must not
// take the others with it.
func TestWhatGatheredIsRefusedOneByOne(t *testing.T) {
	r, disk := faulty(t, func(_ *Config, b *broker.Config) { b.BatchBytesMax = 10_000 })
	r.create("t", 1, nil)
	stalled := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Path: isLog, Stall: true})
	defer stalled.Release()
	c := r.dial()
	sizes := []int{1, 100, 20_000, 6000, 6000, 5}
	request := produceOf("t", 0, nil)
	for i, size := range sizes {
		request.Topics[0].Partitions[0].Records = value(strings.Repeat("x", size))
		c.send(request)
		if i == 0 {
			<-stalled.Reached()
		}
	}
	r.until("all were read", func() bool { return r.server.Stats().Requests["Produce"] == uint64(len(sizes)) })
	stalled.Release()
	next := int64(0)
	for i, size := range sizes {
		part := c.receive(request, int32(i+1)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if size > 10_000 {
			if code(part.ErrorCode) != codeMessageTooLarge {
				t.Errorf("%d bytes gave %+v", size, part)
			}
			continue
		}
		if part.ErrorCode != 0 || part.BaseOffset != next {
			t.Errorf("produce %d, of %d bytes, gave %+v", i, size, part)
		}
		next++
	}
}

func TestNoMoreRequestsAreReadThanMayBeInFlight(t *testing.T) {
	r, disk := faulty(t, func(c *Config, _ *broker.Config) { c.InFlightMax = 2 })
	r.create("t", 1, nil)
	stalled := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Path: isLog, Stall: true})
	defer stalled.Release()
	c := r.dial()
	request := produceOf("t", 0, value("v"))
	for range 10 {
		c.send(request)
	}
	<-stalled.Reached()
	r.until("two were read", func() bool { return r.server.Stats().Requests["Produce"] >= 2 })
	// The third would be read at once if it could be: others are answered meanwhile.
	for range 100 {
		r.dial().ask(version(3, kmsg.NewPtrApiVersionsRequest()))
	}
	if n := r.server.Stats().Requests["Produce"]; n != 2 {
		t.Errorf("%d produces are under way", n)
	}
	stalled.Release()
	for i := range int32(10) {
		if part := c.receive(request, i+1).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; part.BaseOffset != int64(i) {
			t.Errorf("produce %d: %+v", i, part)
		}
	}
}
