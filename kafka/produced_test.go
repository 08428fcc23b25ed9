package kafka

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"felix.local/felix/broker"
	"felix.local/felix/internal/faultdisk"
)

// producer is an idempotent producer whose batches a test writes itself.
type producer struct {
	id    int64
	epoch int16
}

// batch is a record batch with this sequence.
func (p producer) batch(sequence int32, values ...string) []byte {
	var records []broker.Record
	for i, v := range values {
		records = append(records, broker.Record{Offset: uint64(i), Message: broker.Message{Value: []byte(v)}})
	}
	b := encode(records)
	binary.BigEndian.PutUint64(b[batchProducerAt:], uint64(p.id))
	binary.BigEndian.PutUint16(b[batchProducerEpoch:], uint16(p.epoch))
	binary.BigEndian.PutUint32(b[batchSequenceAt:], uint32(sequence))
	binary.BigEndian.PutUint32(b[batchCRCAt:], checksum(b[batchAttributesAt:]))
	return b
}

// answer is what a partition's part of a Produce came to.
type answer struct {
	Code       code
	BaseOffset int64
}

// produce asks for one partition's records to be stored.
func (c *raw) produce(topic string, partition int32, records []byte) answer {
	c.t.Helper()
	p := c.ask(produceOf(topic, partition, records)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	return answer{code(p.ErrorCode), p.BaseOffset}
}

// values are what a partition holds.
func (r *rig) values(topic string, partition int32) []string {
	r.t.Helper()
	stream, err := r.broker.Stream(broker.StreamName{Tenant: DefaultName, Namespace: DefaultName, Stream: topic})
	if err != nil {
		r.t.Fatal(err)
	}
	var got []string
	for next := uint64(0); ; {
		page, err := stream.Read(r.ctx(), int(partition), next, 1<<20, 0)
		if err != nil {
			r.t.Fatal(err)
		}
		for i := range page.Records {
			got = append(got, string(page.Records[i].Value))
		}
		if len(page.Records) == 0 {
			return got
		}
		next = page.Records[len(page.Records)-1].Offset + 1
	}
}

// step is a batch that is sent and what is answered.
type step struct {
	what  string
	batch []byte
	want  answer
}

// steps are the answers that batches of a producer get on a durable topic and on one in
// memory; those that only one of the two gives are the caller's.
func steps(p producer) []step {
	next := producer{p.id, p.epoch + 1}
	return []step{
		{"not the first of a producer", p.batch(1, "x"), answer{codeUnknownProducerID, -1}},
		{"the first", p.batch(0, "a", "b"), answer{BaseOffset: 0}},
		{"it again", p.batch(0, "a", "b"), answer{BaseOffset: 0}},
		{"one between", p.batch(1, "x"), answer{codeOutOfOrderSequence, -1}},
		{"one too far", p.batch(3, "x"), answer{codeOutOfOrderSequence, -1}},
		{"the next", p.batch(2, "c"), answer{BaseOffset: 2}},
		{"the one after", p.batch(3, "d", "e", "f"), answer{BaseOffset: 3}},
		{"the newest again", p.batch(3, "d", "e", "f"), answer{BaseOffset: 3}},
		{"the newest with fewer records", p.batch(3, "d", "e"), answer{codeInvalidRecord, -1}},
		{"one far back", p.batch(1<<31-10, "x"), answer{codeDuplicateSequence, -1}},
		{"of an epoch that does not begin", next.batch(6, "x"), answer{codeUnknownProducerID, -1}},
		{"the first of an epoch", next.batch(0, "g"), answer{BaseOffset: 6}},
		{"of the epoch before, again", p.batch(3, "d", "e", "f"), answer{BaseOffset: 3}},
		{"of the epoch before, new", p.batch(6, "h"), answer{BaseOffset: 7}},
		{"two batches, of which one is there", append(p.batch(6, "h"), p.batch(7, "i")...), answer{BaseOffset: 7}},
		{"two batches, of which one cannot be", append(p.batch(8, "j"), p.batch(11, "x")...), answer{codeOutOfOrderSequence, -1}},
		{"the first of the two", p.batch(8, "j"), answer{BaseOffset: 9}},
		{"beside one without a number", append(p.batch(9, "x"), value("x")...), answer{codeInvalidRecord, -1}},
		{"an id of 0", producer{0, 0}.batch(0, "x"), answer{codeUnknownProducerID, -1}},
		{"an id of 48 bits", producer{1 << 47, 0}.batch(0, "x"), answer{codeUnknownProducerID, -1}},
		{"an epoch below 0", producer{p.id, -1}.batch(0, "x"), answer{codeInvalidRecord, -1}},
		{"a sequence below 0", p.batch(-1, "x"), answer{codeInvalidRecord, -1}},
		{"the largest id and epoch", producer{producerIDMax, producerEpochMax}.batch(0, "k"), answer{BaseOffset: 10}},
		{"of a producer without a number", value("l"), answer{BaseOffset: 11}},
	}
}

func TestBatchesOfAProducerAreAnsweredByTheirNumbers(t *testing.T) {
	r := start(t)
	for topic, durable := range map[string]string{"durable": "true", "memory": "false"} {
		r.create(topic, 2, map[string]string{configDurable: durable})
		c := r.dial()
		for _, s := range steps(producer{id: 1 << 40, epoch: 3}) {
			if got := c.produce(topic, 1, s.batch); got != s.want {
				t.Errorf("%s, %s: %+v; want %+v", topic, s.what, got, s.want)
			}
		}
		if diff := cmp.Diff(strings.Split("abcdefghijkl", ""), r.values(topic, 1)); diff != "" {
			t.Errorf("%s (-want +stored):\n%s", topic, diff)
		}
		if got := c.produce(topic, 0, producer{1 << 40, 3}.batch(8, "x")); got.Code != codeUnknownProducerID {
			t.Errorf("%s: sequences are per partition: %+v", topic, got)
		}
	}
	c := r.dial()
	if got := c.produce("durable", 1, producer{1 << 40, 3}.batch(8, "x")); got.Code != codeInvalidRecord {
		t.Errorf("other records under a number that was used: %+v", got)
	}
}

func TestSequencesGoOnAt0AfterTheLast(t *testing.T) {
	r := start(t)
	r.create("memory", 1, map[string]string{configDurable: "false"})
	stream, err := r.broker.Stream(broker.StreamName{Tenant: DefaultName, Namespace: DefaultName, Stream: "memory"})
	if err != nil {
		t.Fatal(err)
	}
	p := producer{1, 0}
	at := r.server.remembered.use(rememberedKey{stream, 0, producerNumber(1, 0)})
	at.add(&rememberedBatch{producedBatch{producerNumber(1, 0), sequences - 2, 1}, 0})
	r.server.remembered.leave(at)
	c := r.dial()
	for _, s := range []step{
		{"up to the end", p.batch(1<<31-1, "a", "b"), answer{BaseOffset: 0}},
		{"behind the end", p.batch(0, "x"), answer{codeOutOfOrderSequence, -1}},
		{"next", p.batch(1, "c"), answer{BaseOffset: 2}},
		{"before the end", p.batch(1<<31-1, "a", "b"), answer{BaseOffset: 0}},
		{"too far", p.batch(3, "x"), answer{codeOutOfOrderSequence, -1}},
	} {
		if got := c.produce("memory", 0, s.batch); got != s.want {
			t.Errorf("%s: %+v; want %+v", s.what, got, s.want)
		}
	}
}

func TestARefusedBatchSaysWhatIsTheOldestOffset(t *testing.T) {
	r := start(t)
	r.create("t", 1, nil)
	c := r.dial()
	p := producer{1, 0}
	c.produce("t", 0, p.batch(0, "a", "b", "c"))
	trim := version(2, requests()[keyDeleteRecords].(*kmsg.DeleteRecordsRequest))
	trim.Topics[0].Partitions[0].Offset = 2
	if got := failureOf(c.ask(trim)); got != codeNone {
		t.Fatal(got)
	}
	got := c.ask(produceOf("t", 0, p.batch(7, "x"))).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if code(got.ErrorCode) != codeOutOfOrderSequence || got.LogStartOffset != 2 {
		t.Errorf("%+v", got)
	}
}

func TestAnIdempotentProduceWithoutAnAnswerEndsTheConnection(t *testing.T) {
	r := start(t)
	r.create("t", 1, nil)
	c := r.dial()
	request := produceOf("t", 0, producer{1, 0}.batch(0, "x"))
	request.Acks = 0
	c.send(request)
	c.ended("acks=0 of an idempotent producer")
	if got := r.values("t", 0); len(got) != 0 {
		t.Errorf("%q was stored", got)
	}
	request.Acks = 1
	if got := failureOf(r.dial().ask(request)); got != codeNone {
		t.Errorf("acks=1 gave %d", got)
	}
}

// A crash may leave a part of a batch at the end of a log. Who sends the batch again has
// it completed, and the records have the offsets that they would have had.
func TestABatchOfWhichTheLogHoldsAPartIsCompleted(t *testing.T) {
	root := t.TempDir()
	onRoot := func(_ *Config, b *broker.Config) { b.Root = root }
	p := producer{1, 0}
	batch := p.batch(1, "b", "c", strings.Repeat("d", 5000))
	t.Run("before", func(t *testing.T) {
		r := start(t, onRoot)
		r.create("t", 1, nil)
		c := r.dial()
		for _, b := range [][]byte{p.batch(0, "a"), batch} {
			if got := c.produce("t", 0, b); got.Code != codeNone {
				t.Fatal(got)
			}
		}
	})
	logs, err := filepath.Glob(filepath.Join(root, "*", "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	content, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	last := strings.LastIndex(string(content), strings.Repeat("d", 5000))
	if err := os.Truncate(logs[0], int64(last+100)); err != nil {
		t.Fatal(err)
	}
	r := start(t, onRoot)
	if got := r.values("t", 0); len(got) != 3 {
		t.Fatalf("%d records are left", len(got))
	}
	c := r.dial()
	for range 2 {
		if got := c.produce("t", 0, batch); got != (answer{BaseOffset: 1}) {
			t.Errorf("%+v", got)
		}
	}
	if got := c.produce("t", 0, p.batch(4, "e")); got != (answer{BaseOffset: 4}) {
		t.Errorf("the one after: %+v", got)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", strings.Repeat("d", 5000), "e"}, r.values("t", 0)); diff != "" {
		t.Errorf("(-want +stored):\n%s", diff)
	}
}

// After a restart the log still knows that a batch before the newest one is stored, and
// no longer where.
func TestAfterARestartAnOldBatchIsStillADuplicate(t *testing.T) {
	root := t.TempDir()
	p := producer{1, 0}
	for _, want := range []answer{{BaseOffset: 0}, {codeDuplicateSequence, -1}} {
		t.Run(fmt.Sprint(want.Code), func(t *testing.T) {
			r := start(t, func(_ *Config, b *broker.Config) { b.Root = root })
			c := r.dial()
			if want.Code == codeNone {
				r.create("t", 1, nil)
				for _, b := range [][]byte{p.batch(0, "a", "b"), p.batch(2, "c", "d")} {
					if got := c.produce("t", 0, b); got.Code != codeNone {
						t.Fatal(got)
					}
				}
			}
			if got := c.produce("t", 0, p.batch(0, "a", "b")); got != want {
				t.Errorf("%+v; want %+v", got, want)
			}
			if got := c.produce("t", 0, p.batch(2, "c", "d")); got != (answer{BaseOffset: 2}) {
				t.Errorf("the newest: %+v", got)
			}
			if n := len(r.values("t", 0)); n != 4 {
				t.Errorf("%d records are stored", n)
			}
		})
	}
}

// What gathers while a publish is under way keeps who sent it and the order: each batch
// of a producer is judged by itself, those without a number go together.
func TestWhatGathersKeepsItsNumbersAndItsOrder(t *testing.T) {
	r, disk := faulty(t)
	r.create("t", 1, nil)
	stalled := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Path: isLog, Stall: true})
	defer stalled.Release()
	c := r.dial()
	p, other := producer{1, 0}, producer{2, 0}
	sent := []step{
		{"", p.batch(0, "0", "1"), answer{BaseOffset: 0}},
		{"", p.batch(2, "2"), answer{BaseOffset: 2}},
		{"", other.batch(0, "3"), answer{BaseOffset: 3}},
		{"", value("4"), answer{BaseOffset: 4}},
		{"", value("5"), answer{BaseOffset: 5}},
		{"", p.batch(0, "0", "1"), answer{BaseOffset: 0}},
		{"", p.batch(4, "x"), answer{codeOutOfOrderSequence, -1}},
		{"", p.batch(3, "6"), answer{BaseOffset: 6}},
		{"", value("7"), answer{BaseOffset: 7}},
	}
	var request *kmsg.ProduceRequest
	for i, s := range sent {
		request = produceOf("t", 0, s.batch)
		c.send(request)
		if i == 0 {
			<-stalled.Reached()
		}
	}
	r.until("all were read", func() bool { return r.server.Stats().Requests["Produce"] == uint64(len(sent)) })
	stalled.Release()
	for i, s := range sent {
		part := c.receive(request, int32(i+1)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if got := (answer{code(part.ErrorCode), part.BaseOffset}); got != s.want {
			t.Errorf("produce %d: %+v; want %+v", i, got, s.want)
		}
	}
	if diff := cmp.Diff(strings.Split("01234567", ""), r.values("t", 0)); diff != "" {
		t.Errorf("(-want +stored):\n%s", diff)
	}
}

// A subscription that holds publishers back keeps the first batch from being stored.
func TestBehindAFirstBatchThatFailsInMemoryTheOthersAreEarly(t *testing.T) {
	r := start(t)
	r.create("memory", 1, map[string]string{configDurable: "false"})
	stream, err := r.broker.Stream(broker.StreamName{Tenant: DefaultName, Namespace: DefaultName, Stream: "memory"})
	if err != nil {
		t.Fatal(err)
	}
	sub, err := stream.Subscribe(t.Context(), 0, broker.Latest(), broker.SubscribeOptions{WhenFull: broker.WhenFullBlock})
	if err != nil {
		t.Fatal(err)
	}
	for range broker.DefaultSubscriberQueue {
		if _, err := stream.Publish(t.Context(), broker.Explicit(0), broker.Message{Value: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	p := producer{1, 0}
	c := r.dial()
	late := func(batch []byte) code {
		request := produceOf("memory", 0, batch)
		request.TimeoutMillis = 20
		return failureOf(c.ask(request))
	}
	if got := late(p.batch(1, "b")); got != codeUnknownProducerID {
		t.Errorf("before the first: %d", got)
	}
	if got := late(p.batch(0, "a")); got != codeRequestTimedOut {
		t.Errorf("the first: %d", got)
	}
	if got := late(p.batch(1, "b")); got != codeOutOfOrderSequence {
		t.Errorf("behind it: %d", got)
	}
	sub.Close()
	for i, want := range []int64{broker.DefaultSubscriberQueue, broker.DefaultSubscriberQueue + 1} {
		if got := c.produce("memory", 0, p.batch(int32(i), fmt.Sprint(i))); got != (answer{BaseOffset: want}) {
			t.Errorf("once there is room: %+v; want %d", got, want)
		}
	}
}

// A retry that comes while the flush of the first try hangs is not answered before it,
// and fails with it.
func TestARetryDuringAHangingFlushIsAnsweredByItsOutcome(t *testing.T) {
	for _, fails := range []bool{false, true} {
		r, disk := faulty(t)
		r.create("t", 1, nil)
		fault := faultdisk.Fault{Kinds: faultdisk.Writes, Path: isLog, Stall: true}
		if fails {
			fault.Errno = syscall.EIO
		}
		stalled := disk.Inject(fault)
		defer stalled.Release()
		batch := producer{1, 0}.batch(0, "a")
		first, second := r.dial(), r.dial()
		first.send(produceOf("t", 0, batch))
		<-stalled.Reached()
		late := produceOf("t", 0, batch)
		late.TimeoutMillis = 500
		if got := failureOf(second.ask(late)); got != codeRequestTimedOut {
			t.Errorf("while the flush hangs: %d", got)
		}
		request := produceOf("t", 0, batch)
		second.send(request)
		r.until("the retry was read", func() bool { return r.server.Stats().Requests["Produce"] == 3 })
		stalled.Release()
		want := codeNone
		if fails {
			want = codeKafkaStorageError
		}
		for i, c := range []*raw{first, second} {
			if got := failureOf(c.receive(request, c.correlation)); got != want {
				t.Errorf("fails %t: try %d gave %d; want %d", fails, i, got, want)
			}
		}
	}
}

func TestManyProducersInMemoryAreForgottenInTurn(t *testing.T) {
	r := start(t, func(c *Config, _ *broker.Config) { c.ProducersMax = 3 })
	r.create("memory", 1, map[string]string{configDurable: "false"})
	c := r.dial()
	for id := range int64(5) {
		if got := c.produce("memory", 0, producer{id + 1, 0}.batch(0, "a")); got.Code != codeNone {
			t.Errorf("producer %d: %+v", id+1, got)
		}
	}
	for id, want := range []code{codeUnknownProducerID, codeUnknownProducerID, codeNone, codeNone, codeNone} {
		if got := c.produce("memory", 0, producer{int64(id) + 1, 0}.batch(1, "b")); got.Code != want {
			t.Errorf("producer %d: %+v; want %d", id+1, got, want)
		}
	}
	known := r.server.remembered
	known.mu.Lock()
	defer known.mu.Unlock()
	if n := len(known.mu.entries); n != 3 || known.mu.recent.Len() != n {
		t.Errorf("%d are remembered", n)
	}
}

func TestAMemoryTopicThatIsMadeAnewKnowsNoProducer(t *testing.T) {
	r := start(t)
	c := r.dial()
	for range 2 {
		r.create("memory", 1, map[string]string{configDurable: "false"})
		if got := c.produce("memory", 0, producer{1, 0}.batch(0, "a")); got != (answer{BaseOffset: 0}) {
			t.Errorf("%+v", got)
		}
		if got := r.values("memory", 0); len(got) != 1 {
			t.Errorf("%q", got)
		}
		if _, err := r.admin().DeleteTopic(r.ctx(), "memory"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAClientWithItsDefaultsIsIdempotent(t *testing.T) {
	r := start(t)
	r.create("t", 1, nil)
	r.produce(r.client(), &kgo.Record{Topic: "t", Value: []byte("a")})
	if n := r.server.Stats().Requests["InitProducerID"]; n != 1 {
		t.Errorf("%d ids were asked for", n)
	}
}
