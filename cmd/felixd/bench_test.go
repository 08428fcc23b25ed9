package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"felix.local/felix/bench"
)

// benchRows runs felixd bench in this process and gives its rows.
func benchRows(t *testing.T, args ...string) ([]bench.Row, error) {
	t.Helper()
	parser, _ := grammar(t)
	parsed, err := parser.Parse(append([]string{"bench", "--dir", t.TempDir(), "--min-free-bytes", "0"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = parsed.Run(&app{ctx: t.Context(), stdout: &out, stderr: io.Discard, logger: slog.New(slog.DiscardHandler)})
	var rows []bench.Row
	for line := range strings.Lines(out.String()) {
		var row bench.Row
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows, err
}

func TestALoadOnAServerIsReadBackAndRemoved(t *testing.T) {
	s := runServer(t, serveFlags(t))
	server := "http://" + s.http.boundAddr()
	for _, batch := range []string{"1", "5"} {
		rows, err := benchRows(t, "--through", "server", "--server", server, "--logs", "2", "--publishers", "3",
			"--batch", batch, "--duration", "100ms", "--warmup", "10ms", "--payload-bytes", "600")
		if err != nil || len(rows) != 1 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		if rows[0].Records == 0 || rows[0].VerifiedRecords < rows[0].Records || rows[0].CPUMicrosPerAppend != 0 {
			t.Errorf("got %+v", rows[0])
		}
	}
	if streams := s.broker.Streams(); len(streams) != 0 {
		t.Errorf("%d streams were left", len(streams))
	}
}

// A server that acknowledges what it does not keep is found out, and the exit code
// says so.
func TestALoadOnAServerThatLosesARecordFails(t *testing.T) {
	s := runServer(t, serveFlags(t))
	parser, c := grammar(t)
	if _, err := parser.Parse([]string{"bench", "--dir", t.TempDir(), "--through", "server", "--server", "http://" + s.http.boundAddr()}); err != nil {
		t.Fatal(err)
	}
	client, err := c.Bench.Run.clientFlags.client()
	if err != nil {
		t.Fatal(err)
	}
	client.http.Transport = &losing{RoundTripper: client.http.Transport}
	config, err := c.Bench.Run.storageFlags.config(logDefaults())
	if err != nil {
		t.Fatal(err)
	}
	system, err := openServerStream(t.Context(), client, bench.Point{Logs: 1, Load: bench.Load{Concurrency: 1}}, config)
	if err != nil {
		t.Fatal(err)
	}
	trial := bench.Trial{
		Dir: t.TempDir(), FloorSamples: 1, Load: bench.Load{Records: 20, PayloadBytes: 64, Batch: 1, Concurrency: 1},
		Open: func(context.Context) (*bench.System, error) { return system, nil },
	}
	_, err = trial.Run(t.Context())
	err = benchFailed(err)
	var lost *bench.LostError
	if !errors.As(err, &lost) || exitCode(err) != exitVerify {
		t.Errorf("got %v, exit code %d", err, exitCode(err))
	}
}

// losing answers the tenth publish itself.
type losing struct {
	http.RoundTripper
	publishes atomic.Int64
}

func (l *losing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || l.publishes.Add(1) != 10 {
		return l.RoundTripper.RoundTrip(r)
	}
	body := `{"shard":0,"first_offset":9,"last_offset":9}`
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func TestASweepVariesOneFigureAtATime(t *testing.T) {
	parser, c := grammar(t)
	_, err := parser.Parse([]string{
		"bench", "--dir", "x", "--logs", "2", "--publishers", "8", "--batch", "3",
		"--sweep", "publishers=1,16", "--sweep", "logs=1 32", "--sweep", "batch=7", "--sweep", "payload-bytes=1000",
	})
	if err != nil {
		t.Fatal(err)
	}
	type figures struct {
		axis                                         string
		value, logs, publishers, batch, payloadBytes int
	}
	var got []figures
	for _, p := range c.Bench.Run.points() {
		got = append(got, figures{p.Axis, p.Value, p.Logs, p.Load.Concurrency, p.Load.Batch, p.Load.PayloadBytes})
	}
	want := []figures{
		{"publishers", 1, 2, 2, 3, 128}, // one per log at least
		{"publishers", 16, 2, 16, 3, 128},
		{"logs", 1, 1, 8, 3, 128},
		{"logs", 32, 32, 32, 3, 128},
		{"batch", 7, 2, 8, 7, 128},
		{"payload-bytes", 1000, 2, 8, 3, 1000},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(figures{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestATimeHasAUnitOrIsInSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{"1500ms": 1500 * time.Millisecond, "2": 2 * time.Second, "0.25": 250 * time.Millisecond, "1m30s": 90 * time.Second} {
		var got span
		if err := got.UnmarshalText([]byte(text)); err != nil || time.Duration(got) != want {
			t.Errorf("%s: got %v, %v", text, time.Duration(got), err)
		}
	}
	for _, text := range []string{"", "soon", "2 s", "NaN", "Inf"} {
		if err := new(span).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken for a time", text)
		}
	}
}

func TestASideHasItsSettingsAndTheFlagsOfAll(t *testing.T) {
	parser, c := grammar(t)
	if _, err := parser.Parse([]string{"bench", "ab", "--dir", "x", "--segment-bytes", "4096", "--io-uring", "require"}); err != nil {
		t.Fatal(err)
	}
	a := &app{ctx: t.Context(), logger: slog.New(slog.DiscardHandler)}
	side, err := c.Bench.AB.side(a, "--a", []string{"FELIX_STORAGE_IO_URING=0", "FELIX_DURABLE_FSYNC_MODE=none"})
	if err != nil {
		t.Fatal(err)
	}
	system, err := side.Open(t.Context(), t.TempDir(), bench.Point{Logs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := system.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if system.Backend != "pool" || system.Fsync != "none" {
		t.Errorf("the side runs on %s with %s, want the pool with none", system.Backend, system.Fsync)
	}
}

// A report is made to be shown, and a token is not.
func TestTheCommandOfAReportHasNoToken(t *testing.T) {
	environ := []string{"FELIX_TOKEN=who.secret", "FELIX_DURABLE_FSYNC_MODE=none", "HOME=/root", "FELIX_STORAGE_IO_URING=it's"}
	got := commandLine([]string{"/usr/bin/felixd", "bench", "--token", "who.secret", "--token=who.secret", "--dir", "a b", "--label", ""}, environ)
	want := `FELIX_DURABLE_FSYNC_MODE=none FELIX_STORAGE_IO_URING='it'\''s' felixd bench --token … --token=… --dir 'a b' --label ''`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
