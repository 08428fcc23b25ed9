package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"felix.local/felix/broker"
)

func TestTopicsAreListedByTheirFullNamesAndAnsweredByTheNameAsked(t *testing.T) {
	r := start(t)
	r.create("short", 2, nil)
	r.create("acme.shop.orders", 1, nil)
	admin := r.admin()
	all, err := admin.ListTopics(r.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"acme.shop.orders", "default.default.short"}, all.Names()); diff != "" {
		t.Errorf("(-expected +listed):\n%s", diff)
	}
	some, err := admin.ListTopics(r.ctx(), "short", "default.default.short")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"short", "default.default.short"} {
		if got := some[name]; got.Err != nil || len(got.Partitions) != 2 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	r.produce(r.client(), &kgo.Record{Topic: "short", Value: []byte("same")})
	if got := r.consume(1, from("default.default.short", 0, kgo.NewOffset().AtStart())); string(got[0].Value) != "same" {
		t.Errorf("the full name holds %q", got[0].Value)
	}
}

func TestNamesThatAreNoTopicsAreRefused(t *testing.T) {
	r := start(t)
	c := r.client()
	for _, name := range []string{"", "a.b", "a.b.c.d", "..", "../../etc/passwd", "a/b", "nul\x00", "..c", strings.Repeat("x", 300), "a..c", "é"} {
		create := kmsg.NewPtrCreateTopicsRequest()
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
		create.Topics = append(create.Topics, topic)
		created, err := create.RequestWith(r.ctx(), c)
		if err != nil {
			t.Fatal(err)
		}
		if got := created.Topics[0]; code(got.ErrorCode) != codeInvalidTopic || got.ErrorMessage == nil {
			t.Errorf("creating %.20q gave %d", name, got.ErrorCode)
		}
		metadata := kmsg.NewPtrMetadataRequest()
		metadata.AllowAutoTopicCreation = true
		asked := kmsg.NewMetadataRequestTopic()
		asked.Topic = kmsg.StringPtr(name)
		metadata.Topics = append(metadata.Topics, asked)
		described, err := metadata.RequestWith(r.ctx(), c)
		if err != nil {
			t.Fatal(err)
		}
		if got := code(described.Topics[0].ErrorCode); got != codeInvalidTopic {
			t.Errorf("asking about %.20q gave %d", name, got)
		}
	}
	if n := len(r.broker.Streams()); n != 0 {
		t.Errorf("%d streams were made", n)
	}
}

func TestTopicsAreMadeGrownAndDeleted(t *testing.T) {
	r := start(t)
	admin := r.admin()
	r.create("t", 2, nil)
	if _, err := admin.CreateTopic(r.ctx(), 4, 1, nil, "t"); !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Errorf("making it again gave %v", err)
	}
	grow := func(n int) error {
		got, err := admin.UpdatePartitions(r.ctx(), n, "t")
		if err != nil {
			t.Fatal(err)
		}
		return got.Error()
	}
	if err := grow(5); err != nil {
		t.Errorf("growing to 5 gave %v", err)
	}
	if err := grow(3); !errors.Is(err, kerr.InvalidPartitions) {
		t.Errorf("shrinking gave %v", err)
	}
	listed, err := admin.ListTopics(r.ctx(), "t")
	if err != nil || len(listed["t"].Partitions) != 5 {
		t.Errorf("it has %d partitions; %v", len(listed["t"].Partitions), err)
	}
	for i, want := range []error{nil, kerr.UnknownTopicOrPartition} {
		deleted, err := admin.DeleteTopics(r.ctx(), "t")
		if err != nil {
			t.Fatal(err)
		}
		if err := deleted.Error(); !errors.Is(err, want) {
			t.Errorf("deletion %d gave %v", i, err)
		}
	}
}

func TestWhatATopicCannotBeIsRefused(t *testing.T) {
	r := start(t)
	configs := func(pairs ...string) map[string]*string {
		m := make(map[string]*string)
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = &pairs[i+1]
		}
		return m
	}
	for name, test := range map[string]struct {
		partitions  int32
		replication int16
		configs     map[string]*string
		want        error
	}{
		"no partitions":        {0, 1, nil, kerr.InvalidPartitions},
		"negative partitions":  {-7, 1, nil, kerr.InvalidPartitions},
		"too many partitions":  {1 << 30, 1, nil, kerr.InvalidPartitions},
		"copies":               {1, 3, nil, kerr.InvalidReplicationFactor},
		"unknown config":       {1, 1, configs("cleanup.policy", "compact"), kerr.InvalidConfig},
		"zero retention":       {1, 1, configs(configRetentionBytes, "0"), kerr.InvalidConfig},
		"retention overflow":   {1, 1, configs(configRetentionMS, "9223372036854775807"), kerr.InvalidConfig},
		"retention no number":  {1, 1, configs(configRetentionMS, "day"), kerr.InvalidConfig},
		"no value":             {1, 1, map[string]*string{configFormat: nil}, kerr.InvalidConfig},
		"unknown format":       {1, 1, configs(configFormat, "json"), kerr.InvalidConfig},
		"unknown fsync":        {1, 1, configs(configFsync, "maybe"), kerr.InvalidConfig},
		"no boolean":           {1, 1, configs(configDurable, "sure"), kerr.InvalidConfig},
		"fsync without a disk": {1, 1, configs(configDurable, "false", configFsync, "none"), kerr.InvalidConfig},
	} {
		_, err := r.admin().CreateTopic(r.ctx(), test.partitions, test.replication, test.configs, "bad")
		if !errors.Is(err, test.want) {
			t.Errorf("%s gave %v; expected %v", name, err, test.want)
		}
	}
	if n := len(r.broker.Streams()); n != 0 {
		t.Errorf("%d streams were made", n)
	}
}

func TestConfigurationsComeBackAsTheyWereSet(t *testing.T) {
	r := start(t)
	set := map[string]string{
		configRetentionBytes: "1048576", configRetentionMS: "-1", configFormat: formatRaw,
		configDurable: "true", configFsync: "on_commit",
	}
	r.create("configured", 1, set)
	described, err := r.admin().DescribeTopicConfigs(r.ctx(), "configured")
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, c := range described[0].Configs {
		got[c.Key] = c.MaybeValue()
	}
	if diff := cmp.Diff(set, got); diff != "" {
		t.Errorf("(-set +described):\n%s", diff)
	}
	server, err := r.admin().DescribeBrokerConfigs(r.ctx(), 0)
	if err != nil || server[0].Err != nil || len(server[0].Configs) == 0 {
		t.Errorf("the broker's: %+v, %v", server, err)
	}
	if missing, err := r.admin().DescribeTopicConfigs(r.ctx(), "missing"); err != nil || !errors.Is(missing[0].Err, kerr.UnknownTopicOrPartition) {
		t.Errorf("a topic that is not there: %v, %v", missing, err)
	}
}

func TestValidationAloneMakesNothing(t *testing.T) {
	r := start(t)
	r.create("exists", 1, nil)
	for name, want := range map[string]error{"fresh": nil, "exists": kerr.TopicAlreadyExists, "a.b": kerr.InvalidTopicException} {
		got, err := r.admin().ValidateCreateTopics(r.ctx(), 3, 1, nil, name)
		if err != nil {
			t.Fatal(err)
		}
		if err := got[name].Err; !errors.Is(err, want) {
			t.Errorf("%s gave %v", name, err)
		}
	}
	if _, err := r.admin().ValidateUpdatePartitions(r.ctx(), 3, "exists"); err != nil {
		t.Error(err)
	}
	if infos := r.broker.Streams(); len(infos) != 1 || len(infos[0].Shards) != 1 {
		t.Errorf("there are %+v", infos)
	}
}

func TestDeletedRecordsAreOutOfRange(t *testing.T) {
	r := start(t)
	r.create("trimmed", 1, nil)
	r.produce(r.client(), varied("trimmed", 50)...)
	admin := r.admin()
	deleteTo := func(offset int64) (int64, error) {
		var offsets kadm.Offsets
		offsets.Add(kadm.Offset{Topic: "trimmed", Partition: 0, At: offset, LeaderEpoch: -1})
		got, err := admin.DeleteRecords(r.ctx(), offsets)
		if err != nil {
			t.Fatal(err)
		}
		return got["trimmed"][0].LowWatermark, got["trimmed"][0].Err
	}
	if low, err := deleteTo(30); low != 30 || err != nil {
		t.Errorf("deleting to 30 gave %d, %v", low, err)
	}
	if _, err := deleteTo(51); !errors.Is(err, kerr.OffsetOutOfRange) {
		t.Errorf("deleting past the end gave %v", err)
	}
	if low, err := deleteTo(10); low != 30 || err != nil {
		t.Errorf("deleting what is gone gave %d, %v", low, err)
	}
	strict := r.client(kgo.ConsumePartitions(from("trimmed", 0, kgo.NewOffset().At(5))), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	if err := strict.PollFetches(r.ctx()).Err(); !errors.Is(err, kerr.OffsetOutOfRange) {
		t.Errorf("reading offset 5 gave %v", err)
	}
	if got := r.consume(1, from("trimmed", 0, kgo.NewOffset().At(5))); got[0].Offset != 30 {
		t.Errorf("a client that resets went to %d", got[0].Offset)
	}
	if low, err := deleteTo(-1); low != 50 || err != nil {
		t.Errorf("deleting all gave %d, %v", low, err)
	}
	starts, err := admin.ListStartOffsets(r.ctx(), "trimmed")
	if err != nil || starts["trimmed"][0].Offset != 50 {
		t.Errorf("starts at %+v, %v", starts, err)
	}
}

func TestOffsetsOfEpochsAndTimes(t *testing.T) {
	r := start(t)
	r.create("epochs", 1, nil)
	c := r.client()
	r.produce(c, varied("epochs", 5)...)
	ask := func(epoch, current int32) kmsg.OffsetForLeaderEpochResponseTopicPartition {
		request := kmsg.NewPtrOffsetForLeaderEpochRequest()
		request.ReplicaID = -1
		topic := kmsg.NewOffsetForLeaderEpochRequestTopic()
		topic.Topic = "epochs"
		part := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		part.LeaderEpoch, part.CurrentLeaderEpoch = epoch, current
		topic.Partitions = append(topic.Partitions, part)
		request.Topics = append(request.Topics, topic)
		got, err := request.RequestWith(r.ctx(), c)
		if err != nil {
			t.Fatal(err)
		}
		return got.Topics[0].Partitions[0]
	}
	if got := ask(0, 0); got.ErrorCode != 0 || got.EndOffset != 5 || got.LeaderEpoch != 0 {
		t.Errorf("epoch 0: %+v", got)
	}
	if got := ask(7, -1); got.ErrorCode != 0 || got.EndOffset != -1 || got.LeaderEpoch != -1 {
		t.Errorf("epoch 7: %+v", got)
	}
	if got := ask(0, 3); code(got.ErrorCode) != codeUnknownLeaderEpoch {
		t.Errorf("current epoch 3: %+v", got)
	}
	after, err := r.admin().ListOffsetsAfterMilli(r.ctx(), 1<<60, "epochs")
	if err != nil || after["epochs"][0].Offset != 5 { // kadm turns "none" into the end
		t.Errorf("far in the future: %+v, %v", after, err)
	}
	largest := kmsg.NewPtrListOffsetsRequest()
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = "epochs"
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Timestamp = -3
	topic.Partitions = append(topic.Partitions, part)
	largest.Topics = append(largest.Topics, topic)
	got, err := largest.RequestWith(r.ctx(), c)
	if err != nil || code(got.Topics[0].Partitions[0].ErrorCode) != codeUnsupportedVersion {
		t.Errorf("the largest timestamp: %+v, %v", got, err)
	}
}

func TestTheClusterIsOneBroker(t *testing.T) {
	r := start(t, func(c *Config, _ *broker.Config) { c.NodeID, c.ClusterID = 7, "house" })
	request := kmsg.NewPtrDescribeClusterRequest()
	got, err := request.RequestWith(r.ctx(), r.client())
	if err != nil {
		t.Fatal(err)
	}
	where := fmt.Sprintf("%s:%d", got.Brokers[0].Host, got.Brokers[0].Port)
	if len(got.Brokers) != 1 || where != r.addr || got.Brokers[0].NodeID != 7 || got.ControllerID != 7 || got.ClusterID != "house" {
		t.Errorf("got %+v", got)
	}
	brokers, err := r.admin().ListBrokers(r.ctx())
	if err != nil || !slices.Equal(brokers.NodeIDs(), []int32{7}) {
		t.Errorf("listed %v, %v", brokers, err)
	}
}

func TestAnAdvertisedAddressIsToldToClients(t *testing.T) {
	r := start(t, func(c *Config, _ *broker.Config) { c.AdvertisedAddr = "felix.example:9092" })
	metadata, err := r.admin().BrokerMetadata(r.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if b := metadata.Brokers[0]; b.Host != "felix.example" || b.Port != 9092 {
		t.Errorf("told %s:%d", b.Host, b.Port)
	}
}
