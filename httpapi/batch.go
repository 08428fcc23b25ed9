package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"felix.local/felix/broker"
)

// parseBatch reads a batch: one JSON object per line. The messages share the memory
// of data, which is overwritten. Lines that are empty but for white space are skipped.
// The error names the line, counted from 1.
func parseBatch(data []byte, recordsMax int) ([]broker.Message, error) {
	messages := make([]broker.Message, 0, min(1+bytes.Count(data, []byte{'\n'}), recordsMax))
	headers := 0
	for line := 1; len(data) > 0; line++ {
		text, rest, _ := bytes.Cut(data, []byte{'\n'})
		data = rest
		r := reader{rest: text}
		if r.space(); len(r.rest) == 0 {
			continue
		}
		if len(messages) == recordsMax {
			return nil, tooManyLines(recordsMax)
		}
		var m broker.Message
		if err := parseLine(&r, &m); err != nil {
			return nil, badLine(line, err.Error())
		}
		if headers += len(m.Headers); headers > batchHeadersMax {
			return nil, badLine(line, fmt.Sprintf("the batch has more than %d headers", batchHeadersMax))
		}
		messages = append(messages, m)
	}
	if len(messages) == 0 {
		return nil, badRequest(codeInvalidBatch, "the batch holds no record", `send a line such as {"text":"…"} per record`)
	}
	return messages, nil
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

// parseLine reads one message.
func parseLine(r *reader, m *broker.Message) error {
	if err := r.expect('{', "'{'"); err != nil {
		return err
	}
	seen := 0
	for first := true; ; first = false {
		name, more, err := r.member(first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		bit, err := parseMember(r, string(name), m)
		if err != nil {
			return fmt.Errorf("%s: %w", short(string(name)), err)
		}
		if seen&bit != 0 {
			return fmt.Errorf("%s is there more than once", name)
		}
		seen |= bit
	}
	if err := r.end(); err != nil {
		return err
	}
	return exclusive(seen)
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

func parseMember(r *reader, name string, m *broker.Message) (bit int, err error) {
	switch name {
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
		m.Headers, err = parseHeaders(r)
		return hasHeaders, err
	case "timestamp_micros":
		m.TimestampMicros, err = r.uint(math.MaxInt64)
		return hasTimestamp, err
	}
	return 0, errors.New("no such field")
}

// textOrNull gives nil for null, and what is not nil for "".
func (r *reader) textOrNull() ([]byte, error) {
	if r.word("null") {
		return nil, nil
	}
	return r.text()
}

func parseHeaders(r *reader) ([]broker.Header, error) {
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
		var h broker.Header
		if err := parseHeader(r, &h); err != nil {
			return nil, err
		}
		headers = append(headers, h)
	}
}

// Headers cost memory beside the body, so their number is bounded: in one record, and
// in a batch.
const (
	headersMax      = 1000
	batchHeadersMax = 100_000
)

func parseHeader(r *reader, h *broker.Header) error {
	if err := r.expect('{', "'{'"); err != nil {
		return err
	}
	seen := 0
	for first := true; ; first = false {
		name, more, err := r.member(first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		bit, err := parseHeaderMember(r, string(name), h)
		if err != nil {
			return fmt.Errorf("%s: %w", short(string(name)), err)
		}
		if seen&bit != 0 {
			return fmt.Errorf("%s is there more than once", name)
		}
		seen |= bit
	}
	if seen&(hasKey|hasKeyBase64) == 0 {
		return errors.New("a header needs a key or key_base64")
	}
	return exclusive(seen)
}

func parseHeaderMember(r *reader, name string, h *broker.Header) (bit int, err error) {
	var key []byte
	switch name {
	case "text":
		h.Value, err = r.textOrNull()
		return hasText, err
	case "base64":
		h.Value, err = r.base64()
		return hasBase64, err
	case "key":
		key, err = r.text()
		h.Key = string(key)
		return hasKey, err
	case "key_base64":
		key, err = r.base64()
		h.Key = string(key)
		return hasKeyBase64, err
	}
	return 0, errors.New("no such field")
}
