package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"felix.local/felix/auth"
)

// There are no consumer groups, and the place to say so is where a client joins one. Who
// has a group's name and only assigns partitions asks the group's coordinator for the
// offsets committed, and may commit some, but never joins: a refusal before that would
// reach its application too, which did nothing wrong.
//
// All requests of groups are answered, since librdkafka uses them together or not at
// all: where one is missing it waits for a coordinator without end.

// noOffset says that no offset was committed: a client begins where its own settings
// say.
const noOffset = -1

// membership refuses what makes and keeps a member of a group: JoinGroup, SyncGroup,
// Heartbeat and LeaveGroup. GROUP_AUTHORIZATION_FAILED is a code that clients report,
// where they try again in silence after others.
func (c *conn) membership(x *exchange) (*response, error) {
	request := kmsg.RequestForKey(x.key)
	if err := c.decodeBody(x, request); err != nil {
		return nil, err
	}
	const refused = int16(codeGroupAuthorizationFailed)
	response := request.ResponseKind()
	switch out := response.(type) {
	case *kmsg.JoinGroupResponse:
		out.ErrorCode = refused
	case *kmsg.SyncGroupResponse:
		out.ErrorCode = refused
	case *kmsg.HeartbeatResponse:
		out.ErrorCode = refused
	case *kmsg.LeaveGroupResponse:
		out.ErrorCode = refused
	default:
		panic("kafka: " + kmsg.NameForKey(x.key) + " has nothing to do with the members of a group")
	}
	return c.reply(x, response), nil
}

// offsetCommit keeps nothing, and says so for each partition.
func (c *conn) offsetCommit(x *exchange) (*response, error) {
	request := kmsg.NewOffsetCommitRequest()
	if err := c.decodeBody(x, &request); err != nil {
		return nil, err
	}
	out := kmsg.NewOffsetCommitResponse()
	out.Topics = make([]kmsg.OffsetCommitResponseTopic, len(request.Topics))
	for i, t := range request.Topics {
		topic := &out.Topics[i]
		topic.Topic = t.Topic
		topic.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(t.Partitions))
		for k, p := range t.Partitions {
			topic.Partitions[k].Partition = p.Partition
			topic.Partitions[k].ErrorCode = int16(codeGroupAuthorizationFailed)
		}
	}
	return c.reply(x, &out), nil
}

// offsetFetch answers that no offset was committed, for any partition that the client
// could read if it were there: no stream is looked at. The offsets of all topics, which
// a request may ask for, are none.
func (c *conn) offsetFetch(x *exchange) (*response, error) {
	request := kmsg.NewOffsetFetchRequest()
	if err := c.decodeBody(x, &request); err != nil {
		return nil, err
	}
	none := kmsg.NewOffsetFetchResponseTopicPartition()
	none.Offset, none.Metadata = noOffset, kmsg.StringPtr("")
	out := kmsg.NewOffsetFetchResponse()
	out.Topics = make([]kmsg.OffsetFetchResponseTopic, len(request.Topics))
	for i, t := range request.Topics {
		topic := &out.Topics[i]
		topic.Topic = t.Topic
		topic.Partitions = make([]kmsg.OffsetFetchResponseTopicPartition, len(t.Partitions))
		none.ErrorCode = int16(c.s.codeOf(c.mayRead(t.Topic)))
		for k, p := range t.Partitions {
			none.Partition = p
			topic.Partitions[k] = none
		}
	}
	return c.reply(x, &out), nil
}

// mayRead refuses a topic that the client may not read, whether it is there or not.
func (c *conn) mayRead(topic string) error {
	name, err := c.s.streamName(topic)
	if err != nil {
		return err
	}
	return c.allow(name, auth.Read)
}
