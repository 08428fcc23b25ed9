package kafka

import (
	"crypto/rand"
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// initProducerID gives an idempotent producer its id and epoch. Ids are random, so that
// no two producers have the same, before and after a restart, and nothing has to be
// kept. A producer that comes with its own gets the next epoch, and a new id behind the
// last one.
func (c *conn) initProducerID(x *exchange) (*response, error) {
	request := kmsg.NewInitProducerIDRequest()
	if err := c.decodeBody(x, &request); err != nil {
		return nil, err
	}
	out := kmsg.NewInitProducerIDResponse()
	if request.TransactionalID != nil || (request.ProducerID < 0) != (request.ProducerEpoch < 0) {
		out.ErrorCode = int16(codeInvalidRequest)
		out.ProducerID, out.ProducerEpoch = -1, -1
		return c.reply(x, &out), nil
	}
	out.ProducerID, out.ProducerEpoch = nextProducer(request.ProducerID, request.ProducerEpoch)
	return c.reply(x, &out), nil
}

// nextProducer gives a producer that has this id and epoch the ones it goes on with.
func nextProducer(id int64, epoch int16) (nextID int64, nextEpoch int16) {
	if isProducerID(id) && epoch < producerEpochMax {
		return id, epoch + 1
	}
	return newProducerID(), 0
}

// newProducerID is a random number of 47 bits, but 0.
func newProducerID() int64 {
	for {
		var b [8]byte
		rand.Read(b[:]) // which never fails
		if id := int64(binary.BigEndian.Uint64(b[:])) & producerIDMax; id != 0 {
			return id
		}
	}
}
