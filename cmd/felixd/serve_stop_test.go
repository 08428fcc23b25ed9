package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
)

// stalled publishes to orders and holds the durable write of it. The publish's
// outcome comes on the channel.
func stalled(t *testing.T, s *server, disk *faultdisk.Disk) (held *faultdisk.Injected, published <-chan error) {
	t.Helper()
	c := clientOf(t, s)
	if _, err := c.create(t.Context(), stream("orders"), definitionDocument{Durable: new(true), Shards: new(1), Format: "raw"}); err != nil {
		t.Fatal(err)
	}
	publishText(t, c, stream("orders"), "first", 0)
	fault := durableWrites("orders")
	fault.Stall = true
	held = disk.Inject(fault)
	t.Cleanup(held.Release)
	done := make(chan error, 1)
	go func() { done <- publishTo(t, c, 0, "under way") }()
	select {
	case <-held.Reached():
	case err := <-done:
		t.Fatalf("the publish ended before its write was held: %v", err)
	}
	return held, done
}

func TestAPublishUnderWayIsFinishedBeforeTheEnd(t *testing.T) {
	s, disk := faulty(t)
	held, published := stalled(t, s, disk)
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop("the test says so") }()
	// Once nobody answers at the address any more, the end has begun.
	for {
		conn, err := net.Dial("tcp", s.http.boundAddr())
		if err != nil {
			break
		}
		conn.Close()
	}
	select {
	case err := <-stopped:
		t.Fatalf("the server ended with a publish under way: %v", err)
	case err := <-published:
		t.Fatalf("a publish that is not durable was answered: %v", err)
	default:
	}
	held.Release()
	if err := <-published; err != nil {
		t.Errorf("the publish under way: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("the end: %v", err)
	}
	if line := eventLine(t, said(s), "stopped"); !strings.Contains(line, `"ok":true`) {
		t.Errorf("said %s", line)
	}
}

func TestAnEndThatTakesTooLongSaysWhatWasUnderWay(t *testing.T) {
	s, disk := faulty(t, func(c *serverConfig) { c.shutdownTimeout = 100 * time.Millisecond })
	held, published := stalled(t, s, disk)
	err := s.stop("the test says so")
	if err == nil || exitCode(err) != exitFailure {
		t.Errorf("the end: %v", err)
	}
	if line := eventLine(t, said(s), "stopped"); !strings.Contains(line, `"ok":false`) || !strings.Contains(line, "1 requests under way") {
		t.Errorf("said %s", line)
	}
	held.Release()
	if err := <-published; err == nil {
		t.Error("a publish was acknowledged whose connection had been closed")
	}
	if err := s.broker.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Errorf("closing once the disk answers: %v", err)
	}
}

func TestWhatIsAcknowledgedUnderPeriodicIsSyncedAtTheEnd(t *testing.T) {
	flags := serveFlags(t, "--fsync", "periodic", "--fsync-interval-ms", "3600000")
	s := runServer(t, flags)
	c := clientOf(t, s)
	if _, err := c.create(t.Context(), stream("orders"), definitionDocument{Durable: new(true), Shards: new(1), Format: "raw"}); err != nil {
		t.Fatal(err)
	}
	publishText(t, c, stream("orders"), "not synced yet", 0)
	if n := s.broker.Store().Stats().UnsyncedBytes; n == 0 {
		t.Fatal("nothing waits to be synced")
	}
	if err := s.stop("the test says so"); err != nil {
		t.Fatal(err)
	}
	if line := eventLine(t, said(s), "stopped"); !strings.Contains(line, `"ok":true,"unsynced_bytes":0`) {
		t.Errorf("said %s", line)
	}
}

func TestWhatCannotBeSyncedAtTheEndIsAnError(t *testing.T) {
	s, disk := faulty(t, func(c *serverConfig) {
		c.broker.Engine.FsyncMode, c.broker.Engine.FsyncInterval = engine.FsyncPeriodic, time.Hour
	})
	c := clientOf(t, s)
	if _, err := c.create(t.Context(), stream("orders"), definitionDocument{Durable: new(true), Shards: new(1), Format: "raw"}); err != nil {
		t.Fatal(err)
	}
	publishText(t, c, stream("orders"), "not synced yet", 0)
	fault := durableWrites("orders")
	fault.Errno = syscall.EIO
	disk.Inject(fault)
	err := s.stop("the test says so")
	if err == nil || exitCode(err) != exitFailure {
		t.Errorf("the end: %v", err)
	}
	if line := eventLine(t, said(s), "stopped"); !strings.Contains(line, `"ok":false`) || !strings.Contains(line, "orders") {
		t.Errorf("said %s", line)
	}
}

func TestASubscriptionIsToldToComeBack(t *testing.T) {
	s := runServer(t, serveFlags(t))
	c := clientOf(t, s)
	if _, err := c.create(t.Context(), stream("orders"), definitionDocument{Durable: new(true), Shards: new(1), Format: "raw"}); err != nil {
		t.Fatal(err)
	}
	publishText(t, c, stream("orders"), "first", 0)
	got := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	warned := make(chan string, 1)
	sub := &subscription{client: c, name: stream("orders"), from: "earliest", warn: func(text string) {
		select {
		case warned <- text:
		default:
		}
		cancel()
	}}
	ended := make(chan error, 1)
	go func() { ended <- sub.run(ctx, onRecord(func(feedRecord) { close(got) })) }()
	<-got
	if err := s.stop("the test says so"); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the subscription ended with %v", err)
	}
	if text := <-warned; !strings.HasPrefix(text, "closing: ") {
		t.Errorf("it was told %q", text)
	}
}

// onRecord is a subscriber that cares for records alone.
type onRecord func(feedRecord)

func (f onRecord) started(uint64) error       { return nil }
func (f onRecord) record(r feedRecord) error  { f(r); return nil }
func (f onRecord) missed(e missedEvent) error { return fmt.Errorf("missed %d to %d", e.First, e.Last) }
func (f onRecord) pause() error               { return nil }

func TestSIGTERMEndsAServerInOrderAndASecondOneAtOnce(t *testing.T) {
	for _, second := range []bool{false, true} {
		t.Run(fmt.Sprintf("second %v", second), func(t *testing.T) {
			p := spawn(t, io.Discard, "1", serveFlags(t)...)
			if !second {
				if stopped, err := p.stop(); err != nil || !stopped.OK {
					t.Errorf("%+v: %v", stopped, err)
				}
				return
			}
			// A body that never comes keeps an orderly end waiting.
			conn, err := net.Dial("tcp", p.ready.HTTP)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			c := processClient(t, p)
			if _, err := c.create(t.Context(), stream("orders"), definitionDocument{Durable: new(true), Shards: new(1), Format: "raw"}); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "POST /v1/streams/t1/default/orders/records HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n")
			if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100") {
				t.Fatalf("%q: %v", line, err)
			}
			if err := p.child.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			until(t, "the end begins", func() bool {
				return slices.ContainsFunc(p.later(), func(e processEvent) bool { return e.kind == "stopping" })
			})
			endsBySignal(t, p)
		})
	}
}

// endsBySignal repeats the signal until the process is gone: the first one may still
// be on its way to where it stops being caught.
func endsBySignal(t *testing.T, p *serveProcess) {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		_ = p.child.Process.Signal(syscall.SIGTERM) // fails once it is gone
		select {
		case err := <-p.end:
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
				t.Errorf("the server ended with %v, not by the second signal", err)
			}
			return
		case <-again.C:
		}
	}
}

func TestAReaderOfItsOutputThatLeavesDoesNotEndAServer(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), self)
	child.Args = append([]string{"felixd", "serve", "--json"}, serveFlags(t)...)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), `{"event":"ready"`) {
	}
	out.Close()
	if err := child.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err != nil {
		t.Errorf("the server ended with %v, not in order", err)
	}
}

func TestOutputThatTakesNothingIsWarnedAboutOnceAndDoesNotStopAServer(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full:", err)
	}
	defer full.Close()
	addr := freeAddr(t)
	child := exec.CommandContext(t.Context(), self)
	child.Args = append([]string{"felixd", "serve"}, serveFlags(t, "--admin-addr", addr)...)
	var stderr safeBuffer
	child.Stdout, child.Stderr = full, &stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var out, complaint bytes.Buffer
	if code := run([]string{"ready", "--admin", "http://" + addr, "--wait", "1m"}, &out, &complaint); code != exitOK {
		t.Errorf("the server is not ready: %s%s", complaint.String(), stderr.String())
	}
	if err := child.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err != nil {
		t.Errorf("the server ended with %v, not in order", err)
	}
	if n := strings.Count(stderr.String(), "felixd: warning: standard output takes nothing"); n != 1 {
		t.Errorf("%d warnings: %s", n, stderr.String())
	}
}

func TestAListenerThatFailsIsReportedAndTheRestEndsInOrder(t *testing.T) {
	s := runServer(t, serveFlags(t))
	if err := s.kafka.listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-s.failed; err == nil || !strings.HasPrefix(err.Error(), "kafka is served no longer: ") {
		t.Errorf("got %v", err)
	}
	if err := s.stop("a listener failed"); err != nil {
		t.Errorf("the end: %v", err)
	}
}
