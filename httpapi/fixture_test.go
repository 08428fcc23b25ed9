package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a broker behind a server on a port of its own.
type fixture struct {
	t      *testing.T
	broker *broker.Broker
	server *Server
	addr   string
	base   string
	client *http.Client
}

// patience ends a test that waits for what does not come.
const patience = 30 * time.Second

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func inMemory(t *testing.T, cfg broker.Config) *broker.Broker {
	t.Helper()
	cfg.Logger = quiet()
	return openBroker(t, cfg)
}

func durable(t *testing.T, root string) *broker.Broker {
	t.Helper()
	config := engine.DefaultConfig()
	config.FsyncMode = engine.FsyncOnCommit
	config.SegmentBytes = 4096
	config.Logger = quiet()
	config.IOURing = engine.IOURingOff
	return openBroker(t, broker.Config{Root: root, Engine: config, Logger: quiet()})
}

func openBroker(t *testing.T, cfg broker.Config) *broker.Broker {
	t.Helper()
	b, err := broker.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Errorf("closing the broker: %v", err)
		}
	})
	return b
}

// start serves with a configuration, of which Broker and Logger are filled in.
func start(t *testing.T, b *broker.Broker, cfg Config) *fixture {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return startOn(t, b, cfg, listener, "http", &http.Transport{})
}

func startOn(t *testing.T, b *broker.Broker, cfg Config, listener net.Listener, scheme string, transport *http.Transport) *fixture {
	t.Helper()
	cfg.Broker = b
	if cfg.Logger == nil {
		cfg.Logger = quiet()
	}
	server, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, broker: b, server: server, addr: listener.Addr().String()}
	f.base = scheme + "://" + f.addr
	f.client = &http.Client{
		Transport: &checked{t: t, next: transport, document: document(t)},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			t.Error("the server answered with a redirect")
			return http.ErrUseLastResponse
		},
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("shutting down: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serving: %v", err)
		}
		if n := server.Stats().Panics; n != 0 {
			t.Errorf("%d requests panicked", n)
		}
		if stats := server.Stats(); stats.BufferedBytes != 0 || stats.PageBytes != 0 || stats.RequestsActive != 0 || stats.Subscriptions != 0 {
			t.Errorf("something is still held: %+v", stats)
		}
	})
	return f
}

// reply is an answer that was read to its end.
type reply struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
}

// send makes a request; headers are "Name: value".
func (f *fixture) send(method, path, body string, headers ...string) reply {
	f.t.Helper()
	response := f.open(f.t.Context(), method, path, strings.NewReader(body), headers...)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		f.t.Fatalf("%s %s: %v", method, path, err)
	}
	return reply{f.t, response.StatusCode, response.Header, data}
}

// open makes a request and leaves the answer's body to be read.
func (f *fixture) open(ctx context.Context, method, path string, body io.Reader, headers ...string) *http.Response {
	f.t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, f.base+path, body)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, line := range headers {
		if name, value, found := strings.Cut(line, ": "); found {
			request.Header.Add(name, value)
		}
	}
	response, err := f.client.Do(request)
	if err != nil {
		f.t.Fatalf("%s %s: %v", method, path, err)
	}
	return response
}

// want checks the status.
func (r reply) want(status int) reply {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("status %d instead of %d: %s", r.status, status, r.body)
	}
	return r
}

// refused checks the status and the code of an error, and gives its fields.
func (r reply) refused(status int, code string) map[string]any {
	r.t.Helper()
	r.want(status)
	var answer struct{ Error map[string]any }
	decode(r.t, r.body, &answer)
	if answer.Error["code"] != code {
		r.t.Fatalf("code %v instead of %s: %s", answer.Error["code"], code, r.body)
	}
	return answer.Error
}

// json decodes the body.
func (r reply) json(into any) {
	r.t.Helper()
	decode(r.t, r.body, into)
}

// lines decodes an NDJSON body of records.
func (r reply) lines() []line {
	r.t.Helper()
	var all []line
	for text := range bytes.Lines(r.body) {
		all = append(all, decodeLine(r.t, text))
	}
	return all
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(into); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
}

// line is a record or an event as clients get it.
type line struct {
	Event           string
	Shard           int
	Offset          uint64
	TimestampMicros uint64 `json:"timestamp_micros"`
	Text            *string
	Base64          []byte
	Key             *string
	KeyBase64       []byte `json:"key_base64"`
	Headers         []struct {
		Key       string
		KeyBase64 []byte `json:"key_base64"`
		Text      *string
		Base64    []byte
	}
	StartOffset uint64 `json:"start_offset"`
	LiveOffset  uint64 `json:"live_offset"`
	First, Last uint64
	Error       map[string]any
}

// decodeLine decodes one line of NDJSON, or the data of an event, and holds it
// against the document.
func decodeLine(t *testing.T, text []byte) line {
	t.Helper()
	var l line
	decode(t, text, &l)
	schema := "Record"
	if l.Event != "" {
		schema = "Event"
	}
	conform(t, schema, text)
	return l
}

const orders = "/v1/streams/acme/shop/orders"

// stream creates the stream that most tests use.
func (f *fixture) stream(definition string) {
	f.t.Helper()
	f.send("PUT", orders, definition).want(http.StatusCreated)
}

// publish appends one record.
func (f *fixture) publish(value string) published {
	f.t.Helper()
	var p published
	f.send("POST", orders+"/records", value).want(http.StatusOK).json(&p)
	return p
}

type published struct {
	Shard int
	First uint64 `json:"first_offset"`
	Last  uint64 `json:"last_offset"`
}
