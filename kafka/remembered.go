package kafka

import (
	"container/list"
	"context"
	"slices"
	"sync"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

// rememberedBatches is how many batches are remembered of a producer: clients have at
// most as many on the way at a time.
const rememberedBatches = 5

// The sequences of batches, which wrap around; those up to half of them back are older
// ones.
const (
	sequences      = uint32(1) << 31
	olderSequences = sequences / 2
)

// remembered is what this process knows of the last batches of idempotent producers.
//
// For in-memory streams it is all there is. The log of a durable stream decides by
// itself what is stored; of batches before the newest one it knows that, and most often
// no longer where. That is found here, as long as the server runs.
type remembered struct {
	max int
	mu  struct {
		sync.Mutex
		entries map[rememberedKey]*list.Element // of *rememberedProducer
		// recent has the one that was used last in front.
		recent list.List
	}
}

type rememberedKey struct {
	// stream is the incarnation, not its name: a stream that was made anew knows
	// nothing of the one before.
	stream   *broker.Stream
	shard    int32
	producer uint64
}

// rememberedProducer is one producer of one shard. Who holds turn may use the batches,
// and keeps it while a batch is published to an in-memory stream. Those of a durable
// stream are remembered from when they have their place until they fail: a retry that
// asks for one of them is answered once it is acknowledged.
type rememberedProducer struct {
	key  rememberedKey
	turn chan struct{}
	// using counts those who wait for its turn or have it, guarded by remembered.mu.
	using   int
	batches []*rememberedBatch
	// failed: its first batch was tried and failed, so that those behind it are early,
	// and not of a producer that nobody knows. Clients take the latter for a loss.
	failed bool
}

type rememberedBatch struct {
	producedBatch
	first uint64
}

func (b *rememberedBatch) published(shard int32) broker.Published {
	return broker.Published{Shard: int(shard), First: b.first, Last: b.first + uint64(b.records) - 1, Duplicate: true}
}

func newRemembered(most int) *remembered {
	r := &remembered{max: most}
	r.mu.entries = make(map[rememberedKey]*list.Element)
	return r
}

// producedPublish is a batch of an idempotent producer that is being published.
type producedPublish struct {
	remembered *remembered
	producer   *rememberedProducer
	batch      producedBatch
	// err is what was known at once, and placed what has a place in a durable stream.
	err    error
	placed broker.Pending
	// kept is what is remembered of the batch for its place.
	kept *rememberedBatch
	// got is what an in-memory stream answered.
	got broker.Published
}

// begin gives a batch its place, unless err of what it returns says why it has none. To
// finish it says what came of it, and has to be called, in the order in which batches
// were begun. The two are PublishProducedAsync of a broker.Stream, for in-memory
// streams too, which have published it when begin returns.
func (r *remembered) begin(ctx context.Context, s *broker.Stream, shard int32, b producedBatch, messages []broker.Message) producedPublish {
	p := producedPublish{remembered: r, producer: r.use(rememberedKey{s, shard, b.producer}), batch: b}
	if !s.Config().Durable {
		p.got, p.err = p.producer.publishMemory(ctx, s, b, messages)
		return p
	}
	batch := engine.ProducerBatch{Producer: b.producer, Sequence: uint64(b.sequence), Numbering: engine.ByRecord}
	if p.placed, p.err = s.PublishProducedAsync(ctx, broker.Explicit(int(shard)), batch, messages...); p.err == nil {
		if at, ok := p.placed.Place(); ok {
			p.kept = p.producer.place(b, at)
		}
	}
	return p
}

// finish gives what begin began came to.
func (p *producedPublish) finish(ctx context.Context) (broker.Published, error) {
	defer p.remembered.leave(p.producer)
	if !p.producer.key.stream.Config().Durable {
		return p.got, p.err
	}
	got, err := broker.Published{}, p.err
	if err == nil {
		got, err = p.placed.Wait(ctx)
	}
	return p.producer.settle(p.batch, p.kept, got, err)
}

// place remembers a batch that has its place. What was remembered of it before, if it is
// written anew, is of a try that failed. nil says that it is remembered already.
func (p *rememberedProducer) place(b producedBatch, at broker.Published) *rememberedBatch {
	p.turn <- struct{}{} // nobody has it for long
	defer func() { <-p.turn }()
	known := p.find(b)
	if known != nil && at.Duplicate {
		return nil
	}
	p.forget(known)
	kept := &rememberedBatch{b, at.First}
	p.add(kept)
	return kept
}

// settle takes what came of a batch, and gives the answer to it. One that was given up
// may be stored yet.
func (p *rememberedProducer) settle(b producedBatch, kept *rememberedBatch, got broker.Published, err error) (broker.Published, error) {
	p.turn <- struct{}{} // nobody has it for long
	defer func() { <-p.turn }()
	if err == nil {
		p.failed = false
		return got, nil
	}
	if !is[*engine.UnknownOutcomeError](err) {
		p.forget(kept)
	}
	switch known := p.find(b); {
	case refuses(engine.SequenceExpired)(err) && known != nil:
		return known.published(p.key.shard), nil
	case refuses(engine.SequenceUnknown)(err) && p.failed:
		return got, p.refusal(b, engine.SequenceGap)
	default:
		p.fail(b, err)
		return got, err
	}
}

func (p *rememberedProducer) publishMemory(ctx context.Context, s *broker.Stream, b producedBatch, messages []broker.Message) (broker.Published, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return broker.Published{}, ctx.Err()
	}
	known, refused := p.look(b)
	if refused != 0 {
		return broker.Published{}, p.refusal(b, refused)
	}
	if known != nil {
		return known.published(p.key.shard), nil
	}
	got, err := s.Publish(ctx, broker.Explicit(int(p.key.shard)), messages...)
	if err == nil {
		p.add(&rememberedBatch{b, got.First})
		p.failed = false
	} else {
		p.fail(b, err)
	}
	return got, err
}

// use gives a producer, and keeps it from being forgotten until leave.
func (r *remembered) use(key rememberedKey) *rememberedProducer {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.mu.entries[key]
	if at == nil {
		at = r.mu.recent.PushFront(&rememberedProducer{key: key, turn: make(chan struct{}, 1)})
		r.mu.entries[key] = at
	}
	r.mu.recent.MoveToFront(at)
	p := at.Value.(*rememberedProducer)
	p.using++
	return p
}

// leave ends a use. Of those that nobody uses, the ones that were used longest ago are
// forgotten when there are too many, and one of which nothing is stored at once.
func (r *remembered) leave(p *rememberedProducer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.using--
	if p.using == 0 && len(p.batches) == 0 && !p.failed {
		r.forgetLocked(r.mu.entries[p.key])
	}
	for at := r.mu.recent.Back(); at != nil && r.mu.recent.Len() > r.max; {
		older := at.Prev()
		if at.Value.(*rememberedProducer).using == 0 {
			r.forgetLocked(at)
		}
		at = older
	}
}

func (r *remembered) forgetLocked(at *list.Element) {
	delete(r.mu.entries, at.Value.(*rememberedProducer).key)
	r.mu.recent.Remove(at)
}

// look says what a batch is: one that is known, one that is refused, or the next.
func (p *rememberedProducer) look(b producedBatch) (known *rememberedBatch, refused engine.SequenceReason) {
	if len(p.batches) == 0 {
		switch {
		case b.sequence == 0:
			return nil, 0
		case p.failed:
			return nil, engine.SequenceGap
		default:
			return nil, engine.SequenceUnknown
		}
	}
	if known := p.find(b); known != nil {
		return known, 0
	}
	switch last := p.batches[len(p.batches)-1].sequence; {
	case b.sequence == p.next():
		return nil, 0
	case b.sequence == last:
		return nil, engine.SequenceReused
	case (last-b.sequence)%sequences < olderSequences:
		return nil, engine.SequenceExpired
	default:
		return nil, engine.SequenceGap
	}
}

// find gives a batch with this sequence and as many records, nil if none is remembered.
func (p *rememberedProducer) find(b producedBatch) *rememberedBatch {
	for _, known := range p.batches {
		if known.producedBatch == b {
			return known
		}
	}
	return nil
}

// forget removes a batch, if it is still remembered.
func (p *rememberedProducer) forget(b *rememberedBatch) {
	p.batches = slices.DeleteFunc(p.batches, func(known *rememberedBatch) bool { return known == b })
}

// next is the sequence behind all batches, 0 without any.
func (p *rememberedProducer) next() uint32 {
	if len(p.batches) == 0 {
		return 0
	}
	last := p.batches[len(p.batches)-1]
	return (last.sequence + uint32(last.records)) % sequences
}

func (p *rememberedProducer) add(b *rememberedBatch) {
	if len(p.batches) == rememberedBatches {
		p.batches = slices.Delete(p.batches, 0, 1)
	}
	p.batches = append(p.batches, b)
}

// fail notes that a batch was not stored, as far as is known.
func (p *rememberedProducer) fail(b producedBatch, err error) {
	if b.sequence == 0 && !is[*engine.SequenceError](err) {
		p.failed = true
	}
}

func (p *rememberedProducer) refusal(b producedBatch, reason engine.SequenceReason) error {
	return &engine.SequenceError{
		Label: p.key.stream.Name().String(), Reason: reason, Producer: b.producer,
		Sequence: uint64(b.sequence), Expected: uint64(p.next()),
	}
}
