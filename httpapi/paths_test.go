package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// direct asks the handler without a connection.
func direct(t *testing.T, server *Server, method, target string) reply {
	t.Helper()
	recorder := httptest.NewRecorder()
	request := httptest.NewRequest(method, target, nil)
	request.Host = "localhost"
	server.Handler().ServeHTTP(recorder, request)
	return reply{t, recorder.Code, recorder.Header(), recorder.Body.Bytes()}
}

func TestNoNameReachesWhatIsNotAStream(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{})
	long := strings.Repeat("x", 300)
	for _, path := range []string{
		"/v1/streams/../b/c", "/v1/streams/a/../c", "/v1/streams/a/b/..", "/v1/streams//b/c", "/v1/streams/a//c", "//v1/streams/a/b/c",
		"/v1/streams/./b/c", "/v1/streams/a/b/../../../../etc/passwd", "/v1/streams/%2e%2e/b/c", "/v1/streams/a/%2E%2E/c", "/v1/streams/a/b/%2e",
		"/v1/streams/a/b/%00", "/v1/streams/a/b/c%00d", "/v1/streams/a/b/..%2f..%2fx", "/v1/streams/%2Fetc/b/c", "/v1/streams/a/b/%5c", "/v1/streams/a/b/c.d",
		"/v1/streams/a/b/" + long, "/v1/streams/" + long + "/b/c", "/v1/streams/a/b/%c3%a9", "/v1/streams/a/b/%ff", "/v1/streams/a/b/%20",
	} {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			c := f.dial()
			c.write(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
			c.answer().refused(http.StatusBadRequest, codeInvalidName)
		}
		if !strings.HasSuffix(path, "..") && !strings.Contains(path, "/../..") {
			c := f.dial()
			c.write("POST " + path + "/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx")
			c.answer().refused(http.StatusBadRequest, codeInvalidName)
		}
	}
	if n := len(f.broker.Streams()); n != 0 {
		t.Errorf("%d streams were made", n)
	}
}

func TestWhatIsNoRouteIsAnsweredAsJSON(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{})
	for _, path := range []string{"/", "/v1", "/v1/", "/v1/streams/", "/v1/streams/a", "/v1/streams/a/b", "/v1/streams/a/b/c/", "/v1/streams/a/b/c/d", "/metrics", "/V1/streams"} {
		f.send("GET", path, "").refused(http.StatusNotFound, "not_found")
	}
	for request, allow := range map[string]string{
		"POST /v1/streams": "GET", "PATCH " + orders: "DELETE, GET, PUT", "PUT " + orders + "/records": "DELETE, GET, POST",
		"GET " + orders + "/retention": "POST", "POST " + orders + "/subscribe": "GET", "OPTIONS " + orders: "DELETE, GET, PUT",
		"DELETE /v1/openapi.json": "GET",
	} {
		method, path, _ := strings.Cut(request, " ")
		r := f.send(method, path, "")
		r.refused(http.StatusMethodNotAllowed, "method_not_allowed")
		if r.header.Get("Allow") != allow {
			t.Errorf("%s: Allow is %q", request, r.header.Get("Allow"))
		}
	}
	c := f.dial()
	c.write("CONNECT localhost:443 HTTP/1.1\r\nHost: localhost:443\r\n\r\n")
	c.answer().refused(http.StatusNotFound, "not_found")
}

// FuzzRequest sends paths and queries of all kinds to the handler: it answers each
// with JSON and no redirect, and never with a defect.
func FuzzRequest(f *testing.F) {
	for _, path := range []string{orders, orders + "/records", orders + "/subscribe", "/v1/streams", "/v1/streams/a/../b", "/v1/streams/%2e%2e/b/c", "//", "/v1/streams/a/b/%00/records"} {
		for _, query := range []string{"", "shard=0", "from=@2026-01-01T00:00:00Z", "from=latest&max_bytes=1", "limit=1&after=a/b/c", "shard=%zz", "a;b", "before=18446744073709551616"} {
			f.Add("GET", path, query)
			f.Add("DELETE", path, query)
		}
	}
	b, err := openForFuzz()
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { closeAfterFuzz(f, b) })
	server := must(New(Config{Broker: b, Logger: quiet()}))
	f.Fuzz(func(t *testing.T, method, path, query string) {
		at := &url.URL{Path: path, RawQuery: query}
		if parsed, err := url.ParseRequestURI(path); err == nil {
			at = &url.URL{Path: parsed.Path, RawPath: parsed.RawPath, RawQuery: query}
		}
		switch method {
		case "GET", "DELETE", "POST", "PATCH", "HEAD":
		default:
			method = "GET"
		}
		request := httptest.NewRequest(method, "/", nil)
		request.Host = "localhost"
		request.URL = at
		if strings.Contains(at.Path, "subscribe") { // its client has left already, or it would not end
			ctx, leave := context.WithCancel(t.Context())
			leave()
			request = request.WithContext(ctx)
		}
		recorder := httptest.NewRecorder()
		server.Handler().ServeHTTP(recorder, request)
		if recorder.Code >= 300 && recorder.Code < 400 || recorder.Code >= 500 {
			t.Fatalf("%s %q?%q: %d %s", method, path, query, recorder.Code, recorder.Body)
		}
		if recorder.Code >= 400 && method != "HEAD" {
			conform(t, "Error", recorder.Body.Bytes())
		}
	})
}

// FuzzStart reads places in a shard.
func FuzzStart(f *testing.F) {
	for _, text := range []string{"", "earliest", "latest", "0", "18446744073709551615", "@0", "@1", "@2026-01-31T12:00:00.5+02:00", "@2026-01-31T12:00:00 02:00", "@", "-1", "+1", "1e3"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := parseStart(text); err != nil {
			if p := err.(*requestError).problem; p.status != http.StatusBadRequest || p.message == "" || len(p.message) > 200 {
				t.Fatalf("%+v", p)
			}
		}
	})
}
