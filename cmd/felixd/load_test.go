package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// What the server is held to under load. residentMax is stated in
// docs/performance.md.
const (
	idleSubscriptions = 2000
	idleStreams       = 20
	loadPublishers    = 50
	busyStreams       = 10
	residentMax       = 384 << 20
)

// loadTime is how long publishers run.
func loadTime() time.Duration {
	if os.Getenv("FELIX_LONG_TESTS") == "1" {
		return 5 * time.Minute
	}
	return 5 * time.Second
}

// loadServer is felixd serve in a process of its own, and a client of it.
type loadServer struct {
	t      *testing.T
	cmd    *exec.Cmd
	http   string
	admin  string
	client *http.Client
}

func startLoadServer(t *testing.T) *loadServer {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < 3*idleSubscriptions {
		t.Skipf("%d descriptors are allowed, %v; the test needs %d", limit.Cur, err, 3*idleSubscriptions)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &loadServer{t: t, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: loadPublishers}}}
	s.cmd = exec.Command(self, "serve", "--dir", t.TempDir(), "--fsync", "on_commit", "--json", "--log-level", "error",
		"--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--kafka-addr", "off", "--http-connections-max", "4096")
	s.cmd.Args[0] = "felixd"
	s.cmd.Stderr = os.Stderr
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var event struct{ Event, HTTP, Admin string }
		if err := json.Unmarshal(lines.Bytes(), &event); err == nil && event.Event == "ready" {
			s.http, s.admin = "http://"+event.HTTP, "http://"+event.Admin
			go func() { _, _ = io.Copy(io.Discard, stdout) }()
			return s
		}
	}
	t.Fatal("the server ended before it was ready")
	return nil
}

func (s *loadServer) do(method, path, body string) ([]byte, error) {
	request, err := http.NewRequest(method, s.http+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s %s", method, path, response.Status, answer)
	}
	return answer, err
}

func loadPath(kind string, n int) string { return fmt.Sprintf("/v1/streams/load/%s/s%d", kind, n) }

// goroutines and resident are what the server's process has now and at its peak.
func (s *loadServer) goroutines() int {
	s.t.Helper()
	response, err := s.client.Get(s.admin + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	match := regexp.MustCompile(`goroutine profile: total (\d+)`).FindSubmatch(answer)
	if match == nil {
		s.t.Fatalf("no goroutine profile: %.200s", answer)
	}
	n, _ := strconv.Atoi(string(match[1]))
	return n
}

func (s *loadServer) resident() int64 {
	s.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	match := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if match == nil {
		s.t.Fatal("no VmHWM")
	}
	n, _ := strconv.ParseInt(string(match[1]), 10, 64)
	return n << 10
}

// subscription is one client that follows a stream.
type loadSubscription struct {
	stream string
	// next is the offset that has to come.
	next  atomic.Uint64
	body  io.ReadCloser
	ended chan error
}

// subscribe returns once the server says that the subscription stands.
func (s *loadServer) subscribe(ctx context.Context, stream string) (*loadSubscription, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.http+stream+"/subscribe?shard=0&from=earliest", nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/x-ndjson")
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	sub := &loadSubscription{stream: stream, body: response.Body, ended: make(chan error, 1)}
	lines := bufio.NewReader(response.Body)
	first, err := lines.ReadBytes('\n')
	if err != nil || !bytes.Contains(first, []byte(`"subscribed"`)) {
		return nil, fmt.Errorf("%s: %s begins with %q: %w", stream, response.Status, first, err)
	}
	go func() { sub.ended <- sub.follow(lines) }()
	return sub, nil
}

// follow takes records until the end of the connection; each has to be the next.
func (sub *loadSubscription) follow(lines *bufio.Reader) error {
	defer func() { _ = sub.body.Close() }()
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil // closed; what it should have got is counted
		}
		var record struct {
			Offset *uint64
			Event  string
		}
		if err := json.Unmarshal(line, &record); err != nil {
			if len(bytes.TrimSpace(line)) == 0 {
				continue // a heartbeat
			}
			return fmt.Errorf("%s: %w in %q", sub.stream, err, line)
		}
		switch {
		case record.Offset == nil && record.Event == "":
			return fmt.Errorf("%s: %q is neither a record nor an event", sub.stream, line)
		case record.Offset != nil && *record.Offset != sub.next.Load():
			return fmt.Errorf("%s: offset %d came where %d was due", sub.stream, *record.Offset, sub.next.Load())
		case record.Offset != nil:
			sub.next.Add(1)
		}
	}
}

// TestTwoThousandIdleSubscriptionsAndFiftyPublishersStayWithinTheirMemory runs for
// five minutes with FELIX_LONG_TESTS=1, and for seconds otherwise.
func TestTwoThousandIdleSubscriptionsAndFiftyPublishersStayWithinTheirMemory(t *testing.T) {
	s := startLoadServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for kind, n := range map[string]int{"idle": idleStreams, "busy": busyStreams} {
		for i := range n {
			if _, err := s.do(http.MethodPut, loadPath(kind, i), `{"retention_bytes":16777216}`); err != nil {
				t.Fatal(err)
			}
		}
	}
	baseline := s.goroutines()
	idle := s.subscribeAll(ctx, "idle", idleStreams, idleSubscriptions)
	busy := s.subscribeAll(ctx, "busy", busyStreams, busyStreams)
	start := time.Now()
	acknowledged := s.publish(ctx, loadTime())
	took := time.Since(start)

	// Idle ones still live: a record on each of their streams reaches all of them.
	for i := range idleStreams {
		if _, err := s.do(http.MethodPost, loadPath("idle", i)+"/records", "wake up"); err != nil {
			t.Fatal(err)
		}
	}
	for _, sub := range idle {
		sub.await(t, 1)
	}
	total := uint64(0)
	for i, sub := range busy {
		sub.await(t, acknowledged[i].Load())
		total += acknowledged[i].Load()
	}
	resident := s.resident()
	t.Logf("%d idle subscriptions, %d publishers: %d records acknowledged in %v (%.0f/s), all delivered; peak %d MiB",
		len(idle), loadPublishers, total, took.Round(time.Second), float64(total)/took.Seconds(), resident>>20)
	if resident > residentMax {
		t.Errorf("the server's memory peaked at %d MiB, above %d MiB", resident>>20, residentMax>>20)
	}
	cancel()
	for _, sub := range append(idle, busy...) {
		if err := <-sub.ended; err != nil {
			t.Error(err)
		}
	}
	s.client.CloseIdleConnections()
	s.settles(baseline)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

func (s *loadServer) subscribeAll(ctx context.Context, kind string, streams, n int) []*loadSubscription {
	s.t.Helper()
	subs, errs := make([]*loadSubscription, n), make([]error, n)
	var wait sync.WaitGroup
	slots := make(chan struct{}, 64)
	for i := range n {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			subs[i], errs[i] = s.subscribe(ctx, loadPath(kind, i%streams))
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		s.t.Fatal(err)
	}
	return subs
}

// publish runs all publishers for a while and gives how many records of each busy
// stream were acknowledged.
func (s *loadServer) publish(ctx context.Context, during time.Duration) []atomic.Uint64 {
	acknowledged := make([]atomic.Uint64, busyStreams)
	deadline := time.Now().Add(during)
	body := strings.Repeat("x", 256)
	var wait sync.WaitGroup
	for p := range loadPublishers {
		wait.Go(func() {
			for ctx.Err() == nil && time.Now().Before(deadline) {
				if _, err := s.do(http.MethodPost, loadPath("busy", p%busyStreams)+"/records", body); err != nil {
					s.t.Error(err)
					return
				}
				acknowledged[p%busyStreams].Add(1)
			}
		})
	}
	wait.Wait()
	return acknowledged
}

// await waits until the subscription got its first n records.
func (sub *loadSubscription) await(t *testing.T, n uint64) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); sub.next.Load() < n; time.Sleep(time.Millisecond) {
		select {
		case err := <-sub.ended:
			t.Fatalf("%s ended after %d of %d records: %v", sub.stream, sub.next.Load(), n, err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has %d of %d records", sub.stream, sub.next.Load(), n)
		}
	}
}

// settles waits until the server has about as many goroutines as before: what is
// left beside them are connections that close by themselves.
func (s *loadServer) settles(baseline int) {
	s.t.Helper()
	const spare = 20
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		now := s.goroutines()
		if now <= baseline+spare {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%d goroutines are left, %d were there before the load", now, baseline)
		}
	}
}
