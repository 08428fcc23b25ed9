package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// noTransactions is what a client that asks for a coordinator of transactions is told,
// where the protocol has room for it.
const noTransactions = "this server has no transactions: leave transactional.id out; enable.idempotence works"

// coordinatorOfGroup is the type of the coordinator that a group asks for; version 0
// knows no other.
const coordinatorOfGroup = 0

// findCoordinator names this server for a group, though there are none (groups.go says
// why), and refuses transactions with the code that clients give up on. It is answered
// since librdkafka, of a server that does not list it, waits without end for one that
// does.
func (c *conn) findCoordinator(x *exchange) (*response, error) {
	request := kmsg.NewFindCoordinatorRequest()
	if err := c.decodeBody(x, &request); err != nil {
		return nil, err
	}
	out := kmsg.NewFindCoordinatorResponse()
	if request.CoordinatorType == coordinatorOfGroup {
		out.NodeID = c.s.cfg.NodeID
		out.Host, out.Port = c.advertised()
		return c.reply(x, &out), nil
	}
	out.ErrorCode, out.ErrorMessage = int16(codeTransactionalIDAuthorizationFailed), kmsg.StringPtr(noTransactions)
	out.NodeID, out.Port = -1, -1
	return c.reply(x, &out), nil
}
