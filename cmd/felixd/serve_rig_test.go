package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"felix.local/felix/broker"
)

// serveFlags are flags of a server that no other test's is in the way of.
func serveFlags(t *testing.T, more ...string) []string {
	t.Helper()
	return append([]string{
		"--dir", t.TempDir(), "--http-addr", "127.0.0.1:0", "--kafka-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--min-free-bytes", "0",
	}, more...)
}

// settings judges flags as the command does.
func settings(t *testing.T, flags ...string) (serverConfig, error) {
	t.Helper()
	parser, c := grammar(t)
	if _, err := parser.Parse(append([]string{"serve"}, flags...)); err != nil {
		t.Fatal(err)
	}
	return c.Serve.config()
}

// runServer runs a server in this process until the test ends; change may alter its
// configuration.
func runServer(t *testing.T, flags []string, change ...func(*serverConfig)) *server {
	t.Helper()
	config, err := settings(t, flags...)
	if err != nil {
		t.Fatal(err)
	}
	config.broker.Logger = slog.New(slog.DiscardHandler)
	config.broker.Engine.Logger = config.broker.Logger
	for _, f := range change {
		f(&config)
	}
	s := newServer(config, &output{w: new(safeBuffer), json: true}, io.Discard, config.broker.Logger)
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.broker != nil && phase(s.ready.phase.Load()) != phaseStopping {
			if err := s.stop("the test ends"); err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

// safeBuffer is a buffer that a server may write while a test reads it.
type safeBuffer struct {
	mu struct {
		sync.Mutex
		b bytes.Buffer
	}
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.b.String()
}

// said is what a server in this process has printed.
func said(s *server) string { return s.out.w.(*safeBuffer).String() }

// get asks a door of a server in this process.
func get(t *testing.T, d *door, path string) (status int, body string) {
	t.Helper()
	answer, err := http.Get("http://" + d.boundAddr() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// clientOf talks to a server in this process.
func clientOf(t *testing.T, s *server) *client {
	t.Helper()
	flags := clientFlags{Server: "http://" + s.http.boundAddr()}
	c, err := flags.client()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// stream names a stream of the tests.
func stream(name string) broker.StreamName {
	return broker.StreamName{Tenant: "t1", Namespace: "default", Stream: name}
}

// spawn runs a server in a process of its own.
func spawn(t *testing.T, stderr io.Writer, ioURing string, flags ...string) *serveProcess {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := startServe(t.Context(), self, childEnvironment(os.Environ(), map[string]string{"FELIX_STORAGE_IO_URING": ioURing}), stderr, flags...)
	if err != nil {
		t.Fatalf("%v\n%v", err, stderr)
	}
	return p
}

// processClient talks to a server in a process of its own.
func processClient(t *testing.T, p *serveProcess) *client {
	t.Helper()
	c, err := p.client()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// publishText publishes one record and wants it at an offset.
func publishText(t *testing.T, c *client, name broker.StreamName, payload string, offset uint64) {
	t.Helper()
	got, err := c.publish(t.Context(), name, nil, "application/octet-stream", []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	if got.FirstOffset != offset {
		t.Fatalf("%q was given offset %d, want %d", payload, got.FirstOffset, offset)
	}
}

// variablesOf gives the variables of a struct of flags.
func variablesOf(flags any) map[string]bool {
	names := make(map[string]bool)
	fields := reflect.TypeOf(flags).Elem()
	for i := range fields.NumField() {
		if name := fields.Field(i).Tag.Get("env"); name != "" {
			names[name] = true
		}
	}
	return names
}

// eventLine gives the first event of a kind that was printed, or fails.
func eventLine(t *testing.T, printed, kind string) string {
	t.Helper()
	for line := range strings.Lines(printed) {
		if strings.HasPrefix(line, fmt.Sprintf(`{"event":%q`, kind)) {
			return line
		}
	}
	t.Fatalf("no event %q in:\n%s", kind, printed)
	return ""
}
