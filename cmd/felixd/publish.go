package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"unicode/utf8"

	"felix.local/felix/broker"
)

type publishCommand struct {
	Stream       string   `arg:"" help:"tenant/namespace/stream"`
	Text         []string `arg:"" optional:"" help:"records to publish, one per argument; without any, each line of standard input is one, with every byte but the newline"`
	File         string   `name:"file" placeholder:"FILE" help:"publish the bytes of a file, or with - of standard input, as one record"`
	Key          *string  `name:"key" placeholder:"KEY" help:"key of the records, on a stream with format kafka; it chooses the shard too"`
	PartitionKey *string  `name:"partition-key" placeholder:"KEY" help:"choose the shard by this key and store no key"`
	Shard        *int     `name:"shard" placeholder:"N" help:"the shard; without it and without a key they take turns"`
	ProducerID   *uint64  `name:"producer-id" placeholder:"N" help:"number of an idempotent producer, with --sequence: the same command again stores nothing twice"`
	Sequence     *uint64  `name:"sequence" placeholder:"N" help:"which of the producer's batches for this shard it is, from 0"`
	Batch        int      `name:"batch" default:"1000" placeholder:"N" help:"lines in one request at most"`
	clientFlags
	outputFlags
}

// publishBatchBytes bounds the lines of one request, and a line.
const publishBatchBytes = 4 << 20

// Validate is called by kong.
func (c *publishCommand) Validate() error {
	if c.File != "" && len(c.Text) > 0 {
		return errors.New("records are given both as arguments and by --file; choose one")
	}
	if c.PartitionKey != nil && c.Shard != nil {
		return errors.New("--partition-key chooses the shard, and --shard does too; choose one")
	}
	if c.Key != nil && !utf8.ValidString(*c.Key) {
		return errors.New("--key is not valid UTF-8")
	}
	if (c.ProducerID == nil) != (c.Sequence == nil) {
		return errors.New("--producer-id and --sequence go together")
	}
	if c.ProducerID != nil && c.File == "" && len(c.Text) == 0 {
		return errors.New("--producer-id is for one request; give the records as arguments or by --file")
	}
	limits := []limit{{"batch", int64(c.Batch), 1, 100_000}}
	if c.Shard != nil {
		limits = append(limits, limit{"shard", int64(*c.Shard), 0, 1 << 30})
	}
	return validate(limits...)
}

// publishedEvent says which offsets records got.
type publishedEvent struct {
	Shard       int    `json:"shard"`
	FirstOffset uint64 `json:"first_offset"`
	LastOffset  uint64 `json:"last_offset"`
	// Duplicate: the shard held them already.
	Duplicate bool `json:"duplicate,omitempty"`
}

func (publishedEvent) kind() string { return "published" }

func (e publishedEvent) text() string {
	what := "published to"
	if e.Duplicate {
		what = "already in"
	}
	if e.FirstOffset == e.LastOffset {
		return fmt.Sprintf("%s shard %d at offset %d", what, e.Shard, e.FirstOffset)
	}
	return fmt.Sprintf("%s shard %d at offsets %d to %d", what, e.Shard, e.FirstOffset, e.LastOffset)
}

// Run publishes. What was acknowledged before a failure has been printed.
func (c *publishCommand) Run(a *app) error {
	name, err := broker.ParseName(c.Stream)
	if err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	server, err := c.client()
	if err != nil {
		return err
	}
	p := publisher{client: server, name: name, query: c.query(), key: c.Key, out: a.output(c.outputFlags)}
	switch {
	case c.File != "":
		payload, err := readFileOrInput(c.File)
		if err != nil {
			return err
		}
		return p.one(a.ctx, payload)
	case len(c.Text) > 0:
		lines := make([][]byte, len(c.Text))
		for i, text := range c.Text {
			lines[i] = []byte(text)
		}
		return p.batch(a.ctx, lines)
	default:
		return p.lines(a.ctx, os.Stdin, c.Batch)
	}
}

// query chooses the shard, and says which batch it is.
func (c *publishCommand) query() url.Values {
	query := url.Values{}
	if c.PartitionKey != nil {
		query.Set("partition_key", *c.PartitionKey)
	}
	if c.Shard != nil {
		query.Set("shard", strconv.Itoa(*c.Shard))
	}
	if c.ProducerID != nil {
		query.Set("producer_id", strconv.FormatUint(*c.ProducerID, 10))
		query.Set("sequence", strconv.FormatUint(*c.Sequence, 10))
	}
	return query
}

func readFileOrInput(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(path)
}

// publisher publishes to one stream.
type publisher struct {
	client *client
	name   broker.StreamName
	query  url.Values
	// key is what every record gets; nil for none.
	key *string
	out *output
}

// one publishes a payload as it is.
func (p *publisher) one(ctx context.Context, payload []byte) error {
	query := maps.Clone(p.query)
	if p.key != nil {
		query.Set("key", *p.key)
	}
	return p.publish(ctx, query, "application/octet-stream", payload)
}

// batch publishes payloads in one request: all of them or none.
func (p *publisher) batch(ctx context.Context, payloads [][]byte) error {
	body, err := encodeLines(p.key, payloads)
	if err != nil {
		return err
	}
	return p.publish(ctx, p.query, "application/x-ndjson", body)
}

func (p *publisher) publish(ctx context.Context, query url.Values, media string, body []byte) error {
	if body == nil {
		body = []byte{}
	}
	got, err := p.client.publish(ctx, p.name, query, media, body)
	if err != nil {
		return err
	}
	return p.out.emit(got)
}

// publish sends one request and returns its acknowledgement.
func (c *client) publish(ctx context.Context, name broker.StreamName, query url.Values, media string, body []byte) (got publishedEvent, err error) {
	err = c.json(ctx, request{
		method: http.MethodPost, path: streamPath(name, "records"), query: query,
		header: http.Header{"Content-Type": {media}}, body: body,
	}, &got)
	return got, publishedOrNot(err, query.Has("sequence"))
}

// recordLine is one record of a batch.
type recordLine struct {
	Key    *string `json:"key,omitempty"`
	Text   *string `json:"text,omitempty"`
	Base64 []byte  `json:"base64,omitempty"`
}

// encodeLines makes a batch: text where that is possible, base64 otherwise.
func encodeLines(key *string, payloads [][]byte) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	for _, payload := range payloads {
		line := recordLine{Key: key}
		if text := string(payload); utf8.ValidString(text) {
			line.Text = &text
		} else {
			line.Base64 = payload
		}
		if err := encoder.Encode(line); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// lines publishes lines as they come: what has arrived while a request was under
// way goes into the next one.
func (p *publisher) lines(ctx context.Context, from io.Reader, max int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches := make(chan [][]byte)
	failed := make(chan error, 1)
	go func() {
		failed <- readBatches(ctx, bufio.NewReaderSize(from, publishBatchBytes), batches, max)
	}()
	for {
		select {
		case batch := <-batches:
			if err := p.batch(ctx, batch); err != nil {
				return err
			}
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err() // the reader may be stuck until its input ends
		}
	}
}

// readBatches hands over lines until the input ends.
func readBatches(ctx context.Context, from *bufio.Reader, to chan<- [][]byte, max int) error {
	for {
		line, err := readLine(from)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		batch := [][]byte{line}
		for len(batch) < max && bufferedLine(from) {
			if line, err = readLine(from); err != nil {
				return err
			}
			batch = append(batch, line)
		}
		select {
		case to <- batch:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// bufferedLine says that a whole line can be read without waiting.
func bufferedLine(from *bufio.Reader) bool {
	there, err := from.Peek(from.Buffered())
	return err == nil && bytes.IndexByte(there, '\n') >= 0
}

// readLine reads a line without the newline at its end; the last one need not have
// one. All other bytes are the record's, a carriage return too.
func readLine(from *bufio.Reader) ([]byte, error) {
	piece, err := from.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, fmt.Errorf("a line has more than %d bytes; publish it with --file", publishBatchBytes)
	case errors.Is(err, io.EOF) && len(piece) > 0, err == nil:
		return bytes.Clone(bytes.TrimSuffix(piece, []byte{'\n'})), nil
	default:
		return nil, err
	}
}
