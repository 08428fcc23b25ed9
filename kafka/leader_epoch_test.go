package kafka

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

// led is a server with topic "led": offsets 0 and 1 are of no generation, 2 starts
// generation 3, which wrote 3 and 4, 5 starts generation 7, which wrote 6.
func led(t *testing.T) *rig {
	t.Helper()
	return ledBy(t, reign{0, []string{"a", "b"}}, reign{3, []string{"c", "d"}}, reign{7, []string{"e"}})
}

// reign is a generation, if it is above 0, and what it writes.
type reign struct {
	generation uint64
	values     []string
}

// ledBy is a server with topic "led", which was written by these.
func ledBy(t *testing.T, reigns ...reign) *rig {
	t.Helper()
	config := engine.DefaultConfig()
	config.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	root := t.TempDir()
	store, err := engine.OpenStore(t.Context(), root, config)
	if err != nil {
		t.Fatal(err)
	}
	name := broker.StreamName{Tenant: DefaultName, Namespace: DefaultName, Stream: "led"}
	log, err := store.OpenLog(t.Context(), engine.ShardKey{Tenant: name.Tenant, Namespace: name.Namespace, Stream: name.Stream})
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range reigns {
		if by.generation > 0 {
			if _, err := log.AcceptGeneration(t.Context(), by.generation, ""); err != nil {
				t.Fatal(err)
			}
			if _, recorded, err := log.StartGeneration(t.Context(), by.generation, ""); err != nil || !recorded {
				t.Fatal(recorded, err)
			}
		}
		for _, v := range by.values {
			if _, err := log.Append(t.Context(), engine.Record{Payload: broker.AppendEnvelope(nil, &broker.Message{Value: []byte(v)})}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := store.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := start(t, func(_ *Config, b *broker.Config) { b.Root = root })
	if _, _, err := r.broker.CreateStream(t.Context(), name, broker.StreamConfig{Durable: true, Shards: 1, Format: broker.FormatKafka}); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEpochsAreTheGenerationsThatWroteSomething(t *testing.T) {
	type gens = [][2]uint64 // number and first
	for name, c := range map[string]struct {
		of   gens
		want epochs
	}{
		"none":                        {nil, epochs{}},
		"from the first record on":    {gens{{3, 0}, {7, 5}}, epochs{3, []epochStart{{7, 5}}}},
		"from a later record on":      {gens{{3, 2}, {7, 5}}, epochs{0, []epochStart{{3, 2}, {7, 5}}}},
		"one that wrote nothing":      {gens{{3, 2}, {4, 2}, {7, 5}}, epochs{0, []epochStart{{4, 2}, {7, 5}}}},
		"a first that wrote nothing":  {gens{{3, 0}, {4, 0}}, epochs{oldest: 4}},
		"generation 0":                {gens{{0, 2}, {1, 5}}, epochs{0, []epochStart{{1, 5}}}},
		"the largest epoch":           {gens{{math.MaxInt32, 2}}, epochs{0, []epochStart{{math.MaxInt32, 2}}}},
		"beyond the largest epoch":    {gens{{1, 2}, {1 << 31, 4}, {math.MaxUint64, 6}}, epochs{0, []epochStart{{1, 2}, {math.MaxInt32, 4}}}},
		"all beyond the largest":      {gens{{1 << 40, 0}, {1 << 41, 6}}, epochs{oldest: math.MaxInt32}},
		"the next epoch and 2^32 + 1": {gens{{1, 2}, {1<<32 + 1, 3}}, epochs{0, []epochStart{{1, 2}, {math.MaxInt32, 3}}}},
	} {
		var generations []broker.Generation
		for _, g := range c.of {
			generations = append(generations, broker.Generation{Number: g[0], First: g[1]})
		}
		if diff := cmp.Diff(c.want, epochsFrom(generations), cmp.AllowUnexported(epochs{}, epochStart{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAnEpochEndsWhereTheNextBegins(t *testing.T) {
	type answer struct {
		epoch int32
		end   int64
	}
	later := []epochStart{{3, 2}, {7, 5}}
	for _, c := range []struct {
		of    epochs
		asked int32
		want  answer
	}{
		{epochs{}, -1, answer{-1, -1}},
		{epochs{}, 0, answer{0, 9}},
		{epochs{}, 1, answer{-1, -1}},
		{epochs{oldest: 2}, 1, answer{-1, -1}},
		{epochs{oldest: 2}, 2, answer{2, 9}},
		{epochs{1, later}, 0, answer{-1, -1}},
		{epochs{1, later}, 1, answer{1, 2}},
		{epochs{1, later}, 2, answer{1, 2}},
		{epochs{1, later}, 3, answer{3, 5}},
		{epochs{1, later}, 6, answer{3, 5}},
		{epochs{1, later}, 7, answer{7, 9}},
		{epochs{1, later}, 8, answer{-1, -1}},
		{epochs{1, later}, math.MaxInt32, answer{-1, -1}},
	} {
		epoch, end := c.of.endOf(c.asked, 9)
		if got := (answer{epoch, end}); got != c.want {
			t.Errorf("%+v: epoch %d is %+v; expected %+v", c.of, c.asked, got, c.want)
		}
	}
}

func TestBatchesAreOfOneEpochEachWithinTheBudget(t *testing.T) {
	var records []broker.Record
	for _, offset := range []uint64{0, 1, 3, 4, 6} {
		records = append(records, broker.Record{Offset: offset, Message: broker.Message{Value: make([]byte, 50)}})
	}
	e := epochs{0, []epochStart{{3, 2}, {7, 5}}}
	whole, taken := appendBatches([]byte("before"), records, e, math.MaxInt, false)
	if taken != len(records) || string(whole[:6]) != "before" {
		t.Fatalf("%d records, behind %q", taken, whole[:6])
	}
	want := []string{"0: 0 1", "3: 3 4", "7: 6"}
	if got := batchesOf(t, whole[6:]); !slices.Equal(got, want) {
		t.Errorf("batches %q; expected %q", got, want)
	}
	size := len(whole) - 6
	for budget := range size + 1 {
		out, n := appendBatches([]byte("before"), records, e, budget, false)
		if len(out)-6 > budget || (n == len(records)) != (budget == size) {
			t.Fatalf("in %d of %d bytes are %d records and %d bytes", budget, size, n, len(out)-6)
		}
		again := 0
		for _, b := range batchesOf(t, out[6:]) {
			again += len(b)/2 - 1 // two characters a number, all of one digit
		}
		if again != n {
			t.Fatalf("in %d bytes are %d records, which read as %d", budget, n, again)
		}
	}
	if _, n := appendBatches(nil, records, e, 0, true); n != 1 {
		t.Errorf("without a budget come %d records", n)
	}
}

// batchesOf reads record batches as "epoch: offset offset ...".
func batchesOf(t *testing.T, b []byte) []string {
	t.Helper()
	var out []string
	for len(b) > 0 {
		var batch kmsg.RecordBatch
		if err := batch.ReadFrom(b); err != nil {
			t.Fatal(err)
		}
		size := int(batch.Length) + batchEpochAt
		if checksum(b[batchAttributesAt:size]) != uint32(batch.CRC) {
			t.Error("a batch's checksum is wrong")
		}
		said := fmt.Sprintf("%d:", batch.PartitionLeaderEpoch)
		records := batch.Records
		for range batch.NumRecords {
			n, width := varint(records)
			var r kmsg.Record
			if err := r.ReadFrom(records[:width+int(n)]); err != nil {
				t.Fatal(err)
			}
			said += fmt.Sprintf(" %d", batch.FirstOffset+int64(r.OffsetDelta))
			records = records[width+int(n):]
		}
		if batch.NumRecords == 0 {
			said += fmt.Sprintf(" none up to %d", batch.FirstOffset+int64(batch.LastOffsetDelta))
		}
		out, b = append(out, said), b[size:]
	}
	return out
}

func TestAClientReadsOverTheBoundaryOfGenerations(t *testing.T) {
	r := led(t)
	r.produce(r.client(), &kgo.Record{Topic: "led", Value: []byte("f")})
	var got []string
	for _, record := range r.consume(6, from("led", 0, kgo.NewOffset().AtStart())) {
		got = append(got, fmt.Sprintf("%d %s of %d", record.Offset, record.Value, record.LeaderEpoch))
	}
	want := []string{"0 a of 0", "1 b of 0", "3 c of 3", "4 d of 3", "6 e of 7", "7 f of 7"}
	if !slices.Equal(got, want) {
		t.Errorf("read %q; expected %q", got, want)
	}
	// A client that comes back with the epoch of what it read is told that all is well.
	back := r.consume(1, from("led", 0, kgo.NewOffset().At(4).WithEpoch(3)))
	if back[0].Offset != 4 || back[0].LeaderEpoch != 3 {
		t.Errorf("came back to %d of epoch %d", back[0].Offset, back[0].LeaderEpoch)
	}
}

func TestTheMetadataTellsTheNewestEpoch(t *testing.T) {
	r := led(t)
	r.create("plain", 2, nil)
	for _, named := range [][]string{nil, {"led", "plain"}} {
		topics, err := r.admin().Metadata(r.ctx(), named...)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int32{}
		topics.Topics.EachPartition(func(p kadm.PartitionDetail) {
			got[fmt.Sprintf("%s/%d", strings.TrimPrefix(p.Topic, "default.default."), p.Partition)] = p.LeaderEpoch
		})
		if diff := cmp.Diff(map[string]int32{"led/0": 7, "plain/0": 0, "plain/1": 0}, got); diff != "" {
			t.Errorf("asked about %q (-want +got):\n%s", named, diff)
		}
	}
}

func TestTheEndsOfEpochsAreAnswered(t *testing.T) {
	r := led(t)
	for asked, want := range map[int32][2]int64{
		0: {0, 2}, 1: {0, 2}, 2: {0, 2}, 3: {3, 5}, 4: {3, 5}, 6: {3, 5}, 7: {7, 7}, 8: {-1, -1}, -1: {-1, -1},
	} {
		request := make(kadm.OffsetForLeaderEpochRequest)
		request.Add("led", 0, asked)
		answers, err := r.admin().OffsetForLeaderEpoch(r.ctx(), request)
		if err != nil {
			t.Fatal(err)
		}
		got := answers["led"][0]
		if got.Err != nil || int64(got.LeaderEpoch) != want[0] || got.EndOffset != want[1] {
			t.Errorf("epoch %d: %+v; expected %v", asked, got, want)
		}
	}
}

func TestOffsetsComeWithTheEpochOfTheirRecord(t *testing.T) {
	r := led(t)
	c := r.dial()
	if _, err := r.admin().DeleteRecords(r.ctx(), kadm.Offsets{"led": {0: {Topic: "led", At: 4}}}); err != nil {
		t.Fatal(err)
	}
	for timestamp, want := range map[int64][2]int64{
		offsetsEarliest: {4, 3}, offsetsLatest: {7, 7}, 0: {4, 3}, 1 << 45: {-1, -1}, 1 << 62: {-1, -1},
	} {
		got := c.ask(listOf("led", timestamp, noEpoch)).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
		if got.ErrorCode != 0 || got.Offset != want[0] || int64(got.LeaderEpoch) != want[1] {
			t.Errorf("%d is at %+v; expected %v", timestamp, got, want)
		}
	}
}

// listOf is a ListOffsets request for partition 0 of a topic.
func listOf(topic string, timestamp int64, current int32) *kmsg.ListOffsetsRequest {
	request := version(6, kmsg.NewPtrListOffsetsRequest())
	request.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp, p.CurrentLeaderEpoch = timestamp, current
	t.Partitions = append(t.Partitions, p)
	request.Topics = append(request.Topics, t)
	return request
}

func TestAClientOfAnotherEpochIsRefused(t *testing.T) {
	for c, want := range map[code]error{codeFencedLeaderEpoch: kerr.FencedLeaderEpoch, codeUnknownLeaderEpoch: kerr.UnknownLeaderEpoch} {
		if kerr.ErrorForCode(int16(c)) != want {
			t.Errorf("code %d is not %v", c, want)
		}
	}
	r := led(t)
	r.create("plain", 1, nil)
	r.produce(r.client(), &kgo.Record{Topic: "plain", Value: []byte("v")})
	c := r.dial()
	for _, ask := range []struct {
		topic   string
		current int32
		want    code
	}{
		{"led", noEpoch, codeNone},
		{"led", 0, codeFencedLeaderEpoch},
		{"led", 6, codeFencedLeaderEpoch},
		{"led", 7, codeNone},
		{"led", 8, codeUnknownLeaderEpoch},
		{"plain", noEpoch, codeNone},
		{"plain", 0, codeNone},
		{"plain", 1, codeUnknownLeaderEpoch},
	} {
		fetch := fetchOf(ask.topic, 0, 0)
		fetch.Topics[0].Partitions[0].CurrentLeaderEpoch = ask.current
		fetched := c.ask(fetch).(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if code(fetched.ErrorCode) != ask.want || (len(fetched.RecordBatches) > 0) != (ask.want == codeNone) {
			t.Errorf("%s at epoch %d: Fetch gave %d and %d bytes", ask.topic, ask.current, fetched.ErrorCode, len(fetched.RecordBatches))
		}
		listed := c.ask(listOf(ask.topic, offsetsLatest, ask.current)).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
		if code(listed.ErrorCode) != ask.want || (listed.Offset >= 0) != (ask.want == codeNone) {
			t.Errorf("%s at epoch %d: ListOffsets gave %+v", ask.topic, ask.current, listed)
		}
		end := version(4, kmsg.NewPtrOffsetForLeaderEpochRequest())
		et := kmsg.NewOffsetForLeaderEpochRequestTopic()
		et.Topic = ask.topic
		ep := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		ep.CurrentLeaderEpoch = ask.current
		et.Partitions = append(et.Partitions, ep)
		end.Topics = append(end.Topics, et)
		ended := c.ask(end).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
		if code(ended.ErrorCode) != ask.want || (ended.EndOffset >= 0) != (ask.want == codeNone) {
			t.Errorf("%s at epoch %d: OffsetForLeaderEpoch gave %+v", ask.topic, ask.current, ended)
		}
	}
}

// What starts a generation may be the last there is.
func TestAClientGetsToTheEndOfALogThatEndsInTheStartOfAGeneration(t *testing.T) {
	r := ledBy(t, reign{0, []string{"a", "b"}}, reign{3, nil}, reign{4, nil})
	c := r.dial()
	wait := fetchOf("led", 0, 2)
	wait.MinBytes, wait.MaxWaitMillis = 1, int32(patience.Milliseconds()/2)
	for name, request := range map[string]*kmsg.FetchRequest{"from the start": fetchOf("led", 0, 0), "from the gap": wait} {
		p := c.ask(request).(*kmsg.FetchResponse).Topics[0].Partitions[0]
		got := batchesOf(t, p.RecordBatches)
		if want := []string{"3: none up to 2", "4: none up to 3"}; p.HighWatermark != 4 || !slices.Equal(got[len(got)-min(2, len(got)):], want) {
			t.Errorf("%s: the end is %d, batches %q", name, p.HighWatermark, got)
		}
	}
}

func TestKcatSeesTheEndBehindTheStartOfAGeneration(t *testing.T) {
	r := ledBy(t, reign{0, []string{"a", "b"}}, reign{3, nil}, reign{4, nil})
	if got := r.kcat("", "-C", "-t", "led", "-o", "beginning", "-e", "-q"); got != "a\nb\n" {
		t.Errorf("read %q", got)
	}
}

func TestPythonGetsBehindTheStartOfAGeneration(t *testing.T) {
	r := ledBy(t, reign{0, []string{"a", "b"}}, reign{3, nil}, reign{4, nil})
	const script = `
import sys
from kafka import KafkaConsumer, TopicPartition
consumer = KafkaConsumer(bootstrap_servers=sys.argv[1], auto_offset_reset="earliest")
part = TopicPartition("led", 0)
consumer.assign([part])
read = 0
while consumer.position(part) < consumer.end_offsets([part])[part]:
    read += sum(len(records) for records in consumer.poll(timeout_ms=100).values())
print(read, consumer.position(part))
`
	if got := r.python(script); got != "2 4\n" {
		t.Errorf("read and got to %q", got)
	}
}
