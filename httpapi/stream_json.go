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

// parseDefinition reads the JSON of a PUT. Fields that are not there, or null, take
// their defaults: durable, and the server's fsync mode and retention. An empty body is all
// defaults.
func parseDefinition(data []byte) (broker.StreamConfig, error) {
	cfg := broker.StreamConfig{Durable: true}
	r := reader{rest: data}
	if r.space(); len(r.rest) == 0 {
		return cfg, nil
	}
	if err := r.expect('{', "'{'"); err != nil {
		return cfg, badDefinition(err)
	}
	var seen []string
	for first := true; ; first = false {
		name, more, err := r.member(first)
		if err != nil {
			return cfg, badDefinition(err)
		}
		if !more {
			break
		}
		if err := definitionField(&r, string(name), &cfg, &seen); err != nil {
			return cfg, badDefinition(fmt.Errorf("%s: %w", short(string(name)), err))
		}
	}
	if err := r.end(); err != nil {
		return cfg, badDefinition(err)
	}
	return cfg, nil
}

func badDefinition(err error) error {
	return badRequest(codeInvalidBody, err.Error(),
		"send a JSON object with any of durable, shards, format, fsync, retention_bytes, retention_seconds")
}

func definitionField(r *reader, name string, cfg *broker.StreamConfig, seen *[]string) (err error) {
	for _, former := range *seen {
		if former == name {
			return errors.New("is there more than once")
		}
	}
	*seen = append(*seen, name)
	null := r.word("null")
	switch name {
	case "durable":
		if !null {
			cfg.Durable, err = r.boolean()
		}
	case "shards":
		if !null {
			cfg.Shards, err = shardCount(r)
		}
	case "format":
		if !null {
			cfg.Format, err = formatName(r)
		}
	case "fsync":
		if !null {
			cfg.Fsync, err = fsyncName(r)
		}
	case "retention_bytes":
		if !null {
			cfg.RetentionBytes, err = retentionBytes(r)
		}
	case "retention_seconds":
		if !null {
			cfg.RetentionAge, err = retentionAge(r)
		}
	default:
		return errors.New("no such field")
	}
	return err
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
	if info.Err != nil {
		return s
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
