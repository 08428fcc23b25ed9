package httpapi

import (
	"fmt"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

// produced reads which batch of an idempotent producer a publish is; nil for one that
// numbers nothing. Sequences are counted per shard, and a retry has to go where the first
// try went, so that the shard is named or the only one.
func (p *publication) produced(q query, stream *broker.Stream) error {
	if !q.has("producer_id") && !q.has("sequence") {
		return nil
	}
	for _, pair := range [][2]string{{"producer_id", "sequence"}, {"sequence", "producer_id"}} {
		if !q.has(pair[1]) {
			return badParameter(pair[1], fmt.Sprintf("%s is there without %s", pair[0], pair[1]), "send both, or none")
		}
	}
	batch := engine.ProducerBatch{Numbering: engine.ByBatch}
	var err error
	if batch.Producer, err = q.uint64("producer_id"); err != nil {
		return err
	}
	if batch.Sequence, err = q.uint64("sequence"); err != nil {
		return err
	}
	if !q.has("shard") {
		if n := stream.Shards(); n > 1 {
			return badParameter("shard", fmt.Sprintf("sequences are counted per shard, and the stream has %d", n), "name the shard")
		}
		p.shard = broker.Explicit(0)
	}
	p.batch = &batch
	return nil
}

// fillSequence says which of the reasons it is that refuses a batch.
func fillSequence(e *engine.SequenceError, p *problem) {
	p.code = e.Reason.String()
	p.set("producer_id", e.Producer)
	p.set("sequence", e.Sequence)
	switch e.Reason {
	case engine.SequenceGap:
		p.set("expected", e.Expected)
		p.action = "send the batch with the sequence expected first"
	case engine.SequenceUnknown:
		p.action = "begin at sequence 0 with a new producer id; what it wrote before may be gone"
	case engine.SequenceExpired:
		p.set("expected", e.Expected)
		p.action = "take the batch as stored: all up to the producer's newest batch is acknowledged; go on with expected"
	}
}
