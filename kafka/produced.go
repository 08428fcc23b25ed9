package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"
)

// producedBatch says which batch of an idempotent producer a record batch is.
type producedBatch struct {
	// producer is its id here, producerNumber of what the client knows.
	producer uint64
	// sequence is the number of records before it, modulo 2^31.
	sequence uint32
	// records is how many of the part's messages it has.
	records int
}

// What identifies a producer in its batches: an id of 47 bits, never 0, and an epoch.
const (
	producerIDMax      = int64(1)<<47 - 1
	producerEpochMax   = 1<<15 - 1
	producerEpochWidth = 16
)

// producerNumber is what a stream knows a producer by. Each epoch of an id is a
// producer of its own, which begins at sequence 0: an epoch is raised by clients that
// want to do just that. Ids below 2^16 are left to those who choose theirs.
func producerNumber(id int64, epoch int16) uint64 {
	return uint64(id)<<producerEpochWidth | uint64(epoch)
}

// isProducerID says whether an id is one that this server may have given.
func isProducerID(id int64) bool { return id > 0 && id <= producerIDMax }

// identify reads which batch of a producer a record batch of this many records is; ok
// is false for a producer that numbers nothing.
func identify(batch []byte, records int) (b producedBatch, ok bool, err error) {
	id := int64(binary.BigEndian.Uint64(batch[batchProducerAt:]))
	epoch := int16(binary.BigEndian.Uint16(batch[batchProducerEpoch:]))
	sequence := int32(binary.BigEndian.Uint32(batch[batchSequenceAt:]))
	switch {
	case id < 0:
		return b, false, nil
	case !isProducerID(id):
		return b, false, refuse(codeUnknownProducerID, fmt.Sprintf("producer id %d is none that InitProducerId gives", id))
	case epoch < 0 || sequence < 0:
		return b, false, refuse(codeInvalidRecord,
			fmt.Sprintf("a batch of producer %d has the epoch %d and the sequence %d; neither may be negative", id, epoch, sequence))
	}
	return producedBatch{producer: producerNumber(id, epoch), sequence: uint32(sequence), records: records}, true, nil
}

// beginProduced gives the batches of an idempotent producer their places, one after the
// other, and ends the part for its lane: what comes behind it does not wait until they
// are acknowledged. The first that gets none ends it: those before it are stored, and
// known when the client sends all of them again.
func (c *conn) beginProduced(p *producePart) {
	p.deadline = time.Now().Add(p.timeout)
	ctx, cancel := context.WithDeadline(c.s.publishing, p.deadline)
	defer cancel()
	p.begun = make([]producedPublish, 0, len(p.batches))
	rest := p.messages
	for _, b := range p.batches {
		messages := rest[:b.records:b.records]
		rest = rest[b.records:]
		begun := c.s.remembered.begin(ctx, p.stream, p.index, b, messages)
		p.begun = append(p.begun, begun)
		if begun.err != nil {
			break
		}
	}
	p.end(nil)
}

// finishProduced waits until the batches that have their places are acknowledged, and
// takes the first failure.
func (c *conn) finishProduced(p *producePart) {
	ctx, cancel := context.WithDeadline(c.s.publishing, p.deadline)
	defer cancel()
	for i := range p.begun {
		got, err := p.begun[i].finish(ctx)
		switch {
		case p.err != nil: // what is behind a failure is not answered
		case err != nil:
			p.err = err
		case i == 0:
			p.first = got.First
		}
	}
}
