package httpapi

import (
	"unicode/utf8"

	"felix.local/felix/broker"
)

// record writes the JSON form of a record, without a line end.
func (o *output) record(shard int, r *broker.Record) {
	o.raw(`{"shard":`)
	o.uint(uint64(shard))
	o.name("offset")
	o.uint(r.Offset)
	o.name("timestamp_micros")
	o.uint(r.TimestampMicros)
	o.bytes("text", "base64", r.Value)
	if r.Key != nil {
		o.bytes("key", "key_base64", r.Key)
	}
	if len(r.Headers) > 0 {
		o.headers(r.Headers)
	}
	o.raw("}")
}

func (o *output) headers(headers []broker.Header) {
	o.name("headers")
	for i, h := range headers {
		if i == 0 {
			o.raw(`[`)
		} else {
			o.raw(`,`)
		}
		if utf8.ValidString(h.Key) {
			o.raw(`{"key":`)
			o.text([]byte(h.Key))
		} else {
			o.raw(`{"key_base64":`)
			o.base64([]byte(h.Key))
		}
		o.bytes("text", "base64", h.Value)
		o.raw("}")
	}
	o.raw("]")
}
