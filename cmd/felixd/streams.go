package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"felix.local/felix/broker"
)

type streamsCommands struct {
	List   streamsListCommand   `cmd:"" help:"List the streams."`
	Create streamsCreateCommand `cmd:"" help:"Create a stream, or change what is given of one that exists: more shards, another retention."`
	Show   streamsShowCommand   `cmd:"" help:"Describe a stream and its shards."`
	Delete streamsDeleteCommand `cmd:"" help:"Delete a stream and its records."`
	Trim   streamsTrimCommand   `cmd:"" help:"Delete records below an offset, or run a retention pass now."`
}

// streamFlags name a stream of a server.
type streamFlags struct {
	Stream string `arg:"" help:"tenant/namespace/stream"`
	clientFlags
	outputFlags
}

// target gives the parsed name and a client.
func (f *streamFlags) target() (broker.StreamName, *client, error) {
	name, err := broker.ParseName(f.Stream)
	if err != nil {
		return name, nil, &exitError{code: exitUsage, err: err}
	}
	server, err := f.client()
	return name, server, err
}

// streamDocument is a stream as the server describes it.
type streamDocument struct {
	Tenant           string          `json:"tenant"`
	Namespace        string          `json:"namespace"`
	Stream           string          `json:"stream"`
	Durable          bool            `json:"durable"`
	Shards           int             `json:"shards"`
	Format           string          `json:"format"`
	Fsync            string          `json:"fsync,omitempty"`
	RetentionBytes   *int64          `json:"retention_bytes,omitempty"`
	RetentionSeconds *float64        `json:"retention_seconds,omitempty"`
	Unavailable      int             `json:"unavailable_shards"`
	Error            string          `json:"error,omitempty"`
	ShardList        []shardDocument `json:"shard_list,omitempty"`
}

// shardDocument is a shard as the server describes it.
type shardDocument struct {
	Shard         int    `json:"shard"`
	State         string `json:"state"`
	Reason        string `json:"reason,omitempty"`
	BaseOffset    uint64 `json:"base_offset"`
	NextOffset    uint64 `json:"next_offset"`
	DurableOffset uint64 `json:"durable_offset"`
	Subscriptions int    `json:"subscriptions"`
}

func (streamDocument) kind() string { return "stream" }

func (e streamDocument) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s/%s: ", e.Tenant, e.Namespace, e.Stream)
	if e.Durable {
		fmt.Fprintf(&b, "durable, fsync %s", e.Fsync)
	} else {
		b.WriteString("in memory")
	}
	fmt.Fprintf(&b, ", format %s, %d shards", e.Format, e.Shards)
	if e.RetentionBytes != nil && *e.RetentionBytes > 0 {
		fmt.Fprintf(&b, ", keeps %d bytes per shard", *e.RetentionBytes)
	}
	if e.RetentionSeconds != nil && *e.RetentionSeconds > 0 {
		fmt.Fprintf(&b, ", keeps %g s", *e.RetentionSeconds)
	}
	if e.Unavailable > 0 {
		fmt.Fprintf(&b, ", %d shards do not serve", e.Unavailable)
	}
	if e.Error != "" {
		b.WriteString("; " + e.Error)
	}
	for _, s := range e.ShardList {
		fmt.Fprintf(&b, "\n  shard %d: %s, offsets %d to %d, durable to %d, %d subscriptions",
			s.Shard, s.State, s.BaseOffset, s.NextOffset, s.DurableOffset, s.Subscriptions)
		if s.Reason != "" {
			b.WriteString("; " + s.Reason)
		}
	}
	return b.String()
}

type streamsListCommand struct {
	clientFlags
	outputFlags
}

// Run lists page by page.
func (c *streamsListCommand) Run(a *app) error {
	server, err := c.client()
	if err != nil {
		return err
	}
	out := a.output(c.outputFlags)
	for after := ""; ; {
		var page struct {
			Streams []streamDocument `json:"streams"`
			After   string           `json:"after"`
		}
		query := url.Values{"limit": {"1000"}}
		if after != "" {
			query.Set("after", after)
		}
		if err := server.json(a.ctx, request{method: http.MethodGet, path: "v1/streams", query: query}, &page); err != nil {
			return err
		}
		for _, stream := range page.Streams {
			if err := out.emit(stream); err != nil {
				return err
			}
		}
		if after = page.After; after == "" {
			return nil
		}
	}
}

type streamsCreateCommand struct {
	streamFlags
	InMemory         bool   `name:"in-memory" help:"keep records in memory only"`
	Shards           *int   `name:"shards" placeholder:"N" help:"shards; a new stream has 1 without it"`
	Format           string `name:"format" enum:",raw,kafka" default:"" placeholder:"raw|kafka" help:"raw: a record is its value, as in a new stream without it; kafka: key, value and headers"`
	Fsync            string `name:"fsync" enum:",none,periodic,on_commit" default:"" placeholder:"MODE" help:"what an acknowledgement means: none, periodic or on_commit; a new stream has the server's default without it"`
	RetentionBytes   *int64 `name:"retention-bytes" placeholder:"BYTES" help:"bytes to keep per shard, 0 for all; a new stream has the server's default without it"`
	RetentionSeconds *int64 `name:"retention-seconds" placeholder:"S" help:"seconds to keep records, 0 for ever; a new stream has the server's default without it"`
}

// definitionDocument is what a stream is created with, or what of it is changed: only
// what was given is sent, and the server knows what the rest means.
type definitionDocument struct {
	Durable          *bool  `json:"durable,omitempty"`
	Shards           *int   `json:"shards,omitempty"`
	Format           string `json:"format,omitempty"`
	Fsync            string `json:"fsync,omitempty"`
	RetentionBytes   *int64 `json:"retention_bytes,omitempty"`
	RetentionSeconds *int64 `json:"retention_seconds,omitempty"`
}

// Run creates the stream.
func (c *streamsCreateCommand) Run(a *app) error {
	name, server, err := c.target()
	if err != nil {
		return err
	}
	definition := definitionDocument{
		Shards: c.Shards, Format: c.Format, Fsync: c.Fsync,
		RetentionBytes: c.RetentionBytes, RetentionSeconds: c.RetentionSeconds,
	}
	if c.InMemory {
		definition.Durable = new(false)
	}
	created, err := server.create(a.ctx, name, definition)
	if err != nil {
		return err
	}
	return a.output(c.outputFlags).emit(created)
}

// create creates a stream and returns its description.
func (c *client) create(ctx context.Context, name broker.StreamName, definition definitionDocument) (created streamDocument, err error) {
	body, err := json.Marshal(definition)
	if err != nil {
		return created, err
	}
	err = c.json(ctx, request{
		method: http.MethodPut, path: streamPath(name), header: http.Header{"Content-Type": {"application/json"}}, body: body,
	}, &created)
	return created, err
}

type streamsShowCommand struct{ streamFlags }

// Run describes a stream.
func (c *streamsShowCommand) Run(a *app) error {
	name, server, err := c.target()
	if err != nil {
		return err
	}
	var stream streamDocument
	if err := server.json(a.ctx, request{method: http.MethodGet, path: streamPath(name)}, &stream); err != nil {
		return err
	}
	return a.output(c.outputFlags).emit(stream)
}

type streamsDeleteCommand struct{ streamFlags }

// deletedEvent says that a stream is gone.
type deletedEvent struct {
	Stream string `json:"stream"`
}

func (deletedEvent) kind() string { return "deleted" }

func (e deletedEvent) text() string { return "deleted " + e.Stream }

// Run deletes a stream.
func (c *streamsDeleteCommand) Run(a *app) error {
	name, server, err := c.target()
	if err != nil {
		return err
	}
	if err := server.json(a.ctx, request{method: http.MethodDelete, path: streamPath(name)}, nil); err != nil {
		return err
	}
	return a.output(c.outputFlags).emit(deletedEvent{Stream: name.String()})
}

type streamsTrimCommand struct {
	streamFlags
	Shard  *int    `name:"shard" placeholder:"N" help:"the shard that --before is about; it need not be named where there is only one"`
	Before *uint64 `name:"before" placeholder:"OFFSET" help:"delete the records below this offset; without it a retention pass is run"`
}

// trimmedEvent says what is left of a shard.
type trimmedEvent struct {
	Shard      int    `json:"shard"`
	BaseOffset uint64 `json:"base_offset"`
}

func (trimmedEvent) kind() string { return "trimmed" }

func (e trimmedEvent) text() string {
	return fmt.Sprintf("shard %d begins at offset %d", e.Shard, e.BaseOffset)
}

// retainedEvent says what a retention pass removed.
type retainedEvent struct {
	Segments    int      `json:"segments"`
	Bytes       int64    `json:"bytes"`
	BaseOffsets []uint64 `json:"base_offsets"`
}

func (retainedEvent) kind() string { return "retained" }

func (e retainedEvent) text() string {
	return fmt.Sprintf("removed %d segments of %d bytes; the shards begin at offsets %v", e.Segments, e.Bytes, e.BaseOffsets)
}

// Run trims.
func (c *streamsTrimCommand) Run(a *app) error {
	name, server, err := c.target()
	if err != nil {
		return err
	}
	out := a.output(c.outputFlags)
	if c.Before == nil {
		var retained retainedEvent
		if err := server.json(a.ctx, request{method: http.MethodPost, path: streamPath(name, "retention")}, &retained); err != nil {
			return err
		}
		return out.emit(retained)
	}
	var trimmed trimmedEvent
	query := url.Values{"before": {strconv.FormatUint(*c.Before, 10)}}
	if c.Shard != nil { // without it the server takes the only one, or refuses
		query.Set("shard", strconv.Itoa(*c.Shard))
	}
	if err := server.json(a.ctx, request{method: http.MethodDelete, path: streamPath(name, "records"), query: query}, &trimmed); err != nil {
		return err
	}
	return out.emit(trimmed)
}
