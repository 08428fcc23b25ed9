package httpapi

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// events reads a subscription.
type events struct {
	t        *testing.T
	response *http.Response
	lines    *bufio.Reader
	sse      bool
	cancel   context.CancelFunc
	// id is that of the last event that had one.
	id string
}

// subscribe opens a subscription to the stream that most tests use.
func (f *fixture) subscribe(query string, headers ...string) *events {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	response := f.open(ctx, "GET", orders+"/subscribe"+query, nil, headers...)
	e := &events{t: f.t, response: response, lines: bufio.NewReader(response.Body), cancel: cancel}
	f.t.Cleanup(e.leave)
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(response.Body)
		f.t.Fatalf("status %d: %s", response.StatusCode, body)
	}
	e.sse = response.Header.Get("Content-Type") == mediaEvents
	return e
}

// leave ends it from the client's side.
func (e *events) leave() {
	e.cancel()
	e.response.Body.Close()
}

// next gives the next event, heartbeats included: their name is heartbeat.
func (e *events) next() (name string, l line, err error) {
	if !e.sse {
		text, err := e.lines.ReadBytes('\n')
		if err != nil {
			return "", l, err
		}
		if l = decodeLine(e.t, text); l.Event != "" {
			return l.Event, l, nil
		}
		return "record", l, nil
	}
	data := ""
	for {
		text, err := e.lines.ReadString('\n')
		if err != nil {
			return name, l, err
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(text, "\n"), ": ")
		switch {
		case text == "\n":
			if data != "" {
				l = decodeLine(e.t, []byte(data))
			}
			return name, l, nil
		case field == "":
			name = value
		case field == "event":
			name = value
		case field == "data":
			data = value
		case field == "id":
			e.id = value
		default:
			e.t.Fatalf("%q is no line of an event", text)
		}
	}
}

// expect wants an event of this name next; heartbeats are passed over.
func (e *events) expect(want string) line {
	e.t.Helper()
	for {
		name, l, err := e.next()
		if err != nil {
			e.t.Fatalf("instead of %s: %v", want, err)
		}
		if name == want {
			return l
		}
		if name != "heartbeat" {
			e.t.Fatalf("%s %+v instead of %s", name, l, want)
		}
	}
}

// expectEnd wants nothing more.
func (e *events) expectEnd() {
	e.t.Helper()
	if name, l, err := e.next(); !errors.Is(err, io.EOF) {
		e.t.Fatalf("%s %+v, %v instead of the end", name, l, err)
	}
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("it did not come about: %s", what)
		}
	}
}
