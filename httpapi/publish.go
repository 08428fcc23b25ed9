package httpapi

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

// publish appends the record, or the batch, in the body and answers when it is
// acknowledged.
func (s *Server) publish(x *exchange) error {
	q, err := x.query("shard", "partition_key", "key", "timestamp_micros", "timeout_ms", "producer_id", "sequence")
	if err != nil {
		return err
	}
	media, err := mediaType(x.r)
	if err != nil {
		return err
	}
	if err := plainBody(x.r); err != nil {
		return err
	}
	stream, err := s.broker.Stream(x.name)
	if err != nil {
		return err
	}
	timeout, err := q.number("timeout_ms", 1, math.MaxInt64/int64(time.Millisecond), s.cfg.PublishTimeout.Milliseconds())
	if err != nil {
		return err
	}
	body, err := x.readBody(s.cfg.BodyBytesMax)
	if err != nil {
		return err
	}
	defer body.release()
	var p publication
	if media == mediaNDJSON {
		err = p.fromBatch(q, stream, body, s.cfg.BatchRecordsMax)
	} else {
		err = p.fromRecord(q, stream, body.bytes)
	}
	if err == nil {
		err = p.produced(q, stream)
	}
	if err != nil {
		return err
	}
	wait := min(time.Duration(timeout)*time.Millisecond, s.cfg.PublishTimeout)
	return x.commit(stream, &p, wait)
}

// publication is what a publish appends, and where.
type publication struct {
	shard broker.ShardChoice
	// batch says which one of an idempotent producer it is, if it is one.
	batch    *engine.ProducerBatch
	messages []broker.Message
	one      [1]broker.Message // what messages points to for a single record
}

// commit publishes and answers. Publish has copied the payloads when it returns.
func (x *exchange) commit(stream *broker.Stream, p *publication, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(x.r.Context(), wait)
	defer cancel()
	done, err := p.publish(ctx, stream)
	if err != nil {
		return publishError(x.server, err)
	}
	answer := make([]byte, 0, 128)
	answer = append(answer, `{"shard":`...)
	answer = strconv.AppendInt(answer, int64(done.Shard), 10)
	answer = append(answer, `,"first_offset":`...)
	answer = strconv.AppendUint(answer, done.First, 10)
	answer = append(answer, `,"last_offset":`...)
	answer = strconv.AppendUint(answer, done.Last, 10)
	if done.Duplicate {
		answer = append(answer, `,"duplicate":true`...)
	}
	answer = append(answer, "}\n"...)
	header := x.header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(answer)))
	x.begun(http.StatusOK)
	_, err = x.Write(answer)
	return err
}

func (p *publication) publish(ctx context.Context, stream *broker.Stream) (broker.Published, error) {
	if p.batch == nil {
		return stream.Publish(ctx, p.shard, p.messages...)
	}
	return stream.PublishProduced(ctx, p.shard, *p.batch, p.messages...)
}

// publishError is explicit about a wait that ended without a typed error: whether the
// records were appended is not known.
func publishError(s *Server, err error) error {
	if _, _, known := s.find(err); known || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &requestError{problem{
		status: http.StatusGatewayTimeout, code: codeUnknownOutcome, message: err.Error(),
		action: "the records may still become durable; read the end of the shard before sending them again",
	}}
}

// fromRecord makes one record of the body.
func (p *publication) fromRecord(q query, stream *broker.Stream, payload []byte) error {
	p.one[0].Value = payload
	p.messages = p.one[:]
	if q.has("timestamp_micros") {
		micros, err := parseUint("timestamp_micros", q.text("timestamp_micros"), math.MaxInt64)
		if err != nil {
			return err
		}
		p.one[0].TimestampMicros = micros
	}
	if q.has("key") {
		if stream.Config().Format == broker.FormatRaw {
			return &broker.FormatError{Stream: stream.Name(), What: "key (partition_key chooses a shard and stores nothing)"}
		}
		p.one[0].Key = q.bytes("key")
	}
	return p.choose(q, stream)
}

// fromBatch makes a record of each line of the body.
func (p *publication) fromBatch(q query, stream *broker.Stream, lines *body, recordsMax int) error {
	for _, name := range []string{"key", "timestamp_micros"} {
		if q.has(name) {
			return badParameter(name, "a batch has "+name+" in its lines", "move it there")
		}
	}
	lineByLine := batch{recordsMax: recordsMax, claim: lines.claim}
	if err := lineByLine.parse(lines.bytes); err != nil {
		return err
	}
	p.messages = lineByLine.messages
	if stream.Config().Format == broker.FormatRaw {
		for _, m := range p.messages {
			if m.Value == nil {
				return &broker.FormatError{Stream: stream.Name(), What: "null value"}
			}
		}
	}
	return p.choose(q, stream)
}

// choose picks the shard: the one named, else by partition_key, else by the key that
// all records share, else the next in turn. Records whose keys differ have no shard in
// common.
func (p *publication) choose(q query, stream *broker.Stream) (err error) {
	switch {
	case q.has("shard") && q.has("partition_key"):
		return badParameter("partition_key", "shard and partition_key exclude each other", "send one of them")
	case q.has("shard"):
		var shard int
		shard, err = q.explicitShard()
		p.shard = broker.Explicit(shard)
	case q.has("partition_key"):
		p.shard = broker.ByKey(q.bytes("partition_key"))
	default:
		err = p.chooseByKeys(stream.Shards())
	}
	return err
}

func (p *publication) chooseByKeys(shards int) error {
	first := p.messages[0].Key
	for _, m := range p.messages[1:] {
		if shards > 1 && ((m.Key == nil) != (first == nil) || !bytes.Equal(m.Key, first)) {
			return badParameter("shard", "the records have different keys, and a batch goes to one shard",
				"name the shard or a partition_key, or send one batch per key")
		}
	}
	p.shard = broker.RoundRobin()
	if first != nil {
		p.shard = broker.ByKey(first)
	}
	return nil
}
