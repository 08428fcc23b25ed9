package main

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// failing runs a client command that fails and gives what it says.
func failing(t *testing.T, code int, args ...string) (stderr string) {
	t.Helper()
	var out, text bytes.Buffer
	if got := run(args, &out, &text); got != code || strings.Count(text.String(), "\n") != 1 {
		t.Errorf("felixd %v exits %d and says %q", args, got, text.String())
	}
	return text.String()
}

func wants(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %q", part, text)
		}
	}
}

func TestAnAddressThatNobodyListensOnIsSaidToBeMaybeTheWrongOne(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	l.Close()
	wants(t, failing(t, exitFailure, "streams", "list", "--server", url), l.Addr().String()+" is not reached", "is felixd serve running there? --server names")
	wants(t, failing(t, exitFailure, "ready", "--admin", url), "--admin names")
	t.Setenv("FELIX_SERVER", url)
	wants(t, failing(t, exitFailure, "streams", "list"), "--server (FELIX_SERVER) names")
}

// A server that dies in mid-publish was once said not to be reached.
func TestAPublishWhoseAnswerIsLostSaysThatItMayBeStored(t *testing.T) {
	for name, dies := range map[string]func(net.Conn) error{
		"before an answer": func(net.Conn) error { return nil },
		"within an answer": func(c net.Conn) error {
			_, err := c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"shard\":0,"))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := w.(http.Hijacker).Hijack()
				if err == nil {
					err = dies(conn)
					conn.Close()
				}
				if err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			publish := []string{"publish", "t1/default/orders", "x", "--server", server.URL}
			wants(t, failing(t, exitFailure, publish...), "was reached", "stored or not", "read from behind the last offset printed")
			wants(t, failing(t, exitFailure, append(publish, "--producer-id", "7", "--sequence", "0")...), "the same command again stores them once")
		})
	}
}

func TestReadyAtAnotherListenerSaysSo(t *testing.T) {
	s := runServer(t, serveFlags(t))
	wants(t, failing(t, exitFailure, "ready", "--admin", "http://"+s.http.boundAddr()), "is no admin listener", "FELIX_ADMIN_ADDR")
}

func TestAClientWithoutAUsableTokenIsToldHowToGiveOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "credentials")
	credentialsFile(t, path, map[string]string{"a": "read:*"})
	s := runServer(t, serveFlags(t, "--credentials-file", path))
	t.Setenv("FELIX_SERVER", "http://"+s.http.boundAddr())
	wants(t, failing(t, exitFailure, "streams", "list"), "no credentials were sent", "--token-file", "FELIX_TOKEN")
	wants(t, failing(t, exitFailure, "streams", "list", "--token", "garbage"), "not of the form NAME.SECRET")
	wants(t, failing(t, exitFailure, "streams", "list", "--token", "a.wrong"), "wrong name or secret for")
}

func TestAStreamThatIsNotThereIsMadeByACommand(t *testing.T) {
	s := runServer(t, serveFlags(t))
	t.Setenv("FELIX_SERVER", "http://"+s.http.boundAddr())
	for _, args := range [][]string{
		{"streams", "show", "t1/default/nope"}, {"streams", "trim", "t1/default/nope"}, {"publish", "t1/default/nope", "x"},
	} {
		wants(t, failing(t, exitFailure, args...), "create it with felixd streams create t1/default/nope")
	}
	if text := failing(t, exitFailure, "streams", "delete", "t1/default/nope"); strings.Contains(text, "create") || !strings.Contains(text, "felixd streams list") {
		t.Errorf("deleting says %q", text)
	}
	wants(t, failing(t, exitUsage, "streams", "create", "t1/default/none", "--shards", "0"), "shards must be between 1 and")
}
