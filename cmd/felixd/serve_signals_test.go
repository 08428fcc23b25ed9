package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The signals are caught before the first one, for the time of one request after it, and
// not any more then.
func TestARepeatedRequestToEndIsHeardAgainOnceItIsAnotherOne(t *testing.T) {
	ctx, first := context.WithCancel(t.Context())
	var caught, released int
	begun := make(chan func(), 1)
	repeats{
		catch: func() { caught++ }, release: func() { released++ },
		later: func(after time.Duration, do func()) {
			if after != sameRequest {
				t.Errorf("after %v", after)
			}
			begun <- do
		},
	}.ignore(ctx)
	if caught != 1 || released != 0 || len(begun) != 0 {
		t.Errorf("before the first: caught %d times, released %d times, %d to come", caught, released, len(begun))
	}
	first()
	over := <-begun
	if caught != 1 || released != 0 {
		t.Errorf("after the first: caught %d times, released %d times", caught, released)
	}
	over()
	if caught != 1 || released != 1 {
		t.Errorf("a while after the first: caught %d times, released %d times", caught, released)
	}
}

// ending is a server that was asked to end and cannot before a publish is finished.
type ending struct {
	*serveProcess
	publish net.Conn
	answer  *bufio.Reader
}

// newEnding sends the first signal and returns once the end has begun.
func newEnding(t *testing.T) *ending {
	t.Helper()
	p := spawn(t, os.Stderr, "0", serveFlags(t, "--fsync", "on_commit")...)
	t.Cleanup(func() { _ = p.child.Process.Kill() }) // fails where it is gone already
	c := processClient(t, p)
	if _, err := c.create(t.Context(), stream("orders"), definitionDocument{}); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", p.ready.HTTP)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "POST /%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"+
		"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n", streamPath(stream("orders"), "records"))
	e := &ending{p, conn, bufio.NewReader(conn)}
	if line, err := e.answer.ReadString('\n'); !strings.Contains(line, " 100 ") {
		t.Fatalf("%q: %v", line, err) // the server waits for the body
	}
	if _, err := e.answer.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	e.signal(t)
	until(t, "the end began", func() bool { return e.has("stopping") })
	return e
}

func (e *ending) signal(t *testing.T) {
	t.Helper()
	if err := e.child.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}

func (e *ending) has(kind string) bool {
	for _, said := range e.later() {
		if said.kind == kind {
			return true
		}
	}
	return false
}

func TestASecondSignalRightAfterTheFirstDoesNotCutTheEndShort(t *testing.T) {
	for attempt := 1; ; attempt++ {
		before := time.Now()
		e := newEnding(t)
		e.signal(t)
		took := time.Since(before)
		fmt.Fprint(e.publish, "hello")
		answer, err := http.ReadResponse(e.answer, nil)
		ended := <-e.end
		if took >= sameRequest && attempt < 10 {
			continue // a machine that is so slow sent another request
		}
		if took >= sameRequest {
			t.Skip("this machine takes a second for two signals")
		}
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("the publish under way: %v, %v", answer, err)
		}
		if ended != nil || !e.has("stopped") {
			t.Errorf("the server ended with %v, having said that it stopped: %v", ended, e.has("stopped"))
		}
		return
	}
}

// For as long as the publish is not finished, which is up to the server's time for an
// end, nothing but a signal ends it.
func TestALaterSignalEndsAServerAtOnce(t *testing.T) {
	e := newEnding(t)
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for range 200 {
		e.signal(t)
		select {
		case err := <-e.end:
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM || e.has("stopped") {
				t.Errorf("the server ended with %v, not by the signal", err)
			}
			return
		case <-again.C:
		}
	}
	t.Error("the server outlived 200 signals")
}
