package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"felix.local/felix/auth"
	"felix.local/felix/broker"
)

// metadataAutoCreate is the first version whose request says whether topics may be
// created; before, asking was leave enough.
const metadataAutoCreate = 4

func (c *conn) metadata(x *exchange) (*response, error) {
	request := kmsg.NewMetadataRequest()
	if err := c.decodeBody(x, &request); err != nil {
		return nil, err
	}
	out := kmsg.NewMetadataResponse()
	host, port := c.advertised()
	node := kmsg.NewMetadataResponseBroker()
	node.NodeID, node.Host, node.Port = c.s.cfg.NodeID, host, port
	out.Brokers = append(out.Brokers, node)
	out.ControllerID = c.s.cfg.NodeID
	out.ClusterID = kmsg.StringPtr(c.s.cfg.ClusterID)
	create := c.s.cfg.AutoCreate && (request.AllowAutoTopicCreation || x.version < metadataAutoCreate)
	if request.Topics == nil || x.version == 0 && len(request.Topics) == 0 {
		for _, info := range c.s.cfg.Broker.Streams() {
			if c.maySee(info.Name.Tenant) {
				stream, err := (*broker.Stream)(nil), info.Err
				if err == nil {
					stream, err = c.s.cfg.Broker.Stream(info.Name)
				}
				if !is[*broker.NotFoundError](err) { // deleted since
					out.Topics = append(out.Topics, c.topicMetadata(info.Name.Dotted(), stream, err))
				}
			}
		}
	}
	said := make(map[string]bool) // each once: a short name has a long answer
	for _, asked := range request.Topics {
		name := ""
		if asked.Topic != nil {
			name = *asked.Topic
		}
		if said[name] {
			continue
		}
		said[name] = true
		stream, err := c.visible(name)
		if create && is[*broker.NotFoundError](err) {
			stream, err = c.autoCreate(name)
		}
		out.Topics = append(out.Topics, c.topicMetadata(name, stream, err))
	}
	return c.reply(x, &out), nil
}

// topicMetadata describes a topic under the name the client knows it by, or says why
// its stream is not there.
func (c *conn) topicMetadata(name string, stream *broker.Stream, err error) kmsg.MetadataResponseTopic {
	topic := kmsg.NewMetadataResponseTopic()
	topic.Topic = &name
	topic.ErrorCode = int16(c.s.codeOf(err))
	if err != nil {
		return topic
	}
	node := []int32{c.s.cfg.NodeID}
	topic.Partitions = make([]kmsg.MetadataResponseTopicPartition, stream.Shards())
	for i := range topic.Partitions {
		p := &topic.Partitions[i]
		p.Default()
		known, err := epochsOf(stream, i)
		p.ErrorCode = int16(c.s.codeOf(err))
		p.Partition, p.Leader, p.LeaderEpoch = int32(i), c.s.cfg.NodeID, known.newest()
		p.Replicas, p.ISR = node, node
	}
	return topic
}

// autoCreate makes the stream of a topic that a client asked about: with one shard,
// format kafka, and durable where there is storage.
func (c *conn) autoCreate(topic string) (*broker.Stream, error) {
	name, err := c.s.streamName(topic)
	if err != nil {
		return nil, err
	}
	if err := c.allow(name, auth.Admin); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.s.publishing, c.s.cfg.PublishTimeoutMax)
	defer cancel()
	stream, err := c.s.create(ctx, name, broker.StreamConfig{
		Durable: c.s.cfg.Broker.Store() != nil, Shards: 1, Format: broker.FormatKafka,
	})
	if exists := (*failure)(nil); errors.As(err, &exists) && exists.code == codeTopicAlreadyExists {
		return c.s.cfg.Broker.Stream(name)
	}
	return stream, err
}

// create registers a stream that is not there yet.
func (s *Server) create(ctx context.Context, name broker.StreamName, cfg broker.StreamConfig) (*broker.Stream, error) {
	s.creating.Lock()
	defer s.creating.Unlock()
	if _, err := s.cfg.Broker.Stream(name); !is[*broker.NotFoundError](err) {
		if err == nil {
			err = refuse(codeTopicAlreadyExists, "stream "+name.String()+" exists")
		}
		return nil, err
	}
	stream, created, err := s.cfg.Broker.CreateStream(ctx, name, cfg)
	if err == nil && !created {
		return nil, refuse(codeTopicAlreadyExists, "stream "+name.String()+" exists")
	}
	return stream, err
}

// advertised is where clients are told to connect to.
func (c *conn) advertised() (host string, port int32) {
	addr := c.s.cfg.AdvertisedAddr
	if addr == "" {
		addr = c.nc.LocalAddr().String()
	}
	host, port, err := splitAddr(addr)
	if err != nil { // a listener without ports, as tests have
		return addr, 0
	}
	return host, port
}

func (c *conn) describeCluster(x *exchange) (*response, error) {
	request := kmsg.NewDescribeClusterRequest()
	if err := c.decodeBody(x, &request); err != nil {
		return nil, err
	}
	out := kmsg.NewDescribeClusterResponse()
	out.ClusterID = c.s.cfg.ClusterID
	out.ControllerID = c.s.cfg.NodeID
	host, port := c.advertised()
	node := kmsg.NewDescribeClusterResponseBroker()
	node.NodeID, node.Host, node.Port = c.s.cfg.NodeID, host, port
	out.Brokers = append(out.Brokers, node)
	return c.reply(x, &out), nil
}
