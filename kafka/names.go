package kafka

import (
	"strings"

	"felix.local/felix/auth"
	"felix.local/felix/broker"
)

// streamName is the stream that a topic names: tenant.namespace.stream, or stream
// alone in the default tenant and namespace.
func (s *Server) streamName(topic string) (broker.StreamName, error) {
	parts := strings.SplitN(topic, ".", 4)
	var name broker.StreamName
	switch len(parts) {
	case 1:
		name = broker.StreamName{Tenant: s.cfg.DefaultTenant, Namespace: s.cfg.DefaultNamespace, Stream: topic}
	case 3:
		name = broker.StreamName{Tenant: parts[0], Namespace: parts[1], Stream: parts[2]}
	default:
		return name, refuse(codeInvalidTopic, "a topic is named tenant.namespace.stream, or stream alone for the default tenant and namespace")
	}
	if err := name.Validate(); err != nil {
		return name, &failure{code: codeInvalidTopic, text: err.Error(), err: err}
	}
	return name, nil
}

// stream finds a topic's stream for a client that may do this with it.
func (c *conn) stream(topic string, action auth.Action) (*broker.Stream, error) {
	name, err := c.s.streamName(topic)
	if err != nil {
		return nil, err
	}
	if err := c.allow(name, action); err != nil {
		return nil, err
	}
	return c.s.cfg.Broker.Stream(name)
}

// allow refuses what the client's grants do not cover.
func (c *conn) allow(name broker.StreamName, action auth.Action) error {
	if c.sasl.principal.Allows(action, name.Tenant) {
		return nil
	}
	return refuse(codeTopicAuthorizationFailed,
		c.sasl.principal.Name()+" may not "+action.String()+" topics of tenant "+name.Tenant)
}

// maySee says whether a client may know of a tenant's topics: when it may do
// anything with them.
func (c *conn) maySee(tenant string) bool {
	p := c.sasl.principal
	return p.Allows(auth.Read, tenant) || p.Allows(auth.Write, tenant) || p.Allows(auth.Admin, tenant)
}

// visible finds a topic's stream for a client that may know of it.
func (c *conn) visible(topic string) (*broker.Stream, error) {
	name, err := c.s.streamName(topic)
	if err != nil {
		return nil, err
	}
	if !c.maySee(name.Tenant) {
		return nil, refuse(codeTopicAuthorizationFailed, c.sasl.principal.Name()+" may not see topics of tenant "+name.Tenant)
	}
	return c.s.cfg.Broker.Stream(name)
}
