package httpapi

import (
	"errors"
	"fmt"
	"math"
	"time"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

// definitionBytesMax bounds the body of a PUT.
const definitionBytesMax = 16 << 10

// definition is what a PUT asks for.
type definition struct {
	config broker.StreamConfig
	// asked are the fields that were given.
	asked int
}

// The fields of a definition, as bits.
const (
	asksDurable = 1 << iota
	asksShards
	asksFormat
	asksFsync
	asksRetentionBytes
	asksRetentionSeconds
)

func (d *definition) asks(field int) bool { return d.asked&field != 0 }

// parseDefinition reads the JSON of a PUT. A field that is not there, or null, is not
// asked for; an empty body asks for nothing. config has the defaults of a new stream for
// those.
func parseDefinition(data []byte) (definition, error) {
	d := definition{config: broker.StreamConfig{Durable: true}}
	r := reader{rest: data}
	if r.space(); len(r.rest) == 0 {
		return d, nil
	}
	_, err := r.object(func(name []byte) (int, error) { return d.field(&r, name) })
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return d, badRequest(codeInvalidBody, err.Error(),
			"send a JSON object with any of durable, shards, format, fsync, retention_bytes, retention_seconds")
	}
	return d, nil
}

func (d *definition) field(r *reader, name []byte) (bit int, err error) {
	var take func() error
	switch c := &d.config; string(name) {
	case "durable":
		bit, take = asksDurable, func() (err error) { c.Durable, err = r.boolean(); return err }
	case "shards":
		bit, take = asksShards, func() (err error) { c.Shards, err = shardCount(r); return err }
	case "format":
		bit, take = asksFormat, func() (err error) { c.Format, err = formatName(r); return err }
	case "fsync":
		bit, take = asksFsync, func() (err error) { c.Fsync, err = fsyncName(r); return err }
	case "retention_bytes":
		bit, take = asksRetentionBytes, func() (err error) { c.RetentionBytes, err = retentionBytes(r); return err }
	case "retention_seconds":
		bit, take = asksRetentionSeconds, func() (err error) { c.RetentionAge, err = retentionAge(r); return err }
	default:
		return 0, errNoField
	}
	if r.word("null") {
		return bit, nil
	}
	d.asked |= bit
	return bit, take()
}

func shardCount(r *reader) (int, error) {
	n, err := r.uint(math.MaxInt32)
	if err == nil && n == 0 {
		err = errors.New("at least 1 is needed")
	}
	return int(n), err
}

func formatName(r *reader) (broker.Format, error) {
	text, err := r.text()
	if err != nil {
		return 0, err
	}
	return broker.ParseFormat(short(string(text)))
}

func fsyncName(r *reader) (*engine.FsyncMode, error) {
	text, err := r.text()
	if err != nil {
		return nil, err
	}
	for _, mode := range []engine.FsyncMode{engine.FsyncNone, engine.FsyncPeriodic, engine.FsyncOnCommit} {
		if mode.String() == string(text) {
			return &mode, nil
		}
	}
	return nil, fmt.Errorf("%q is no mode; none, periodic and on_commit are", short(string(text)))
}

func retentionBytes(r *reader) (*int64, error) {
	n, err := r.uint(math.MaxInt64)
	bytes := int64(n)
	return &bytes, err
}

func retentionAge(r *reader) (*time.Duration, error) {
	n, err := r.uint(uint64(math.MaxInt64 / time.Second))
	age := time.Duration(n) * time.Second
	return &age, err
}

// streamJSON is a stream as answers show it.
type streamJSON struct {
	Tenant    string `json:"tenant"`
	Namespace string `json:"namespace"`
	Stream    string `json:"stream"`
	// The definition is absent when it cannot be read.
	Durable *bool   `json:"durable,omitempty"`
	Shards  *int    `json:"shards,omitempty"`
	Format  *string `json:"format,omitempty"`
	// Fsync is absent from an in-memory stream, as retention is.
	Fsync            *string  `json:"fsync,omitempty"`
	RetentionBytes   *int64   `json:"retention_bytes,omitempty"`
	RetentionSeconds *float64 `json:"retention_seconds,omitempty"`
	// Unavailable counts the shards that do not serve.
	Unavailable int `json:"unavailable_shards"`
	// Error is why nothing of the stream can be served.
	Error *string `json:"error,omitempty"`
	// ShardList is shown for one stream, not in lists.
	ShardList []shardJSON `json:"shard_list,omitempty"`
}

// shardJSON is a shard as answers show it.
type shardJSON struct {
	Shard         int     `json:"shard"`
	State         string  `json:"state"`
	Reason        *string `json:"reason,omitempty"`
	BaseOffset    uint64  `json:"base_offset"`
	NextOffset    uint64  `json:"next_offset"`
	DurableOffset uint64  `json:"durable_offset"`
	Subscriptions int     `json:"subscriptions"`
}

// describe renders a stream.
func describe(info broker.StreamInfo, withShards bool) streamJSON {
	s := streamJSON{Tenant: info.Name.Tenant, Namespace: info.Name.Namespace, Stream: info.Name.Stream, Error: reason(info.Err)}
	if len(info.Shards) == 0 {
		return s // the definition cannot be read
	}
	format := info.Config.Format.String()
	s.Durable, s.Shards, s.Format = &info.Config.Durable, &info.Config.Shards, &format
	s.RetentionBytes = info.Config.RetentionBytes
	if info.Config.Fsync != nil {
		mode := info.Config.Fsync.String()
		s.Fsync = &mode
	}
	if info.Config.RetentionAge != nil {
		seconds := info.Config.RetentionAge.Seconds()
		s.RetentionSeconds = &seconds
	}
	for _, shard := range info.Shards {
		if shard.State != broker.StateServing {
			s.Unavailable++
		}
		if withShards {
			s.ShardList = append(s.ShardList, shardJSON{
				Shard: shard.Shard, State: shard.State.String(), Reason: reason(shard.Reason),
				BaseOffset: shard.Base, NextOffset: shard.Next, DurableOffset: shard.Durable,
				Subscriptions: shard.Subscriptions,
			})
		}
	}
	return s
}

func reason(err error) *string {
	if err == nil {
		return nil
	}
	text := err.Error()
	return &text
}
