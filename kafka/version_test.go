package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// requests gives, for each request that is advertised, one that succeeds on topic
// "t" with one partition.
func requests() map[int16]kmsg.Request {
	offsets := kmsg.NewPtrListOffsetsRequest()
	offsets.ReplicaID = -1
	lt := kmsg.NewListOffsetsRequestTopic()
	lt.Topic = "t"
	lt.Partitions = append(lt.Partitions, kmsg.NewListOffsetsRequestTopicPartition())
	offsets.Topics = append(offsets.Topics, lt)
	metadata := kmsg.NewPtrMetadataRequest()
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = kmsg.StringPtr("t")
	metadata.Topics = append(metadata.Topics, mt)
	create := kmsg.NewPtrCreateTopicsRequest()
	ct := kmsg.NewCreateTopicsRequestTopic()
	ct.Topic, ct.NumPartitions, ct.ReplicationFactor = "made", 1, 1
	create.Topics = append(create.Topics, ct)
	remove := kmsg.NewPtrDeleteTopicsRequest()
	remove.TopicNames = []string{"made"}
	trim := kmsg.NewPtrDeleteRecordsRequest()
	dt := kmsg.NewDeleteRecordsRequestTopic()
	dt.Topic = "t"
	dt.Partitions = append(dt.Partitions, kmsg.NewDeleteRecordsRequestTopicPartition())
	trim.Topics = append(trim.Topics, dt)
	epoch := kmsg.NewPtrOffsetForLeaderEpochRequest()
	et := kmsg.NewOffsetForLeaderEpochRequestTopic()
	et.Topic = "t"
	et.Partitions = append(et.Partitions, kmsg.NewOffsetForLeaderEpochRequestTopicPartition())
	epoch.Topics = append(epoch.Topics, et)
	configs := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
	configs.Resources = append(configs.Resources, resource)
	grow := kmsg.NewPtrCreatePartitionsRequest()
	gt := kmsg.NewCreatePartitionsRequestTopic()
	gt.Topic, gt.Count = "t", 3
	grow.ValidateOnly = true
	grow.Topics = append(grow.Topics, gt)
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Mechanism = mechanism
	cluster := kmsg.NewPtrDescribeClusterRequest()
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.ClientSoftwareName, versions.ClientSoftwareVersion = "test", "1"
	coordinator := kmsg.NewPtrFindCoordinatorRequest()
	coordinator.CoordinatorKey = "group"
	token := kmsg.NewPtrSASLAuthenticateRequest()
	token.SASLAuthBytes = []byte("\x00name\x00secret")
	producer := kmsg.NewPtrInitProducerIDRequest()
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType = "group", "consumer"
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name, protocol.Metadata = "range", []byte("which topics")
	join.Protocols = append(join.Protocols, protocol)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID = "group", "member"
	heartbeat := kmsg.NewPtrHeartbeatRequest()
	heartbeat.Group, heartbeat.MemberID = "group", "member"
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.MemberID = "group", "member"
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group = "group"
	ot := kmsg.NewOffsetCommitRequestTopic()
	ot.Topic = "t"
	ot.Partitions = append(ot.Partitions, kmsg.NewOffsetCommitRequestTopicPartition())
	commit.Topics = append(commit.Topics, ot)
	committed := kmsg.NewPtrOffsetFetchRequest()
	committed.Group = "group"
	committed.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	return map[int16]kmsg.Request{
		keyInitProducerID: producer, keyFindCoordinator: coordinator, keyJoinGroup: join, keySyncGroup: sync,
		keyHeartbeat: heartbeat, keyLeaveGroup: leave, keyOffsetCommit: commit, keyOffsetFetch: committed,
		keyProduce: produceOf("t", 0, encode(sample())), keyFetch: fetchOf("t", 0, 0), keyListOffsets: offsets, keyMetadata: metadata,
		keySASLHandshake: handshake, keyAPIVersions: versions, keyCreateTopics: create, keyDeleteTopics: remove, keyDeleteRecords: trim,
		keyOffsetForEpoch: epoch, keyDescribeConfigs: configs, keySASLAuthenticate: token, keyCreatePartitions: grow, keyDescribeCluster: cluster,
	}
}

// failureOf is the first error code of an answer.
func failureOf(r kmsg.Response) code {
	switch r := r.(type) {
	case *kmsg.ProduceResponse:
		return code(r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.FetchResponse:
		return code(r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.ListOffsetsResponse:
		return code(r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.MetadataResponse:
		return code(r.Topics[0].ErrorCode)
	case *kmsg.SASLHandshakeResponse:
		return code(r.ErrorCode)
	case *kmsg.ApiVersionsResponse:
		return code(r.ErrorCode)
	case *kmsg.CreateTopicsResponse:
		return code(r.Topics[0].ErrorCode)
	case *kmsg.DeleteTopicsResponse:
		return code(r.Topics[0].ErrorCode)
	case *kmsg.DeleteRecordsResponse:
		return code(r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.OffsetForLeaderEpochResponse:
		return code(r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.DescribeConfigsResponse:
		return code(r.Resources[0].ErrorCode)
	case *kmsg.SASLAuthenticateResponse:
		return code(r.ErrorCode)
	case *kmsg.CreatePartitionsResponse:
		return code(r.Topics[0].ErrorCode)
	case *kmsg.InitProducerIDResponse:
		return code(r.ErrorCode)
	case *kmsg.FindCoordinatorResponse:
		return code(r.ErrorCode)
	case *kmsg.JoinGroupResponse:
		return code(r.ErrorCode)
	case *kmsg.SyncGroupResponse:
		return code(r.ErrorCode)
	case *kmsg.HeartbeatResponse:
		return code(r.ErrorCode)
	case *kmsg.LeaveGroupResponse:
		return code(r.ErrorCode)
	case *kmsg.OffsetCommitResponse:
		return code(r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.OffsetFetchResponse:
		return code(r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.DescribeClusterResponse:
		return code(r.ErrorCode)
	}
	panic("an answer this test does not know")
}

func TestEveryAdvertisedVersionIsAnsweredInTheCodecsBytes(t *testing.T) {
	r := start(t)
	r.create("t", 1, nil)
	byKey := requests()
	c := r.dial()
	for _, a := range supported() {
		request := byKey[a.key]
		if request == nil {
			t.Fatalf("no request with key %d to try", a.key)
		}
		for v := a.min; v <= a.max; v++ {
			want := codeNone
			switch a.key {
			case keySASLHandshake, keySASLAuthenticate:
				want = codeIllegalSASLState // nobody asks for authentication here
			case keyJoinGroup, keySyncGroup, keyHeartbeat, keyLeaveGroup, keyOffsetCommit:
				want = codeGroupAuthorizationFailed
			case keyDeleteTopics:
				c.ask(version(6, byKey[keyCreateTopics]))
			case keyCreateTopics:
				c.ask(version(5, byKey[keyDeleteTopics]))
			}
			response := c.ask(version(v, request))
			if got := failureOf(response); got != want {
				t.Errorf("%s version %d gave %d", kmsg.NameForKey(a.key), v, got)
			}
			checkAnswer(t, response)
		}
	}
}

// checkAnswer looks at what the answers written by hand say.
func checkAnswer(t *testing.T, r kmsg.Response) {
	t.Helper()
	switch r := r.(type) {
	case *kmsg.ProduceResponse:
		if p := r.Topics[0].Partitions[0]; r.Topics[0].Topic != "t" || p.BaseOffset%4 != 0 || p.LogAppendTime != -1 && r.Version >= 2 ||
			r.Version >= produceLogStart && p.LogStartOffset != 0 {
			t.Errorf("Produce version %d: %+v", r.Version, p)
		}
	case *kmsg.FetchResponse:
		p := r.Topics[0].Partitions[0]
		d := newDecoder(1000, 0)
		err := d.decode(p.RecordBatches)
		if err != nil || int64(len(d.messages)) != p.HighWatermark || p.LastStableOffset != p.HighWatermark || p.HighWatermark == 0 ||
			r.Version >= fetchLogStart && p.LogStartOffset != 0 {
			t.Errorf("Fetch version %d: %v, %+v", r.Version, err, p)
		}
	}
}

func TestANewerApiVersionsIsToldWhatThereIs(t *testing.T) {
	r := start(t)
	c := r.dial()
	c.write([]byte{0, 0, 0, 11, 0, byte(keyAPIVersions), 0, 99, 0, 0, 0, 1, 0xff, 0xff, 0})
	response := c.receive(version(0, kmsg.NewPtrApiVersionsRequest()), 1).(*kmsg.ApiVersionsResponse)
	if code(response.ErrorCode) != codeUnsupportedVersion || len(response.ApiKeys) != len(supported()) {
		t.Errorf("got %+v", response)
	}
	if response := c.ask(version(3, kmsg.NewPtrApiVersionsRequest())).(*kmsg.ApiVersionsResponse); response.ErrorCode != 0 {
		t.Errorf("then %+v", response)
	}
}

func TestRequestsThatAreNotAdvertisedEndTheConnection(t *testing.T) {
	r := start(t)
	for _, request := range []kmsg.Request{
		version(13, fetchOf("t", 0, 0)), version(3, fetchOf("t", 0, 0)), version(10, produceOf("t", 0, nil)),
		version(4, kmsg.NewPtrFindCoordinatorRequest()), version(5, kmsg.NewPtrInitProducerIDRequest()),
		version(10, kmsg.NewPtrOffsetCommitRequest()), version(8, kmsg.NewPtrOffsetFetchRequest()), kmsg.NewPtrDescribeGroupsRequest(),
	} {
		c := r.dial()
		c.send(request)
		c.ended(kmsg.NameForKey(request.Key()))
	}
	if n := r.server.Stats().RequestsRefused; n != 8 {
		t.Errorf("%d refusals were counted", n)
	}
}
