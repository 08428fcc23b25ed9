package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"felix.local/felix/broker"
)

// BenchmarkPublish publishes records of 128 bytes over one connection, one at a time.
func BenchmarkPublish(b *testing.B) {
	at, stop := serveForBenchmark(b)
	conn, err := net.Dial("tcp", at)
	if err != nil {
		b.Fatal(err)
	}
	defer stop()
	defer conn.Close() // before the server waits for it
	in := bufio.NewReader(conn)
	request := fmt.Sprintf("POST %s/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 128\r\n\r\n%s", orders, strings.Repeat("x", 128))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := io.WriteString(conn, request); err != nil {
			b.Fatal(err)
		}
		response, err := http.ReadResponse(in, nil)
		if err != nil || response.StatusCode != http.StatusOK {
			b.Fatalf("%v, %v", response, err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			b.Fatal(err)
		}
	}
}

// serveForBenchmark serves an in-memory stream.
func serveForBenchmark(b *testing.B) (addr string, stop func()) {
	memory, err := broker.Open(b.Context(), broker.Config{Logger: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	name := broker.StreamName{Tenant: "acme", Namespace: "shop", Stream: "orders"}
	if _, _, err := memory.CreateStream(b.Context(), name, broker.StreamConfig{}); err != nil {
		b.Fatal(err)
	}
	server := must(New(Config{Broker: memory, Logger: quiet()}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	return listener.Addr().String(), func() {
		ctx := context.Background()
		for _, err := range []error{server.Shutdown(ctx), <-served, memory.Close(ctx)} {
			if err != nil {
				b.Error(err)
			}
		}
	}
}
