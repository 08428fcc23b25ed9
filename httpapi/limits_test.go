package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"felix.local/felix/broker"
)

func TestABodyThatTricklesLosesItsRequest(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{BodyTimeout: 100 * time.Millisecond, BodyProgressBytes: 1000})
	f.stream(`{"durable":false}`)
	for name, head := range map[string]string{
		"announced": "Content-Length: 100000\r\n\r\n",
		"chunked":   "Transfer-Encoding: chunked\r\n\r\n",
	} {
		c := f.dial()
		c.write("POST " + orders + "/records HTTP/1.1\r\nHost: localhost\r\n" + head)
		stop := make(chan struct{})
		go func() { // one byte at a time, for ever
			for {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
				piece := "x"
				if name == "chunked" {
					piece = "1\r\nx\r\n"
				}
				if _, err := io.WriteString(c.Conn, piece); err != nil {
					return
				}
			}
		}()
		r := c.answer()
		close(stop)
		r.refused(http.StatusRequestTimeout, "body_timeout")
		c.closed()
	}
	if lines := f.send("GET", orders+"/records", "").lines(); len(lines) != 0 {
		t.Errorf("%+v", lines)
	}
}

func TestABodyThatStallsOnARefusedRequestHoldsNothing(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{BodyTimeout: 50 * time.Millisecond, Credentials: credentials(t)})
	c := f.dial()
	c.write("POST " + orders + "/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx")
	c.answer().refused(http.StatusUnauthorized, codeUnauthorized)
	c.closed()
	for _, line := range []string{"GET " + orders, "PATCH /v1", "PUT //x"} {
		c := f.dial()
		c.write(line + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx")
		if status := c.answer().status; status < 400 {
			t.Errorf("%s: %d", line, status)
		}
		c.closed()
	}
}

func TestASlowBodyThatMakesProgressIsTaken(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{BodyTimeout: time.Second, BodyProgressBytes: 10, BodyRateMin: 100})
	f.stream(`{"durable":false}`)
	c := f.dial()
	c.write("POST " + orders + "/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1200\r\n\r\n")
	began := time.Now()
	for range 120 {
		c.write("0123456789")
		time.Sleep(10 * time.Millisecond) // the client is what is slow here
	}
	if took := time.Since(began); took < time.Second {
		t.Fatalf("the body came within one deadline: %v", took)
	}
	c.answer().want(http.StatusOK)
}

func TestHeadersThatTrickleCloseTheConnection(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{ReadHeaderTimeout: 50 * time.Millisecond})
	c := f.dial()
	c.write("GET /v1/streams HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
	c.closed()
}

func TestHeadersOverTheBoundAreRefused(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{})
	c := f.dial()
	c.write("GET /v1/streams HTTP/1.1\r\nHost: localhost\r\nX-Long: " + strings.Repeat("x", DefaultHeaderBytesMax+8192) + "\r\n\r\n")
	if r := c.answer(); r.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%d", r.status)
	}
}

func TestAnIdleConnectionIsClosed(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{IdleTimeout: 20 * time.Millisecond})
	c := f.dial()
	c.write("GET /v1/streams HTTP/1.1\r\nHost: localhost\r\n\r\n")
	c.answer().want(http.StatusOK)
	c.closed()
}

func TestConnectionsOverTheBoundAreClosedAtOnce(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{ConnectionsMax: 2})
	first, second := f.dial(), f.dial()
	for _, c := range []*raw{first, second} {
		c.write("GET /v1/streams HTTP/1.1\r\nHost: localhost\r\n\r\n")
		c.answer().want(http.StatusOK)
	}
	f.dial().closed()
	if stats := f.server.Stats(); stats.ConnectionsRefused != 1 || stats.Connections != 2 || stats.ConnectionsAccepted != 2 {
		t.Errorf("%+v", stats)
	}
	first.Close()
	eventually(t, "there is room again", func() bool { return f.server.Stats().Connections == 1 })
	third := f.dial()
	third.write("GET /v1/streams HTTP/1.1\r\nHost: localhost\r\n\r\n")
	third.answer().want(http.StatusOK)
}

// allocated is what the heap has handed out so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func TestAHugeAnnouncedBodyCostsNoMemory(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{BodyTimeout: 100 * time.Millisecond})
	f.stream(`{"durable":false}`)
	before := allocated()
	c := f.dial()
	c.write("POST " + orders + "/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1073741824\r\n\r\n")
	c.answer().refused(http.StatusRequestEntityTooLarge, codeTooLarge)
	c.closed()
	// Within the bound, and not sent.
	c = f.dial()
	c.write("POST " + orders + "/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 67108864\r\n\r\nxxx")
	c.answer().refused(http.StatusRequestTimeout, "body_timeout")
	if grown := allocated() - before; grown > 4<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
}

func TestABodyOfUnknownLengthEndsAtTheBound(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{BodyBytesMax: 100_000})
	f.stream(`{"durable":false}`)
	for size, status := range map[int]int{100_000: 200, 100_001: 413, 1_000_000: 413} {
		body := struct{ io.Reader }{bytes.NewReader(make([]byte, size))} // hides the length
		response := f.open(t.Context(), "POST", orders+"/records", body)
		response.Body.Close()
		if response.StatusCode != status {
			t.Errorf("%d bytes: %d instead of %d", size, response.StatusCode, status)
		}
	}
}

func TestPublishesShareOneBoundOnMemory(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{BufferedBytesMax: 256 << 10, BufferedBytesClient: 256 << 10})
	f.stream(`{"durable":false}`)
	// 7 bodies that stall hold 7 × 32 KiB: what follows may have 32 KiB, not more.
	var stalled []*raw
	for range 7 {
		c := f.dial()
		c.write("POST " + orders + "/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n12345")
		stalled = append(stalled, c)
	}
	eventually(t, "all bodies are being read", func() bool { return f.server.Stats().BufferedBytes == 7*bodyBufferBytes })
	f.publish("a small one")
	r := f.send("POST", orders+"/records", strings.Repeat("x", 100_000))
	r.refused(http.StatusTooManyRequests, codeBackPressure)
	if r.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	for _, c := range stalled {
		c.write("67890")
		c.answer().want(http.StatusOK)
	}
	f.publish(strings.Repeat("x", 100_000))
	f.publish(strings.Repeat("x", 1_000_000)) // more than the bound, and alone
}

func TestARecordLargerThanAPageIsHeldWithinTheBound(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{
		PageBytes: 1000, PageBytesMax: 1000, PagesBytesMax: 20 << 20, PagesBytesClient: 20 << 20, FeedPageBytes: 1000,
	})
	f.stream("")
	f.publish(strings.Repeat("x", 16<<20))
	// One client asks for it and takes nothing.
	c := f.dial()
	c.write("GET " + orders + "/records HTTP/1.1\r\nHost: localhost\r\n\r\n")
	eventually(t, "the record is being sent", func() bool { return f.server.Stats().PageBytes >= 16<<20 })
	f.send("GET", orders+"/records", "").refused(http.StatusTooManyRequests, codeBackPressure)
	e := f.subscribe("?from=earliest")
	e.expect("subscribed")
	eventually(t, "the subscription waits", func() bool { return f.server.pages.waiters() == 1 })
	c.Close()
	if l := e.expect("record"); len(*l.Text) != 16<<20 {
		t.Errorf("%d bytes", len(*l.Text))
	}
}

func TestAReaderThatTakesNothingIsCut(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{WriteTimeout: 500 * time.Millisecond})
	f.stream("")
	for range 15 {
		f.publish(strings.Repeat("x", 1<<20))
	}
	c := f.dial()
	c.write("GET " + orders + "/records?max_bytes=16777216 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	eventually(t, "the answer is cut", func() bool {
		stats := f.server.Stats()
		return stats.SlowReaders > 0 && stats.PageBytes == 0 && stats.Connections < 2
	})
}

func TestGarbageIsAnsweredOrClosedAndNothingGrows(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{ReadHeaderTimeout: 50 * time.Millisecond})
	for _, garbage := range []string{
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "GET\r\n\r\n", "\x00\x00\x00\x00", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET / HTTP/9.9\r\n\r\n", "POST /v1/streams/a/b/c/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
		"POST /v1/streams/a/b/c/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"GET /v1/streams/\x00/b/c HTTP/1.1\r\nHost: localhost\r\n\r\n", strings.Repeat("A", 10_000),
		"POST /v1/streams/a/b/c/records HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
	} {
		c := f.dial()
		c.write(garbage)
		if _, err := io.ReadAll(c.in); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%q: %v", garbage, err)
		}
	}
	eventually(t, "all connections end", func() bool { return f.server.Stats().Connections == 0 })
}

func TestInFlightPublishesFinishDuringShutdown(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{})
	f.stream("")
	c, idle := f.dial(), f.dial()
	idle.write("GET /v1/streams HTTP/1.1\r\nHost: localhost\r\n\r\n")
	idle.answer().want(http.StatusOK)
	c.write("POST " + orders + "/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n12345")
	eventually(t, "the body is being read", func() bool { return f.server.Stats().BufferedBytes > 0 })
	ended := make(chan error, 1)
	go func() { ended <- f.server.Shutdown(context.WithoutCancel(t.Context())) }()
	idle.closed()
	c.write("67890")
	c.answer().want(http.StatusOK)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	stream := must(f.broker.Stream(broker.StreamName{Tenant: "acme", Namespace: "shop", Stream: "orders"}))
	page, err := stream.Read(t.Context(), 0, 0, 100, 0)
	if err != nil || len(page.Records) != 1 || string(page.Records[0].Value) != "1234567890" {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestAShutdownThatTakesTooLongSaysWhatWasUnderWay(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{})
	f.stream(`{"durable":false}`)
	c := f.dial()
	c.write("POST " + orders + "/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n12345")
	eventually(t, "the body is being read", func() bool { return f.server.Stats().BufferedBytes > 0 })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err := f.server.Shutdown(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 requests under way") {
		t.Errorf("%v", err)
	}
	c.closed()
	eventually(t, "the request ends", func() bool { return f.server.Stats().RequestsActive == 0 })
}

func TestRequestsAfterShutdownBeganAreTurnedAway(t *testing.T) {
	server := must(New(Config{Broker: inMemory(t, brokerDefaults), Logger: quiet()}))
	server.beginClosing()
	r := direct(t, server, "GET", "/v1/streams")
	r.refused(http.StatusServiceUnavailable, codeClosing)
	if r.header.Get("Connection") != "close" {
		t.Errorf("%v", r.header)
	}
}

func TestABadConfigurationIsRefusedWithAllItsProblems(t *testing.T) {
	_, err := New(Config{ConnectionsMax: -1, PageBytes: 10, PageBytesMax: 5})
	var problems *ConfigError
	if !errors.As(err, &problems) || len(problems.Problems) != 3 {
		t.Fatalf("%v", err)
	}
	for _, name := range []string{"Broker", "ConnectionsMax", "PageBytesMax"} {
		if !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
}

func TestEveryNumberOfAConfigurationIsChecked(t *testing.T) {
	for i := range reflect.TypeFor[Config]().NumField() {
		cfg := Config{Broker: new(broker.Broker)}
		field, name := reflect.ValueOf(&cfg).Elem().Field(i), reflect.TypeFor[Config]().Field(i).Name
		if !field.CanInt() {
			continue
		}
		if usual, err := cfg.withDefaults(); err != nil || reflect.ValueOf(usual).Field(i).Int() <= 0 {
			t.Errorf("%s has no default: %v", name, err)
		}
		field.SetInt(-1)
		var refused *ConfigError
		if _, err := New(cfg); !errors.As(err, &refused) || !strings.Contains(err.Error(), name+" is -1") {
			t.Errorf("%s below zero: %v", name, err)
		}
	}
}

// These are more than 1, and some depend on others.
func TestBoundsThatNeedRoomSayHowMuch(t *testing.T) {
	all := new(broker.Broker)
	for want, cfg := range map[string]Config{
		"BufferedBytesMax is 32767; at least 32768": {BufferedBytesMax: bodyBufferBytes - 1},
		"HeaderBytesMax is 8191; at least 8192":     {HeaderBytesMax: 2*headerSlack - 1},
		"PageBytesMax is 5; at least 10":            {PageBytes: 10, PageBytesMax: 5},
		"PagesBytesMax is 15; at least 20":          {PageBytes: 10, PageBytesMax: 20, PagesBytesMax: 15},
		"PageBytesMax is 16777216; at least":        {PageBytes: DefaultPageBytesMax + 1, PagesBytesMax: 1 << 30},
	} {
		cfg.Broker = all
		var refused *ConfigError
		if _, err := New(cfg); !errors.As(err, &refused) || len(refused.Problems) != 1 || !strings.Contains(err.Error(), want) {
			t.Errorf("%v instead of %s", err, want)
		}
	}
	if cfg, err := (Config{Broker: all, BufferedBytesMax: 1 << 20, PagesBytesMax: 32 << 20}).withDefaults(); err != nil || cfg.BufferedBytesClient != 512<<10 || cfg.PagesBytesClient != 8<<20 {
		t.Errorf("%+v, %v", cfg, err)
	}
}

// observed is an Observer.
type observed struct{ requests chan string }

func (o observed) Request(route string, status int, took time.Duration) {
	if took <= 0 {
		route += " took no time"
	}
	o.requests <- fmt.Sprint(route, " ", status)
}

func TestRequestsAreCountedAndObserved(t *testing.T) {
	o := observed{make(chan string, 10)}
	f := start(t, inMemory(t, brokerDefaults), Config{Observer: o})
	f.stream(`{"durable":false}`)
	f.publish("12345")
	f.send("GET", orders+"/records?from=9", "").want(416)
	f.send("GET", "/nowhere", "").refused(404, "not_found")
	f.send("POST", orders, "").refused(405, "method_not_allowed")
	for _, want := range []string{"put_stream 201", "publish 200", "read_records 416", "unknown 404", "unknown 405"} {
		if got := <-o.requests; got != want {
			t.Errorf("%s instead of %s", got, want)
		}
	}
	stats := f.server.Stats()
	counts := make(map[string]uint64)
	for _, r := range stats.Requests {
		for class, n := range r.ByClass {
			if n > 0 {
				counts[fmt.Sprintf("%s %dxx", r.Route, class)] = n
			}
		}
	}
	if fmt.Sprint(counts) != "map[publish 2xx:1 put_stream 2xx:1 read_records 4xx:1 unknown 4xx:2]" {
		t.Errorf("%v", counts)
	}
	if stats.BytesIn < 5 || stats.BytesOut == 0 || stats.Connections == 0 {
		t.Errorf("%+v", stats)
	}
}

func TestABodyHasAnOverallRateBesideItsProgress(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{BodyTimeout: 200 * time.Millisecond, BodyProgressBytes: 1, BodyRateMin: 1 << 20})
	f.stream(`{"durable":false}`)
	c := f.dial()
	c.write("POST " + orders + "/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n")
	stop := make(chan struct{})
	go func() { // each byte is progress
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			if _, err := io.WriteString(c.Conn, "x"); err != nil {
				return
			}
		}
	}()
	c.answer().refused(http.StatusRequestTimeout, "body_timeout")
	close(stop)
	c.closed()
}

func TestHeadersAreTakenUpToTheBoundAndNotBeyond(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{})
	for extra, want := range map[int]int{-500: http.StatusOK, 500: http.StatusRequestHeaderFieldsTooLarge} {
		c := f.dial()
		c.write("GET /v1/streams HTTP/1.1\r\nHost: localhost\r\nX-Long: " + strings.Repeat("x", DefaultHeaderBytesMax+extra) + "\r\n\r\n")
		if r := c.answer(); r.status != want {
			t.Errorf("%d bytes beside the bound: %d instead of %d", extra, r.status, want)
		}
	}
}
