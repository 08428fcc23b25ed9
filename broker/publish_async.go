package broker

import (
	"context"

	"felix.local/felix/engine"
)

// Pending is a publish that has its place in the order of its shard and is not
// acknowledged yet.
type Pending struct {
	shard *shard
	log   engine.Pending
	bytes int64
}

// PublishProducedAsync is PublishProduced that returns once the batch has its place,
// so that a producer has several under way and they share flushes: batches that are
// given to it one after the other are stored in that order, and their Pendings complete in
// it. Messages are copied before it returns. Each Pending is to be waited for once.
//
// Subscriptions that hold publishers back are looked at when a batch gets its place,
// so that what is under way then comes on top of what they have not taken.
//
// Of the errors of PublishProduced it returns those that are known at once; then the
// batch has no place. All others are the Pending's, and with the first that fails all
// behind it do.
func (s *Stream) PublishProducedAsync(ctx context.Context, to ShardChoice, batch engine.ProducerBatch, messages ...Message) (Pending, error) {
	p := Pending{bytes: messageBytes(messages)}
	var err error
	if p.shard, err = s.gate(ctx, to, &batch, messages); err == nil {
		p.log, err = p.shard.appendAsync(ctx, batch, messages)
	}
	if err != nil {
		_, err = s.broker.counters.published(Published{}, err, 0)
		return Pending{}, err
	}
	return p, nil
}

// appendAsync hands the messages to the log, which copies them before it returns.
func (h *shard) appendAsync(ctx context.Context, batch engine.ProducerBatch, messages []Message) (engine.Pending, error) {
	sc, err := h.encode(messages)
	if err != nil {
		return engine.Pending{}, err
	}
	p, err := h.log.AppendProducedAsync(ctx, batch, sc.records...)
	h.broker.giveBack(sc)
	if err != nil {
		return engine.Pending{}, h.appendError(err)
	}
	return p, nil
}

// Place is what Wait gives if the publish succeeds; ok is false when it cannot. Until
// then the offsets may still go to other records.
func (p Pending) Place() (at Published, ok bool) {
	if p.log.Refused() {
		return Published{}, false
	}
	return p.shard.published(engine.ProducedResult{AppendResult: p.log.Offsets(), Duplicate: p.log.Duplicate()}), true
}

// Wait returns the outcome. When ctx ends first the error is an
// *engine.UnknownOutcomeError, and the publish goes on.
func (p Pending) Wait(ctx context.Context) (Published, error) {
	result, err := p.log.Wait(ctx)
	if err != nil {
		err = p.shard.appendError(err)
	}
	return p.shard.broker.counters.published(
		p.shard.published(engine.ProducedResult{AppendResult: result, Duplicate: p.log.Duplicate()}), err, p.bytes)
}
