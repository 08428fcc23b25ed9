package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"felix.local/felix/auth"
	"felix.local/felix/broker"
)

// serversChoice leaves the number of partitions, or of their copies, to the server.
const serversChoice = -1

func (c *conn) createTopics(x *exchange) (*response, error) {
	request := kmsg.NewCreateTopicsRequest()
	if err := c.decodeBody(x, &request); err != nil {
		return nil, err
	}
	ctx, cancel := c.adminContext(request.TimeoutMillis)
	defer cancel()
	asked := make(map[string]int)
	for _, t := range request.Topics {
		asked[t.Topic]++
	}
	out := kmsg.NewCreateTopicsResponse()
	for i := range request.Topics {
		t := &request.Topics[i]
		topic := kmsg.NewCreateTopicsResponseTopic()
		topic.Topic = t.Topic
		var cfg broker.StreamConfig
		var err error
		if asked[t.Topic] > 1 {
			err = refuse(codeInvalidRequest, "the request names the topic more than once")
		} else {
			cfg, err = c.createTopic(ctx, t, request.ValidateOnly)
		}
		topic.ErrorCode = int16(c.s.codeOf(err))
		topic.ErrorMessage = messageOf(err)
		if err == nil {
			topic.NumPartitions, topic.ReplicationFactor = int32(cfg.Shards), 1
			topic.Configs = createdConfigs(cfg)
		}
		out.Topics = append(out.Topics, topic)
	}
	return c.reply(x, &out), nil
}

func (c *conn) createTopic(ctx context.Context, t *kmsg.CreateTopicsRequestTopic, validateOnly bool) (broker.StreamConfig, error) {
	cfg := broker.StreamConfig{Format: broker.FormatKafka, Durable: c.s.cfg.Broker.Store() != nil}
	name, err := c.s.streamName(t.Topic)
	if err != nil {
		return cfg, err
	}
	if err := c.allow(name, auth.Admin); err != nil {
		return cfg, err
	}
	if cfg.Shards, err = c.partitionCount(t); err != nil {
		return cfg, err
	}
	for _, option := range t.Configs {
		if err := setConfig(&cfg, option.Name, option.Value); err != nil {
			return cfg, err
		}
	}
	if cfg.Durable && c.s.cfg.Broker.Store() == nil {
		return cfg, &broker.NoStorageError{Stream: name}
	}
	if !cfg.Durable && (cfg.Fsync != nil || cfg.RetentionBytes != nil || cfg.RetentionAge != nil) {
		return cfg, refuse(codeInvalidConfig, "an in-memory stream has neither felix.fsync nor retention")
	}
	if validateOnly {
		_, err := c.s.cfg.Broker.Stream(name)
		if err == nil {
			return cfg, refuse(codeTopicAlreadyExists, "stream "+name.String()+" exists")
		}
		if is[*broker.NotFoundError](err) {
			err = nil
		}
		return cfg, err
	}
	stream, err := c.s.create(ctx, name, cfg)
	if err != nil {
		return cfg, partitionsError(err)
	}
	return stream.Config(), nil
}

// partitionCount reads how many partitions a topic is to have: a number, or a list
// of where each goes, which can only be here.
func (c *conn) partitionCount(t *kmsg.CreateTopicsRequestTopic) (int, error) {
	if len(t.ReplicaAssignment) == 0 {
		if t.ReplicationFactor != 1 && t.ReplicationFactor != serversChoice {
			return 0, refuse(codeInvalidReplicationFactor,
				fmt.Sprintf("the replication factor is %d; there is one server, so that 1 and -1 are allowed", t.ReplicationFactor))
		}
		if t.NumPartitions == serversChoice {
			return 1, nil
		}
		if t.NumPartitions < 1 {
			return 0, refuse(codeInvalidPartitions, fmt.Sprintf("%d partitions; at least 1 is needed", t.NumPartitions))
		}
		return int(t.NumPartitions), nil
	}
	if t.NumPartitions != serversChoice || t.ReplicationFactor != serversChoice {
		return 0, refuse(codeInvalidRequest, "with an assignment, partitions and replication factor are -1")
	}
	seen := make(map[int32]bool)
	for _, a := range t.ReplicaAssignment {
		if seen[a.Partition] || a.Partition < 0 || int(a.Partition) >= len(t.ReplicaAssignment) || !c.isHere(a.Replicas) {
			return 0, refuse(codeInvalidReplicaAssignment,
				fmt.Sprintf("an assignment names partitions 0 to n-1 once, each on node %d alone", c.s.cfg.NodeID))
		}
		seen[a.Partition] = true
	}
	return len(t.ReplicaAssignment), nil
}

func (c *conn) isHere(replicas []int32) bool {
	return len(replicas) == 1 && replicas[0] == c.s.cfg.NodeID
}

func (c *conn) deleteTopics(x *exchange) (*response, error) {
	request := kmsg.NewDeleteTopicsRequest()
	if err := c.decodeBody(x, &request); err != nil {
		return nil, err
	}
	ctx, cancel := c.adminContext(request.TimeoutMillis)
	defer cancel()
	out := kmsg.NewDeleteTopicsResponse()
	for _, name := range request.TopicNames {
		topic := kmsg.NewDeleteTopicsResponseTopic()
		topic.Topic = &name
		err := c.deleteTopic(ctx, name)
		topic.ErrorCode = int16(c.s.codeOf(err))
		topic.ErrorMessage = messageOf(err)
		out.Topics = append(out.Topics, topic)
	}
	return c.reply(x, &out), nil
}

func (c *conn) deleteTopic(ctx context.Context, topic string) error {
	name, err := c.s.streamName(topic)
	if err != nil {
		return err
	}
	if err := c.allow(name, auth.Admin); err != nil {
		return err
	}
	return c.s.cfg.Broker.DeleteStream(ctx, name)
}

func (c *conn) createPartitions(x *exchange) (*response, error) {
	request := kmsg.NewCreatePartitionsRequest()
	if err := c.decodeBody(x, &request); err != nil {
		return nil, err
	}
	ctx, cancel := c.adminContext(request.TimeoutMillis)
	defer cancel()
	out := kmsg.NewCreatePartitionsResponse()
	for i := range request.Topics {
		t := &request.Topics[i]
		topic := kmsg.NewCreatePartitionsResponseTopic()
		topic.Topic = t.Topic
		err := c.growTopic(ctx, t, request.ValidateOnly)
		topic.ErrorCode = int16(c.s.codeOf(err))
		topic.ErrorMessage = messageOf(err)
		out.Topics = append(out.Topics, topic)
	}
	return c.reply(x, &out), nil
}

func (c *conn) growTopic(ctx context.Context, t *kmsg.CreatePartitionsRequestTopic, validateOnly bool) error {
	stream, err := c.stream(t.Topic, auth.Admin)
	if err != nil {
		return err
	}
	has := stream.Shards()
	if int(t.Count) <= has {
		return refuse(codeInvalidPartitions, fmt.Sprintf("topic %s has %d partitions; they can only become more", t.Topic, has))
	}
	if len(t.Assignment) > 0 && len(t.Assignment) != int(t.Count)-has {
		return refuse(codeInvalidReplicaAssignment, "an assignment names each new partition")
	}
	for _, a := range t.Assignment {
		if !c.isHere(a.Replicas) {
			return refuse(codeInvalidReplicaAssignment, fmt.Sprintf("partitions can only be on node %d", c.s.cfg.NodeID))
		}
	}
	if validateOnly {
		return nil
	}
	return partitionsError(stream.Grow(ctx, int(t.Count)))
}

// partitionsError says of a size that it is the number of partitions: nothing else
// of a definition has one.
func partitionsError(err error) error {
	if is[*broker.TooLargeError](err) {
		return &failure{code: codeInvalidPartitions, text: err.Error(), err: err}
	}
	return err
}
