package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// What a client that asks for a coordinator is told, where the protocol has room for it.
const (
	noGroups       = "this server has no consumer groups: assign partitions instead of subscribing"
	noTransactions = "this server has no transactions: leave transactional.id out; enable.idempotence works"
)

// coordinatorOfGroup is the type of the coordinator that a group asks for; version 0
// knows no other.
const coordinatorOfGroup = 0

// findCoordinator refuses groups and transactions. It is answered since librdkafka, of
// a server that does not list it, waits without end for one that does. The codes are
// those that clients give up on.
func (c *conn) findCoordinator(x *exchange) (*response, error) {
	request := kmsg.NewFindCoordinatorRequest()
	if err := c.decodeBody(x, &request); err != nil {
		return nil, err
	}
	result, text := codeGroupAuthorizationFailed, noGroups
	if request.CoordinatorType != coordinatorOfGroup {
		result, text = codeTransactionalIDAuthorizationFailed, noTransactions
	}
	out := kmsg.NewFindCoordinatorResponse()
	out.ErrorCode, out.ErrorMessage = int16(result), kmsg.StringPtr(text)
	out.NodeID, out.Port = -1, -1
	return c.reply(x, &out), nil
}
