package kafka

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"felix.local/felix/broker"
)

// committedOf asks for the offset that a group committed for a partition of each topic.
func committedOf(topics ...string) *kmsg.OffsetFetchRequest {
	request := version(7, kmsg.NewPtrOffsetFetchRequest())
	request.Group = "group"
	for _, topic := range topics {
		request.Topics = append(request.Topics, kmsg.OffsetFetchRequestTopic{Topic: topic, Partitions: []int32{0, 7}})
	}
	return request
}

func TestAGroupsCoordinatorIsTheServerThatMetadataNames(t *testing.T) {
	r := start(t, func(c *Config, _ *broker.Config) { c.NodeID, c.AdvertisedAddr = 5, "felix.example:1234" })
	c := r.dial()
	node := c.ask(version(9, kmsg.NewPtrMetadataRequest())).(*kmsg.MetadataResponse).Brokers[0]
	for v := range int16(4) {
		request := version(v, kmsg.NewPtrFindCoordinatorRequest())
		request.CoordinatorKey = "group"
		got := c.ask(request).(*kmsg.FindCoordinatorResponse)
		if got.ErrorCode != 0 || got.NodeID != node.NodeID || got.Host != node.Host || got.Port != node.Port || got.Port != 1234 {
			t.Errorf("version %d: %+v; the metadata has %+v", v, got, node)
		}
	}
}

func TestNobodyBecomesAMember(t *testing.T) {
	c := start(t).dial()
	byKey := requests()
	for v := range int16(10) {
		got := c.ask(version(v, byKey[keyJoinGroup])).(*kmsg.JoinGroupResponse)
		if code(got.ErrorCode) != codeGroupAuthorizationFailed || got.Generation != -1 || got.MemberID != "" || got.LeaderID != "" || len(got.Members) != 0 {
			t.Errorf("version %d: %+v", v, got)
		}
	}
}

func TestNoOffsetIsCommitted(t *testing.T) {
	r := start(t)
	r.create("t", 1, nil)
	c := r.dial()
	for v := range int16(8) {
		got := c.ask(version(v, committedOf("t", "missing"))).(*kmsg.OffsetFetchResponse)
		if got.ErrorCode != 0 || len(got.Topics) != 2 || got.Topics[1].Topic != "missing" {
			t.Fatalf("version %d: %+v", v, got)
		}
		for _, topic := range got.Topics {
			for i, p := range topic.Partitions {
				if p.Partition != int32(7*i) || p.Offset != -1 || p.LeaderEpoch != -1 || p.ErrorCode != 0 || p.Metadata == nil || *p.Metadata != "" {
					t.Errorf("version %d: %+v", v, p)
				}
			}
		}
	}
	all := version(7, kmsg.NewPtrOffsetFetchRequest())
	if got := c.ask(all).(*kmsg.OffsetFetchResponse); got.ErrorCode != 0 || len(got.Topics) != 0 {
		t.Errorf("all topics: %+v", got)
	}
}

func TestCommittingIsRefusedForEachPartition(t *testing.T) {
	r := start(t)
	r.create("t", 2, nil)
	var offsets kadm.Offsets
	offsets.AddOffset("t", 0, 3, -1)
	offsets.AddOffset("t", 1, 4, -1)
	admin := r.admin()
	got, err := admin.CommitOffsets(r.ctx(), "group", offsets)
	if err != nil || len(got["t"]) != 2 {
		t.Fatalf("%v, %v", got, err)
	}
	for p, o := range got["t"] {
		if !errors.Is(o.Err, kerr.GroupAuthorizationFailed) {
			t.Errorf("partition %d: %v", p, o.Err)
		}
	}
	if kept, err := admin.FetchOffsets(r.ctx(), "group"); err != nil || len(kept) != 0 {
		t.Errorf("then the group has %v, %v", kept, err)
	}
}

func TestOffsetsSayNothingOfTopicsThatMayNotBeRead(t *testing.T) {
	r := guarded(t)
	if _, err := kadm.NewClient(r.client(as("root", secret))).CreateTopic(r.ctx(), 1, 1, nil, "other.shop.orders"); err != nil {
		t.Fatal(err)
	}
	answer, err := r.client(as("reader", secret)).Request(r.ctx(), committedOf("acme.shop.missing", "other.shop.orders", "other.shop.missing", "a.b"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []code{codeNone, codeTopicAuthorizationFailed, codeTopicAuthorizationFailed, codeInvalidTopic} {
		topic := answer.(*kmsg.OffsetFetchResponse).Topics[i]
		for _, p := range topic.Partitions {
			if code(p.ErrorCode) != want || p.Offset != -1 {
				t.Errorf("%s: %+v", topic.Topic, p)
			}
		}
	}
}

// An answer is a few times its request at most, whatever is asked.
func TestAnswersOfGroupsAreAsLargeAsTheirRequests(t *testing.T) {
	c := start(t).dial()
	committed := committedOf("t")
	committed.Topics[0].Partitions = make([]int32, 10_000)
	commit := version(9, requests()[keyOffsetCommit].(*kmsg.OffsetCommitRequest))
	commit.Topics[0].Partitions = make([]kmsg.OffsetCommitRequestTopicPartition, 10_000)
	for _, request := range []kmsg.Request{committed, commit} {
		asked, answered := len(request.AppendTo(nil)), len(c.ask(request).AppendTo(nil))
		if answered > 6*asked {
			t.Errorf("%s of %d bytes is answered with %d", kmsg.NameForKey(request.Key()), asked, answered)
		}
	}
}

// A client over librdkafka has to have a group's name, even where it only assigns.
func TestKcatReadsWithAGroupsName(t *testing.T) {
	r := start(t)
	r.create("events", 1, nil)
	r.kcat("a\nb\n", "-P", "-t", "events")
	for _, args := range [][]string{nil, {"-X", "group.id=group"}} {
		if got := r.kcat("", append([]string{"-C", "-t", "events", "-e", "-q"}, args...)...); got != "a\nb\n" {
			t.Errorf("%v read %q", args, got)
		}
	}
}

func TestConfluentReadsWhatItAssignsAndIsToldThatItCannotSubscribe(t *testing.T) {
	r := start(t)
	r.create("events", 1, nil)
	r.produce(r.client(), &kgo.Record{Topic: "events", Value: []byte("a")}, &kgo.Record{Topic: "events", Value: []byte("b")})
	const script = `
import sys
from confluent_kafka import Consumer, TopicPartition, KafkaException
refused, reported = [], []
conf = {"bootstrap.servers": sys.argv[1], "group.id": "group", "auto.offset.reset": "earliest", "auto.commit.interval.ms": 100,
    "error_cb": reported.append}
c = Consumer({**conf, "on_commit": lambda error, partitions: refused.append(error)})
p = TopicPartition("events", 0)
c.assign([p])
got = []
while len(got) < 2 or not refused: # the commits that it makes by itself
    m = c.poll(0.1)
    if m is not None:
        assert m.error() is None, m.error()
        got.append(m.value())
print(got, refused[0].name(), c.committed([p])[0].offset)
try:
    c.commit(asynchronous=False)
except KafkaException as e:
    print("commit", e.args[0].name())
c.close()
c = Consumer(conf)
c.subscribe(["events"])
m = None
while m is None:
    m = c.poll(0.1)
print("subscribe", m.error().name())
c.close()
print(reported)
`
	want := `[b'a', b'b'] GROUP_AUTHORIZATION_FAILED -1001
commit GROUP_AUTHORIZATION_FAILED
subscribe GROUP_AUTHORIZATION_FAILED
[]
`
	if got := r.pythonWith("confluent_kafka", "python3-confluent-kafka", script); got != want {
		t.Errorf("it printed\n%s", got)
	}
}

func TestPythonReadsWhatItAssignsAndIsToldThatItCannotSubscribe(t *testing.T) {
	r := start(t)
	r.create("events", 1, nil)
	r.produce(r.client(), &kgo.Record{Topic: "events", Value: []byte("a")}, &kgo.Record{Topic: "events", Value: []byte("b")})
	const script = `
import sys
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
conf = dict(bootstrap_servers=sys.argv[1], group_id="group", auto_offset_reset="earliest", auto_commit_interval_ms=100)
c = KafkaConsumer(**conf)
p = TopicPartition("events", 0)
c.assign([p])
got = [next(c).value for _ in range(2)]
print(got, c.committed(p))
c.close()
c = KafkaConsumer("events", **conf)
try:
    while True:
        c.poll(timeout_ms=100)
except KafkaError as e:
    print("subscribe", type(e).__name__)
c.close()
`
	if got := r.python(script); got != "[b'a', b'b'] None\nsubscribe GroupAuthorizationFailedError\n" {
		t.Errorf("it printed\n%s", got)
	}
}
