package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"felix.local/felix/auth"
)

// dialed is a connection that says nothing.
func dialed(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// wantClosed waits until the other side has closed a connection.
func wantClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	_, err := conn.Read(make([]byte, 1))
	var timeout net.Error
	if err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("the connection is open: %v", err)
	}
}

func TestSilentAdminConnectionsGiveWayToThoseThatAsk(t *testing.T) {
	s := runServer(t, serveFlags(t, "--admin-connections-max", "2"))
	var silent []net.Conn
	for range 5 {
		silent = append(silent, dialed(t, s.admin.boundAddr()))
	}
	if got := status(t, s.admin.boundAddr(), "/live", ""); got != 200 {
		t.Errorf("/live answers %d", got)
	}
	// Of five and the one that asked, two have a place.
	entrance := s.admin.listener.(*turnstile)
	entrance.mu.Lock()
	open := len(entrance.mu.silentSince)
	entrance.mu.Unlock()
	if open > 2 {
		t.Errorf("%d connections are open", open)
	}
	for _, conn := range silent[:4] {
		wantClosed(t, conn)
	}
}

func TestAnAdminConnectionPastTheBoundIsClosedWhenAllAreBusy(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	entrance := newTurnstile(listener, 2)
	began, letGo := make(chan struct{}), make(chan struct{})
	server := newAdminServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		began <- struct{}{}
		<-letGo
	}), entrance, slog.New(slog.DiscardHandler))
	server.ReadHeaderTimeout, server.ReadTimeout = 0, 0 // nothing but the bound closes a connection
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(entrance) }()
	ask := func() net.Conn {
		conn := dialed(t, listener.Addr().String())
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	first := ask()
	<-began
	ask()
	<-began
	wantClosed(t, dialed(t, listener.Addr().String()))
	close(letGo)
	if n, err := first.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("the first was not answered: %v", err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	entrance.mu.Lock()
	defer entrance.mu.Unlock()
	if n := len(entrance.mu.silentSince); n > 2 {
		t.Errorf("%d connections are remembered", n)
	}
}

// asked is a context that tells when somebody first looks whether it has ended, as a
// verification does before it waits.
type asked struct {
	context.Context
	once *sync.Once
	tell func()
}

func (a asked) Err() error {
	a.once.Do(a.tell)
	return a.Context.Err()
}

func TestHealthIsAnsweredWhileManyTokensAreVerified(t *testing.T) {
	path, made := filepath.Join(t.TempDir(), "credentials"), auth.NewSecret()
	salt, sum := base64.RawStdEncoding.EncodeToString(make([]byte, 16)), base64.RawStdEncoding.EncodeToString(make([]byte, 32))
	if err := os.WriteFile(path, []byte("slow pbkdf2-sha256$2000000$"+salt+"$"+sum+" read:*\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := auth.AddGenerated(path, "made", made, []string{"read:*"}); err != nil {
		t.Fatal(err)
	}
	credentials, err := auth.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metrics") })
	handler := adminHandler(new(readiness), metrics, guard{credentials: credentials})
	ask := func(ctx context.Context, path, token string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(ctx, "GET", "http://localhost"+path, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		return answer
	}
	const guesses = 40
	ctx, stop := context.WithCancel(t.Context())
	var begun, ended sync.WaitGroup
	begun.Add(guesses)
	for range guesses {
		guess := asked{ctx, new(sync.Once), begun.Done}
		ended.Go(func() {
			defer guess.once.Do(begun.Done) // one that is turned away at once has begun too
			ask(guess, "/metrics", "slow.wrong")
		})
	}
	begun.Wait()
	for path, want := range map[string]int{"/live": 200, "/ready": 503} {
		for _, token := range []string{"", "slow.wrong", "made." + made} {
			if got := ask(t.Context(), path, token); got.Code != want || want == 503 && !strings.Contains(got.Body.String(), "being opened") {
				t.Errorf("%s answers %d: %s", path, got.Code, got.Body)
			}
		}
	}
	if got := ask(t.Context(), "/metrics", "made."+made); got.Code != 200 {
		t.Errorf("/metrics answers %d: %s", got.Code, got.Body)
	}
	if got := credentials.Stats(); got.Derived > 2 {
		t.Errorf("the guesses are through: %+v", got)
	}
	stop()
	ended.Wait()
}

func TestListenersAreCalledByTheirOwnNames(t *testing.T) {
	ask := func(d *door, path, host string) int {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+d.boundAddr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	open := runServer(t, serveFlags(t, "--hosts", "felix.example, other.example"))
	for d, path := range map[*door]string{open.admin: "/live", open.http: "/v1/streams"} {
		for host, want := range map[string]bool{"localhost": true, "127.0.0.1:1": true, "felix.example:9644": true, "other.example": true, "evil.example": false, "evil": false} {
			if got := ask(d, path, host); (got == 200) != want || !want && (got < 400 || got > 499) {
				t.Errorf("%s called %s answers %d", d.what, host, got)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "credentials")
	credentialsFile(t, path, map[string]string{"a": "read:*"})
	if got := ask(runServer(t, serveFlags(t, "--credentials-file", path)).admin, "/live", "felix.example"); got != 200 {
		t.Errorf("with credentials another name is answered %d", got)
	}
	for _, wrong := range []string{"http://x", "x:80", "a,,b", "*"} {
		if _, err := settings(t, "--hosts", wrong); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "FELIX_HOSTS") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

func TestWhatPackageHTTPSaysOfClientsIsLoggedAtDebug(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	newAdminServer(nil, newTurnstile(nil, 1), logger).ErrorLog.Print("http: TLS handshake error")
	if !strings.Contains(log.String(), "level=DEBUG") || !strings.Contains(log.String(), "handshake") {
		t.Errorf("logged %q", log.String())
	}
}
