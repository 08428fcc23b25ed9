package httpapi

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"felix.local/felix/broker"
)

// startTLS serves over TLS, with HTTP/2 or without.
func startTLS(t *testing.T, b *broker.Broker, cfg Config, http2 bool) *fixture {
	t.Helper()
	known := httptest.NewTLSServer(http.NotFoundHandler())
	roots := x509.NewCertPool()
	roots.AddCert(known.Certificate())
	config := &tls.Config{Certificates: known.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}
	known.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: http2}
	if !http2 {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	return startOn(t, b, cfg, tls.NewListener(listener, config), "https", transport)
}

func TestOverTLSBothVersionsOfHTTPAreSpoken(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		f := startTLS(t, durable(t, t.TempDir()), Config{}, http2)
		f.stream("")
		f.publish("one")
		response := f.open(t.Context(), "GET", orders+"/records", nil)
		response.Body.Close()
		if (response.ProtoMajor == 2) != http2 {
			t.Errorf("%s was spoken", response.Proto)
		}
		e := f.subscribe("?from=earliest")
		e.expect("subscribed")
		e.expect("record")
		f.publish(strings.Repeat("x", 1<<20))
		if l := e.expect("record"); len(*l.Text) != 1<<20 {
			t.Errorf("%d bytes", len(*l.Text))
		}
		f.send("POST", orders+"/records", "x", "Content-Encoding: gzip").refused(415, "unsupported_media_type")
		f.publish("the connection goes on")
		e.expect("record")
		e.leave()
		eventually(t, "the subscription ends", func() bool {
			stats := f.server.Stats()
			return stats.Subscriptions == 0 && stats.RequestsActive == 0
		})
		if n := f.server.Stats().Connections; n == 0 || http2 && n != 1 {
			t.Errorf("%d connections", n)
		}
	}
}

func TestASilentSubscriptionOutlivesTheWriteTimeoutOverHTTP2(t *testing.T) {
	f := startTLS(t, inMemory(t, brokerDefaults), Config{WriteTimeout: time.Second, HeartbeatInterval: 1100 * time.Millisecond}, true)
	f.stream(`{"durable":false}`)
	e := f.subscribe("")
	e.expect("subscribed")
	for range 2 {
		if name, _, err := e.next(); name != "heartbeat" || err != nil {
			t.Fatalf("%s, %v", name, err)
		}
	}
	f.publish("x")
	e.expect("record")
}

func TestAClientThatTakesNothingLosesItsStreamOverHTTP2(t *testing.T) {
	f := startTLS(t, durable(t, t.TempDir()), Config{WriteTimeout: time.Second}, true)
	f.stream("")
	for range 16 {
		f.publish(strings.Repeat("x", 1<<20))
	}
	e := f.subscribe("?from=earliest") // and reads nothing
	eventually(t, "the subscription ends", func() bool {
		stats := f.server.Stats()
		return stats.Subscriptions == 0 && stats.RequestsActive == 0
	})
	e.leave()
	f.publish("others go on")
}

func TestABodyThatStallsLosesItsRequestOverHTTP2(t *testing.T) {
	f := startTLS(t, inMemory(t, brokerDefaults), Config{BodyTimeout: 500 * time.Millisecond}, true)
	f.stream(`{"durable":false}`)
	body, feed := io.Pipe()
	defer feed.Close()
	go func() { _, _ = feed.Write([]byte("12345")) }()
	response := f.open(t.Context(), "POST", orders+"/records", body)
	defer response.Body.Close()
	if response.StatusCode != http.StatusRequestTimeout {
		t.Errorf("%d", response.StatusCode)
	}
	f.publish("others go on")
}

func TestShutdownEndsSubscriptionsOverHTTP2(t *testing.T) {
	f := startTLS(t, inMemory(t, brokerDefaults), Config{}, true)
	f.stream(`{"durable":false}`)
	e := f.subscribe("")
	e.expect("subscribed")
	if err := f.server.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.expect("closing")
	e.expectEnd()
}
