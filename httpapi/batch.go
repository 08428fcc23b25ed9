package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"felix.local/felix/broker"
)

// Headers cost memory beside the body, so their number is bounded: in one record, and
// in a batch.
const (
	headersMax      = 1000
	batchHeadersMax = 100_000
)

// What a parsed record and header take beside the bytes that they point to.
const (
	messageBytes = int64(unsafe.Sizeof(broker.Message{}))
	headerBytes  = int64(unsafe.Sizeof(broker.Header{}))
)

// batch is a batch being read.
type batch struct {
	recordsMax int
	// claim takes memory for what is beside the body.
	claim    func(bytes int64) error
	messages []broker.Message
	headers  int
}

// parse reads a batch: one JSON object per line. The messages share the memory
// of data, which is overwritten. Lines that are empty but for white space are skipped.
// The error names the line, counted from 1.
func (b *batch) parse(data []byte) error {
	records := min(countLines(data), b.recordsMax)
	if err := b.claim(int64(records) * messageBytes); err != nil {
		return err
	}
	b.messages = make([]broker.Message, 0, records)
	for line := 1; len(data) > 0; line++ {
		text, rest, _ := bytes.Cut(data, []byte{'\n'})
		data = rest
		r := reader{rest: text}
		if r.space(); len(r.rest) == 0 {
			continue
		}
		if len(b.messages) == b.recordsMax {
			return tooManyLines(b.recordsMax)
		}
		if err := b.line(&r); err != nil {
			if errors.As(err, new(*crowdedError)) {
				return err
			}
			return badLine(line, err.Error())
		}
	}
	if len(b.messages) == 0 {
		return badRequest(codeInvalidBatch, "the batch holds no record", `send a line such as {"text":"…"} per record`)
	}
	return nil
}

// countLines counts the lines that are not blank.
func countLines(data []byte) (n int) {
	for len(data) > 0 {
		text, rest, _ := bytes.Cut(data, []byte{'\n'})
		data = rest
		r := reader{rest: text}
		if r.space(); len(r.rest) > 0 {
			n++
		}
	}
	return n
}

// The members of a line, as bits.
const (
	hasText = 1 << iota
	hasBase64
	hasKey
	hasKeyBase64
	hasHeaders
	hasTimestamp
)

// line reads one message.
func (b *batch) line(r *reader) error {
	var m broker.Message
	seen, err := r.object(func(name []byte) (int, error) { return b.member(r, name, &m) })
	if err == nil {
		err = r.end()
	}
	if err == nil {
		err = exclusive(seen)
	}
	b.messages = append(b.messages, m)
	return err
}

// exclusive says that exactly one form of the value is there, and at most one of the key.
func exclusive(seen int) error {
	switch {
	case seen&hasKey != 0 && seen&hasKeyBase64 != 0:
		return errors.New("key and key_base64 exclude each other")
	case seen&hasText != 0 && seen&hasBase64 != 0:
		return errors.New("text and base64 exclude each other")
	case seen&(hasText|hasBase64) == 0:
		return errors.New("text or base64 is needed")
	}
	return nil
}

func (b *batch) member(r *reader, name []byte, m *broker.Message) (bit int, err error) {
	switch string(name) {
	case "text":
		m.Value, err = r.textOrNull()
		return hasText, err
	case "base64":
		m.Value, err = r.base64()
		return hasBase64, err
	case "key":
		m.Key, err = r.textOrNull()
		return hasKey, err
	case "key_base64":
		m.Key, err = r.base64()
		return hasKeyBase64, err
	case "headers":
		m.Headers, err = b.headerList(r)
		return hasHeaders, err
	case "timestamp_micros":
		m.TimestampMicros, err = r.uint(math.MaxInt64)
		return hasTimestamp, err
	}
	return 0, errNoField
}

var errNoField = errors.New("no such field")

// textOrNull gives nil for null, and what is not nil for "".
func (r *reader) textOrNull() ([]byte, error) {
	if r.word("null") {
		return nil, nil
	}
	return r.text()
}

func (b *batch) headerList(r *reader) ([]broker.Header, error) {
	if err := r.expect('[', "'['"); err != nil {
		return nil, err
	}
	headers := []broker.Header{}
	for first := true; ; first = false {
		more, err := r.element(first)
		if err != nil || !more {
			return headers, err
		}
		if len(headers) == headersMax {
			return nil, fmt.Errorf("a record has more than %d headers", headersMax)
		}
		if b.headers++; b.headers > batchHeadersMax {
			return nil, fmt.Errorf("the batch has more than %d headers", batchHeadersMax)
		}
		if headers, err = b.room(headers); err != nil {
			return nil, err
		}
		h, err := b.header(r)
		if err != nil {
			return nil, err
		}
		headers = append(headers, h)
	}
}

// room makes place for one more header. What it replaces stays claimed, since it stays
// in memory for a while.
func (b *batch) room(headers []broker.Header) ([]broker.Header, error) {
	if len(headers) < cap(headers) {
		return headers, nil
	}
	size := max(4, 2*cap(headers))
	if err := b.claim(int64(size) * headerBytes); err != nil {
		return nil, err
	}
	return append(make([]broker.Header, 0, size), headers...), nil
}

func (b *batch) header(r *reader) (h broker.Header, err error) {
	var key []byte
	seen, err := r.object(func(name []byte) (bit int, err error) {
		switch string(name) {
		case "text":
			h.Value, err = r.textOrNull()
			return hasText, err
		case "base64":
			h.Value, err = r.base64()
			return hasBase64, err
		case "key":
			key, err = r.text()
			return hasKey, err
		case "key_base64":
			key, err = r.base64()
			return hasKeyBase64, err
		}
		return 0, errNoField
	})
	if err != nil {
		return h, err
	}
	if seen&(hasKey|hasKeyBase64) == 0 {
		return h, errors.New("a header needs a key or key_base64")
	}
	if err := exclusive(seen); err != nil {
		return h, err
	}
	if err := b.claim(int64(len(key))); err != nil {
		return h, err
	}
	h.Key = string(key)
	return h, nil
}
