package kafka

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (c *conn) describeConfigs(x *exchange) (*response, error) {
	request := kmsg.NewDescribeConfigsRequest()
	if err := c.decodeBody(x, &request); err != nil {
		return nil, err
	}
	out := kmsg.NewDescribeConfigsResponse()
	type resource struct {
		kind kmsg.ConfigResourceType
		name string
	}
	said := make(map[resource]bool) // each once: a short name has a long answer
	for _, asked := range request.Resources {
		key := resource{asked.ResourceType, asked.ResourceName}
		if said[key] {
			continue
		}
		said[key] = true
		r := kmsg.NewDescribeConfigsResponseResource()
		r.ResourceType, r.ResourceName = asked.ResourceType, asked.ResourceName
		settings, source, err := c.settings(asked.ResourceType, asked.ResourceName)
		r.ErrorCode = int16(c.s.codeOf(err))
		r.ErrorMessage = messageOf(err)
		for _, s := range settings {
			if asked.ConfigNames != nil && !slices.Contains(asked.ConfigNames, s.name) {
				continue
			}
			v := kmsg.NewDescribeConfigsResponseResourceConfig()
			v.Name, v.Value, v.ConfigType = s.name, kmsg.StringPtr(s.value), s.kind
			v.Source, v.ReadOnly = source, true
			r.Configs = append(r.Configs, v)
		}
		out.Resources = append(out.Resources, r)
	}
	return c.reply(x, &out), nil
}

// settings are the configurations of a topic, or of this server.
func (c *conn) settings(kind kmsg.ConfigResourceType, name string) ([]setting, kmsg.ConfigSource, error) {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		stream, err := c.visible(name)
		if err != nil {
			return nil, 0, err
		}
		return topicSettings(stream.Config()), kmsg.ConfigSourceDynamicTopicConfig, nil
	case kmsg.ConfigResourceTypeBroker:
		if name != "" && name != strconv.Itoa(int(c.s.cfg.NodeID)) {
			return nil, 0, refuse(codeInvalidRequest, fmt.Sprintf("the only broker is %d", c.s.cfg.NodeID))
		}
		return c.serverSettings(), kmsg.ConfigSourceStaticBrokerConfig, nil
	default:
		return nil, 0, refuse(codeInvalidRequest, "only topics and the broker have configurations")
	}
}

func (c *conn) serverSettings() []setting {
	cfg := &c.s.cfg
	return []setting{
		{"auto.create.topics.enable", strconv.FormatBool(cfg.AutoCreate), kmsg.ConfigTypeBoolean},
		{"connections.max.idle.ms", strconv.FormatInt(cfg.IdleTimeout.Milliseconds(), 10), kmsg.ConfigTypeLong},
		{"fetch.max.bytes", strconv.Itoa(cfg.FetchBytesMax), kmsg.ConfigTypeInt},
		{"max.incremental.fetch.session.cache.slots", strconv.Itoa(cfg.FetchSessionsMax), kmsg.ConfigTypeInt},
		{"socket.request.max.bytes", strconv.Itoa(cfg.RequestBytesMax), kmsg.ConfigTypeInt},
	}
}
