package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/fallback"
	"felix.local/felix/internal/faultdisk"
)

// readyOf asks /ready.
func readyOf(t *testing.T, s *server) (status int, report readyReport) {
	t.Helper()
	status, body := get(t, s.admin, "/ready")
	if err := json.Unmarshal([]byte(body), &report); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return status, report
}

// publishTo publishes to a shard.
func publishTo(t *testing.T, c *client, shard int, payload string) error {
	t.Helper()
	_, err := c.publish(t.Context(), stream("orders"), url.Values{"shard": {strconv.Itoa(shard)}}, "", []byte(payload))
	return err
}

func TestOneDamagedShardOfEightIsListedAndTheOthersServe(t *testing.T) {
	const shards, damaged = 8, 3
	flags := serveFlags(t, "--fsync", "on_commit")
	s := runServer(t, flags)
	c := clientOf(t, s)
	if _, err := c.create(t.Context(), stream("orders"), definitionDocument{Durable: new(true), Shards: new(shards), Format: "raw"}); err != nil {
		t.Fatal(err)
	}
	for shard := range shards {
		for i := range 5 {
			if err := publishTo(t, c, shard, fmt.Sprintf("%d-%d", shard, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.stop("to damage a shard"); err != nil {
		t.Fatal(err)
	}
	damage(t, flags[1], fmt.Sprintf("%d-1", damaged))

	s = runServer(t, flags)
	status, report := readyOf(t, s)
	if status != 200 || !report.Ready || report.UnavailableCount != 1 || len(report.Unavailable) != 1 {
		t.Fatalf("/ready answers %d: %+v", status, report)
	}
	if u := report.Unavailable[0]; u.Stream != "t1/default/orders" || u.Shard != damaged || u.State != "refused" || u.Reason == "" {
		t.Errorf("listed %+v", u)
	}
	if line := eventLine(t, said(s), "unavailable"); !strings.Contains(line, `"shard":3,"state":"refused"`) {
		t.Errorf("said %s", line)
	}
	wantMetric(t, s, `felix_broker_shards_unavailable{state="refused"} 1`)

	code, _, answer := felixd(t, s, "subscribe", "t1/default/orders", "--shard", "3", "--from", "earliest", "--count", "1")
	if code != exitFailure || !strings.Contains(answer, "shard 3 is refused: ") || strings.Contains(answer, "connecting again") {
		t.Errorf("a subscription to it ends with %d: %s", code, answer)
	}

	c = clientOf(t, s)
	for shard := range shards {
		err := publishTo(t, c, shard, "more")
		records, readErr := c.read(t.Context(), request{
			method: "GET", path: streamPath(stream("orders"), "records"), query: url.Values{"shard": {strconv.Itoa(shard)}, "from": {"0"}},
		})
		if shard == damaged {
			for _, err := range []error{err, readErr} {
				var answered *serverError
				if !errors.As(err, &answered) || answered.Status != 503 || answered.Code != "unavailable" || answered.Action == "" {
					t.Errorf("shard %d answers %v", shard, err)
				}
			}
			continue
		}
		if err != nil || readErr != nil || len(records) != 6 || string(records[4].payload()) != fmt.Sprintf("%d-4", shard) {
			t.Errorf("shard %d: publish %v, read %v, %d records", shard, err, readErr, len(records))
		}
	}

	var stdout, stderr bytes.Buffer
	if code := run([]string{"ready", "--json", "--admin", "http://" + s.admin.boundAddr()}, &stdout, &stderr); code != exitOK || !strings.Contains(stdout.String(), `"shard":3`) {
		t.Errorf("felixd ready exits %d: %s%s", code, stdout.String(), stderr.String())
	}
}

// damage changes a byte of the record with this payload, which is not the last of its
// segment.
func damage(t *testing.T, root, payload string) {
	t.Helper()
	found := 0
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".log" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at := bytes.Index(data, []byte(payload))
		if at < 0 {
			return nil
		}
		found++
		data[at] ^= 0xff
		return os.WriteFile(path, data, 0o640)
	})
	if err != nil || found != 1 {
		t.Fatalf("%q was found in %d segments: %v", payload, found, err)
	}
}

// wantMetric wants a line on /metrics.
func wantMetric(t *testing.T, s *server, line string) {
	t.Helper()
	if _, body := get(t, s.admin, "/metrics"); !strings.Contains(body, "\n"+line+"\n") {
		t.Errorf("/metrics lacks %q", line)
	}
}

func TestADefinitionThatCannotBeReadStopsNoOtherStream(t *testing.T) {
	flags := serveFlags(t)
	s := runServer(t, flags)
	c := clientOf(t, s)
	for _, name := range []string{"orders", "bills"} {
		if _, err := c.create(t.Context(), stream(name), definitionDocument{Durable: new(true), Shards: new(1), Format: "raw"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.stop("to damage a definition"); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(flags[1], ".felixd", "streams", "*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v: %v", files, err)
	}
	for _, path := range files {
		if strings.Contains(filepath.Base(path), "orders") {
			if err := os.WriteFile(path, []byte("{"), 0o640); err != nil {
				t.Fatal(err)
			}
		}
	}

	s = runServer(t, flags)
	status, report := readyOf(t, s)
	if status != 200 || report.UnavailableCount != 1 || report.Unavailable[0].Shard != -1 {
		t.Errorf("/ready answers %d: %+v", status, report)
	}
	wantMetric(t, s, "felix_broker_streams_unreadable 1")
	c = clientOf(t, s)
	publishText(t, c, stream("bills"), "served", 0)
	if _, err := c.publish(t.Context(), stream("orders"), nil, "", []byte("x")); err == nil {
		t.Error("a stream without a definition takes records")
	}
}

// faulty runs a server whose disk can be made to fail.
func faulty(t *testing.T, change ...func(*serverConfig)) (*server, *faultdisk.Disk) {
	t.Helper()
	pool := fallback.Open(fallback.Options{Workers: 4})
	disk := faultdisk.New(device.OS(), pool, faultdisk.Options{})
	t.Cleanup(func() { _ = pool.Close() }) // what an abandoned operation left is the test's
	s := runServer(t, serveFlags(t, "--fsync", "on_commit"), append(change, func(c *serverConfig) {
		c.broker.Engine.FS, c.broker.Engine.Queue = disk.FS(), disk.Queue()
	})...)
	return s, disk
}

// durableWrites matches those of one stream's segments.
func durableWrites(stream string) faultdisk.Fault {
	return faultdisk.Fault{
		Kinds: faultdisk.WriteDsync | faultdisk.Flush | faultdisk.FlushAll, Times: faultdisk.Forever,
		Path: func(path string) bool {
			return strings.HasSuffix(path, ".log") && strings.Contains(filepath.Base(filepath.Dir(path)), stream)
		},
	}
}

func TestAShardPoisonedAtRunTimeIsListedAndTheOthersServe(t *testing.T) {
	s, disk := faulty(t)
	c := clientOf(t, s)
	for _, name := range []string{"orders", "bills"} {
		if _, err := c.create(t.Context(), stream(name), definitionDocument{Durable: new(true), Shards: new(1), Format: "raw"}); err != nil {
			t.Fatal(err)
		}
		publishText(t, c, stream(name), "before", 0)
	}
	fault := durableWrites("orders")
	fault.Errno = syscall.EIO
	injected := disk.Inject(fault)
	err := publishTo(t, c, 0, "lost")
	var answered *serverError
	if !errors.As(err, &answered) || answered.Status != 503 {
		t.Fatalf("a publish whose write failed: %v", err)
	}
	injected.Remove()
	if err := publishTo(t, c, 0, "after"); !errors.As(err, &answered) || answered.Code != "unavailable" {
		t.Errorf("a poisoned shard answers %v", err)
	}
	status, report := readyOf(t, s)
	if status != 200 || !report.Ready || report.UnavailableCount != 1 || report.Unavailable[0].State != "poisoned" ||
		report.Unavailable[0].Stream != "t1/default/orders" {
		t.Errorf("/ready answers %d: %+v", status, report)
	}
	wantMetric(t, s, `felix_broker_shards_unavailable{state="poisoned"} 1`)
	publishText(t, c, stream("bills"), "goes on", 1)

	// What was acknowledged is readable, and the end says what happened.
	records, err := c.read(t.Context(), request{method: "GET", path: streamPath(stream("orders"), "records"), query: url.Values{"from": {"0"}}})
	if err != nil || len(records) != 1 || string(records[0].payload()) != "before" {
		t.Errorf("%d records: %v", len(records), err)
	}
	if err := s.stop("the test ends"); err == nil || exitCode(err) != exitFailure {
		t.Errorf("a server with a poisoned shard ends with %v", err)
	}
	if line := eventLine(t, said(s), "stopped"); !strings.Contains(line, `"ok":false`) || !strings.Contains(line, "t1/default/orders/0") {
		t.Errorf("said %s", line)
	}
}

func TestAServerWithNothingLeftToServeIsNotReady(t *testing.T) {
	s, disk := faulty(t)
	c := clientOf(t, s)
	if _, err := c.create(t.Context(), stream("orders"), definitionDocument{Durable: new(true), Shards: new(1), Format: "raw"}); err != nil {
		t.Fatal(err)
	}
	fault := durableWrites("orders")
	fault.Errno = syscall.EIO
	disk.Inject(fault)
	if err := publishTo(t, c, 0, "lost"); err == nil {
		t.Fatal("a publish whose write failed was acknowledged")
	}
	status, report := readyOf(t, s)
	if status != 503 || report.Ready || report.Reason == "" || report.UnavailableCount != 1 {
		t.Errorf("/ready answers %d: %+v", status, report)
	}
	wantMetric(t, s, "felix_broker_ready 0")
	if status, _ := get(t, s.admin, "/live"); status != 200 {
		t.Errorf("/live answers %d", status)
	}
	var stdout, stderr bytes.Buffer
	if code := run([]string{"ready", "--json", "--admin", "http://" + s.admin.boundAddr()}, &stdout, &stderr); code != exitFailure {
		t.Errorf("felixd ready exits %d: %s%s", code, stdout.String(), stderr.String())
	}
	if err := s.stop("the test ends"); err == nil {
		t.Error("the end is silent about the poisoned shard")
	}
}

func TestAServerThatIsStillOpeningIsAliveAndNotReady(t *testing.T) {
	pool := fallback.Open(fallback.Options{Workers: 4})
	disk := faultdisk.New(device.OS(), pool, faultdisk.Options{})
	held := disk.Inject(faultdisk.Fault{Kinds: faultdisk.All, Stall: true})
	defer held.Release()
	addr := freeAddr(t)
	config, err := settings(t, serveFlags(t, "--admin-addr", addr)...)
	if err != nil {
		t.Fatal(err)
	}
	config.broker.Logger = slog.New(slog.DiscardHandler)
	config.broker.Engine.FS, config.broker.Engine.Queue = disk.FS(), disk.Queue()
	s := newServer(config, &output{w: new(safeBuffer), json: true}, io.Discard, config.broker.Logger)
	started := make(chan error, 1)
	go func() { started <- s.start(t.Context()) }()
	select {
	case <-held.Reached():
	case err := <-started:
		t.Fatalf("nothing was held: %v", err)
	}
	if got := status(t, addr, "/live", ""); got != 200 {
		t.Errorf("/live answers %d", got)
	}
	if got := status(t, addr, "/ready", ""); got != 503 {
		t.Errorf("/ready answers %d", got)
	}
	if line := eventLine(t, said(s), "opening"); !strings.Contains(line, config.broker.Root) || !strings.Contains(line, `"default":false`) || strings.Contains(said(s), `"storage"`) {
		t.Errorf("said %s", said(s))
	}
	held.Release()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	if got := status(t, addr, "/ready", ""); got != 200 {
		t.Errorf("/ready answers %d once everything is open", got)
	}
	if err := s.stop("the test ends"); err != nil {
		t.Error(err)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
}

func TestTheServerIsNotReadyWhileItOpensOrStops(t *testing.T) {
	for p, want := range map[phase]string{phaseOpening: "opened", phaseStopping: "stopping"} {
		var r readiness
		r.set(p)
		if report := r.report(); report.Ready || !strings.Contains(report.Reason, want) {
			t.Errorf("%d: %+v", p, report)
		}
	}
}
