package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// serverKillCycles is how often a server is killed per mode and backend.
func serverKillCycles() int {
	if os.Getenv("FELIX_LONG_TESTS") == "1" {
		return 20
	}
	return 2
}

// A kill leaves the page cache alone, so in every mode a subscription gets every
// acknowledged record exactly once and in order, however often the server is killed.
func TestAKilledServerLosesNothingAndSubscriptionsResume(t *testing.T) {
	for backend, setting := range backends() {
		for _, mode := range []string{"none", "periodic", "on_commit"} {
			t.Run(backend+" "+mode, func(t *testing.T) {
				t.Parallel()
				serverKillLoop(t, setting, mode)
			})
		}
	}
}

func serverKillLoop(t *testing.T, ioURing, mode string) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	flags := killFlags(t, mode)
	p := spawn(t, os.Stderr, ioURing, flags...)
	w := &writers{client: processClient(t, p), acked: make(map[uint64]string)}
	if _, err := w.client.create(t.Context(), stream("orders"), definitionDocument{Durable: new(true), Shards: new(1), Format: "raw"}); err != nil {
		t.Fatal(err)
	}
	var got []string
	ended := make(chan error, 1)
	sub := &subscription{client: w.client, name: stream("orders"), from: "earliest", warn: func(string) {}}
	go func() {
		ended <- sub.run(t.Context(), untilEnd(func(r feedRecord) { got = append(got, string(r.payload())) }))
	}()
	for range serverKillCycles() {
		w.untilKilled(t, p, 1+random.IntN(150))
		p = spawn(t, os.Stderr, ioURing, flags...)
	}
	last := w.publish(t, theEnd)
	if err := <-ended; !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	if stopped, err := p.stop(); err != nil || !stopped.OK {
		t.Errorf("%+v: %v", stopped, err)
	}
	if uint64(len(got)) != last+1 {
		t.Errorf("%d records were given up to offset %d", len(got), last)
	}
	w.check(t, got)
}

// killFlags are those of servers that have one address, one after the other.
func killFlags(t *testing.T, mode string) []string {
	t.Helper()
	return []string{
		"--dir", t.TempDir(), "--fsync", mode, "--http-addr", freeAddr(t), "--kafka-addr", "off", "--admin-addr", "off",
		"--segment-bytes", "20000", "--min-free-bytes", "0",
	}
}

// freeAddr finds an address below those that the system hands out by itself: one of
// those could be given to somebody else while no server has it.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 100 {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000)))
		if err == nil {
			listener.Close()
			return listener.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

// theEnd is the last payload of a stream.
const theEnd = "the end"

// untilEnd is a subscriber that has enough when theEnd has come.
type untilEnd func(feedRecord)

func (f untilEnd) record(r feedRecord) error {
	f(r)
	if string(r.payload()) == theEnd {
		return errEnough
	}
	return nil
}

func (f untilEnd) started(uint64) error       { return nil }
func (f untilEnd) missed(e missedEvent) error { return fmt.Errorf("missed %d to %d", e.First, e.Last) }
func (f untilEnd) pause() error               { return nil }

// writers publish to a server that is killed, and know what was acknowledged.
type writers struct {
	client *client
	mu     sync.Mutex
	acked  map[uint64]string // guarded by mu
	next   atomic.Uint64
}

// untilKilled publishes from several connections and kills the server after so many
// acknowledgements.
func (w *writers) untilKilled(t *testing.T, p *serveProcess, acks int) {
	t.Helper()
	var publishing sync.WaitGroup
	var once sync.Once
	enough := make(chan struct{})
	var n atomic.Int64
	for range 4 {
		publishing.Go(func() {
			for {
				payload := fmt.Sprintf("record-%d", w.next.Add(1))
				got, err := w.client.publish(t.Context(), stream("orders"), nil, "", []byte(payload))
				if err != nil {
					once.Do(func() { close(enough) })
					return
				}
				w.mu.Lock()
				w.acked[got.FirstOffset] = payload
				w.mu.Unlock()
				if n.Add(1) == int64(acks) {
					once.Do(func() { close(enough) })
				}
			}
		})
	}
	<-enough
	if err := p.kill(); err != nil {
		t.Fatal(err)
	}
	publishing.Wait()
	if got := n.Load(); got < int64(acks) {
		t.Fatalf("only %d of %d publishes were acknowledged before the kill", got, acks)
	}
}

func (w *writers) publish(t *testing.T, payload string) (offset uint64) {
	t.Helper()
	got, err := w.client.publish(t.Context(), stream("orders"), nil, "", []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	w.acked[got.FirstOffset] = payload
	return got.FirstOffset
}

// check wants every acknowledged record at its offset, and no payload twice.
func (w *writers) check(t *testing.T, got []string) {
	t.Helper()
	for offset, payload := range w.acked {
		if offset >= uint64(len(got)) || got[offset] != payload {
			t.Errorf("offset %d: %q was acknowledged and not given", offset, payload)
		}
	}
	sorted := slices.Sorted(slices.Values(got))
	if unique := slices.Compact(slices.Clone(sorted)); len(unique) != len(sorted) {
		t.Errorf("%d payloads were given twice", len(sorted)-len(unique))
	}
}

// A felixd subscribe with a resume file that is killed too, as its server is, prints
// every record: again what its last checkpoint had not reached, and none left out.
func TestAKilledSubscriberGoesOnBehindItsCheckpoint(t *testing.T) {
	flags := killFlags(t, "on_commit")
	p := spawn(t, os.Stderr, "1", flags...)
	w := &writers{client: processClient(t, p), acked: make(map[uint64]string)}
	if _, err := w.client.create(t.Context(), stream("orders"), definitionDocument{Durable: new(true), Shards: new(1), Format: "raw"}); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	resume := filepath.Join(t.TempDir(), "resume.json")
	start := func() (*exec.Cmd, io.ReadCloser) {
		child := exec.CommandContext(t.Context(), self)
		child.Args = []string{
			"felixd", "subscribe", "t1/default/orders", "--from", "earliest", "--json", "--resume-file", resume, "--server", "http://" + p.ready.HTTP,
		}
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		return child, out
	}
	var got []string
	for cycle := range 1 + serverKillCycles() {
		child, out := start()
		lines := bufio.NewScanner(out)
		if cycle < serverKillCycles() {
			w.untilKilled(t, p, 100)
			p = spawn(t, os.Stderr, "1", flags...)
			w.publish(t, fmt.Sprintf("after restart %d", cycle))
		} else {
			w.publish(t, theEnd)
		}
		printed, first := 0, uint64(0)
		for lines.Scan() {
			var r feedRecord
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
			if printed == 0 {
				first = r.Offset
			}
			if r.Offset != first+uint64(printed) || r.Offset > uint64(len(got)) {
				t.Fatalf("offset %d was printed after %d records from %d on, %d in all", r.Offset, printed, first, len(got))
			}
			printed++
			if payload := string(r.payload()); r.Offset < uint64(len(got)) {
				if got[r.Offset] != payload {
					t.Errorf("offset %d was %q and is %q", r.Offset, got[r.Offset], payload)
				}
			} else {
				got = append(got, payload)
			}
			if payload := string(r.payload()); payload == theEnd || strings.HasPrefix(payload, fmt.Sprintf("after restart %d", cycle)) {
				break
			}
		}
		_, _ = child.Process.Kill(), child.Wait()
	}
	if _, err := p.stop(); err != nil {
		t.Error(err)
	}
	w.check(t, got)
}
