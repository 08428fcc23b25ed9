package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"felix.local/felix/auth"
	"felix.local/felix/broker"
)

// produceCall is a Produce request under way.
type produceCall struct {
	transactional bool
	acks          int16
	timeout       time.Duration
	topics        []produceTopic
	parts         []producePart
	decoder       decoder
	pending       sync.WaitGroup
}

// produceTopic is a topic's part of a request: parts[first:end].
type produceTopic struct {
	name       []byte
	first, end int
}

// producePart is a partition's part of a request.
type producePart struct {
	index   int32
	records []byte
	// stream and messages are set once it is known where they go.
	stream   *broker.Stream
	messages []broker.Message
	// batches are what the messages are, if an idempotent producer sends them; begun are
	// those that were begun to be published, which are given up at the deadline.
	batches  []producedBatch
	begun    []producedPublish
	deadline time.Time
	bytes    int
	timeout  time.Duration
	done     *sync.WaitGroup
	// first is the offset of the first record, if err is nil.
	first uint64
	err   error
}

// startProduce reads a Produce request, and starts publishing each partition as
// soon as its records are decoded. The call is over when finishProduce returns.
func (c *conn) startProduce(x *exchange, w *wire) (*produceCall, error) {
	p, kept := c.s.calls.Get().(*produceCall)
	if !kept {
		p = new(produceCall)
	}
	if err := p.parse(w, x.version, c.s.cfg.PartitionsMax); err != nil {
		c.recycle(p)
		return nil, err
	}
	p.decoder.recordsMax = c.s.cfg.RecordsMax
	p.decoder.inflate = c.s.inflater
	p.decoder.charge = func(bytes int64) error { return c.chargeRequest(x, bytes) }
	err := p.check()
	for i := range p.topics {
		t := &p.topics[i]
		c.startTopic(p, t, err)
	}
	return p, nil
}

// check refuses what no partition of the request can be given.
func (p *produceCall) check() error {
	switch {
	case p.transactional:
		return refuse(codeInvalidRequest, "transactions are not supported; produce without transactional.id")
	case p.acks < -1 || p.acks > 1:
		return refuse(codeInvalidRequiredAcks, fmt.Sprintf("acks is %d; -1 (all), 0 and 1 are allowed", p.acks))
	default:
		return nil
	}
}

func (c *conn) startTopic(p *produceCall, t *produceTopic, err error) {
	var stream *broker.Stream
	if err == nil {
		stream, err = c.stream(string(t.name), auth.Write)
	}
	for i := t.first; i < t.end; i++ {
		part := &p.parts[i]
		if part.err = err; err != nil {
			continue
		}
		if part.err = p.decode(part, stream); part.err != nil {
			continue
		}
		part.timeout = c.publishTimeout(p.timeout)
		part.done = &p.pending
		p.pending.Add(1)
		c.lanes.add(part)
	}
}

// publishTimeout is how long a publish may take: what the client gives it, within
// bounds.
func (c *conn) publishTimeout(asked time.Duration) time.Duration {
	if most := c.s.cfg.PublishTimeoutMax; asked <= 0 || asked > most {
		return most
	}
	return asked
}

// decode finds the part's records and whether its stream can hold them.
func (p *produceCall) decode(part *producePart, stream *broker.Stream) error {
	if _, err := stream.Shard(int(part.index)); err != nil {
		return err
	}
	first, firstBatch := len(p.decoder.messages), len(p.decoder.batches)
	if err := p.decoder.decode(part.records); err != nil {
		return err
	}
	part.messages = p.decoder.messages[first:len(p.decoder.messages):len(p.decoder.messages)]
	part.batches = p.decoder.batches[firstBatch:len(p.decoder.batches):len(p.decoder.batches)]
	if part.isProduced() && p.acks == 0 {
		return refuse(codeInvalidRequiredAcks, "an idempotent producer needs acks of -1 (all) or 1")
	}
	part.stream = stream
	part.bytes = len(part.records)
	if stream.Config().Format == broker.FormatRaw {
		return checkRaw(stream.Name(), part.messages)
	}
	return nil
}

// checkRaw refuses records that a stream of format raw would lose something of.
func checkRaw(stream broker.StreamName, messages []broker.Message) error {
	for i := range messages {
		m := &messages[i]
		what := ""
		switch {
		case m.Key != nil:
			what = "keys"
		case len(m.Headers) > 0:
			what = "headers"
		case m.Value == nil:
			what = "null values"
		default:
			continue
		}
		cause := &broker.FormatError{Stream: stream, What: what}
		return &failure{code: codeInvalidRecord, text: cause.Error(), err: cause}
	}
	return nil
}

// chargeRequest accounts for memory that a request takes beyond its own bytes. When
// there is none left, one request at a time may go above the bound until it is
// answered: were they to wait for memory while they hold some, all could wait for
// each other.
func (c *conn) chargeRequest(x *exchange, bytes int64) error {
	if !x.frame.overdraft && !c.s.requests.TryTake(bytes) {
		timer := time.NewTimer(c.s.cfg.RequestTimeout)
		defer timer.Stop()
		select {
		case c.s.overdraft <- struct{}{}:
			x.frame.overdraft = true
		case <-timer.C:
			return refuse(codeRequestTimedOut, "the server has no memory for the request now; nothing was stored")
		case <-c.ctx.Done():
			return refuse(codeRequestTimedOut, "the connection ends; nothing was stored")
		}
	}
	if x.frame.overdraft {
		c.s.requests.Add(bytes)
	}
	x.frame.held += bytes
	return nil
}

// isProduced says whether an idempotent producer sends the part.
func (p *producePart) isProduced() bool { return len(p.batches) > 0 }

// publishLane publishes parts of one shard together, or gives one of an idempotent
// producer its place. A refusal of the whole, for what only one of them may hold, has
// stored nothing: then each goes by itself.
func (c *conn) publishLane(parts []*producePart) {
	if parts[0].isProduced() {
		c.beginProduced(parts[0])
		return
	}
	if len(parts) > 1 {
		err := c.publishTogether(parts)
		if err == nil || !refusesContent(err) {
			for _, p := range parts {
				p.end(err)
			}
			return
		}
	}
	for _, p := range parts {
		ctx, cancel := context.WithTimeout(c.s.publishing, p.timeout)
		got, err := p.stream.Publish(ctx, broker.Explicit(int(p.index)), p.messages...)
		cancel()
		p.first = got.First
		p.end(err)
	}
}

func (c *conn) publishTogether(parts []*producePart) error {
	var timeout time.Duration
	count := 0
	for _, p := range parts {
		timeout = max(timeout, p.timeout)
		count += len(p.messages)
	}
	all := make([]broker.Message, 0, count)
	for _, p := range parts {
		all = append(all, p.messages...)
	}
	ctx, cancel := context.WithTimeout(c.s.publishing, timeout)
	defer cancel()
	got, err := parts[0].stream.Publish(ctx, broker.Explicit(int(parts[0].index)), all...)
	for _, p := range parts {
		p.first = got.First
		got.First += uint64(len(p.messages))
	}
	return err
}

// refusesContent says that an error is about the records, which stored none.
func refusesContent(err error) bool {
	return is[*broker.TooLargeError](err) || is[*broker.InvalidError](err) || is[*broker.FormatError](err)
}

// end tells the part's call; nobody but the call may use the part afterwards.
func (p *producePart) end(err error) {
	p.err = err
	p.done.Done()
}

// finishProduce waits for all partitions and gives the answer. With acks=0 there is
// none: a failure closes the connection, which is all that such a client sees.
func (c *conn) finishProduce(x *exchange) (*response, error) {
	p := x.produce
	p.pending.Wait()
	defer c.recycle(p)
	for i := range p.parts {
		if part := &p.parts[i]; len(part.begun) > 0 {
			c.finishProduced(part)
		}
	}
	failed := c.countProduced(p)
	if p.acks == 0 {
		if failed != nil {
			return nil, fmt.Errorf("a produce with acks=0 failed: %w", failed)
		}
		return nil, nil
	}
	buf := c.beginResponse(x, 128+len(x.body)/64)
	buf.b = p.appendTo(buf.b, x.version, c.s)
	return finish(buf), nil
}

func (c *conn) countProduced(p *produceCall) (failed error) {
	for i := range p.parts {
		part := &p.parts[i]
		if part.err != nil {
			c.s.stats.produceFailures.Add(1)
			failed = errors.Join(failed, part.err)
			continue
		}
		c.s.stats.producedRecords.Add(uint64(len(part.messages)))
		c.s.stats.producedBytes.Add(uint64(len(part.records)))
	}
	return failed
}

// appendTo appends a Produce response.
func (p *produceCall) appendTo(b []byte, version int16, s *Server) []byte {
	w := writer{b: b, flexible: s.flexible(keyProduce, version)}
	w.count(len(p.topics))
	for i := range p.topics {
		t := &p.topics[i]
		w.text(t.name)
		w.count(t.end - t.first)
		for j := t.first; j < t.end; j++ {
			p.parts[j].appendTo(&w, version, s)
		}
		w.tags()
	}
	if version >= 1 {
		w.int32(0) // throttle time
	}
	w.tags()
	return w.b
}

func (p *producePart) appendTo(w *writer, version int16, s *Server) {
	w.int32(p.index)
	w.int16(int16(s.codeOf(p.err)))
	if p.err != nil {
		w.int64(-1)
	} else {
		w.int64(int64(p.first))
	}
	if version >= 2 {
		w.int64(-1) // append time: records keep the producer's
	}
	if version >= produceLogStart {
		w.int64(p.logStart())
	}
	if version >= produceErrorMessage {
		w.count(0) // errors by record
		w.nullable(messageOf(p.err))
	}
	w.tags()
}

// logStart is the oldest offset held, -1 when that is not known. Producers whose batch
// is refused see by it whether what they wrote before was removed.
func (p *producePart) logStart() int64 {
	if p.stream == nil {
		return -1
	}
	info, err := p.stream.Shard(int(p.index))
	if err != nil {
		return -1
	}
	return int64(info.Base)
}

// recycle keeps a call for the next request.
func (c *conn) recycle(p *produceCall) {
	p.decoder.release(c.s.buffers)
	p.decoder.charge = nil
	clear(p.topics)
	clear(p.parts)
	p.topics, p.parts = p.topics[:0], p.parts[:0]
	p.transactional = false
	c.s.calls.Put(p)
}
