package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// load is what a server is put under.
type load struct {
	idle, publishers, shards int
	// records is how many each publisher publishes; 0 goes on until the time is up.
	records int
	lasts   time.Duration
	// residentMax bounds the server's memory, in bytes.
	residentMax int64
}

func loadOf() load {
	if os.Getenv("FELIX_LONG_TESTS") == "1" {
		return load{idle: 2000, publishers: 50, shards: 8, lasts: 5 * time.Minute, residentMax: 512 << 20}
	}
	return load{idle: 200, publishers: 50, shards: 8, records: 40, residentMax: 256 << 20}
}

// Many subscriptions that get nothing cost a bounded amount of memory and slow nobody
// down: everything published meanwhile is delivered once and in order, and when they
// leave, nothing of them stays.
func TestIdleSubscriptionsAndManyPublishersFitInMemory(t *testing.T) {
	l := loadOf()
	p := spawn(t, os.Stderr, "1", serveFlags(t, "--fsync", "on_commit")...)
	c := processClient(t, p)
	for name, shards := range map[string]int{"orders": l.shards, "idle": 1} {
		if _, err := c.create(t.Context(), stream(name), definitionDocument{Durable: true, Shards: shards, Format: "raw"}); err != nil {
			t.Fatal(err)
		}
	}
	before := metricOf(t, p, "go_goroutines")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var idle sync.WaitGroup
	for range l.idle {
		idle.Go(func() {
			sub := &subscription{client: c, name: stream("idle"), from: "earliest", warn: func(text string) { t.Error(text) }}
			if err := sub.run(ctx, onRecord(func(feedRecord) {})); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	until(t, "all subscriptions are open", func() bool { return metricOf(t, p, "felix_http_subscriptions") == float64(l.idle) })
	published := l.run(t, c)
	resident := residentPeak(t, p.child.Process.Pid)
	t.Logf("%d records by %d publishers beside %d idle subscriptions: at most %d MiB resident, now %.0f goroutines",
		published, l.publishers, l.idle, resident>>20, metricOf(t, p, "go_goroutines"))
	if resident > l.residentMax {
		t.Errorf("the server had %d bytes in memory, more than %d", resident, l.residentMax)
	}
	cancel()
	idle.Wait()
	c.http.CloseIdleConnections()
	until(t, "nothing of the subscriptions is left", func() bool {
		return metricOf(t, p, "felix_broker_subscriptions") == 0 && metricOf(t, p, "go_goroutines") <= before+10
	})
	if stopped, err := p.stop(); err != nil || !stopped.OK {
		t.Errorf("%+v: %v", stopped, err)
	}
}

// run publishes, and checks what a subscription to each shard gets meanwhile.
func (l load) run(t *testing.T, c *client) (published uint64) {
	t.Helper()
	var following, publishing sync.WaitGroup
	var total atomic.Uint64
	delivered := make([]map[string]int, l.shards) // by publisher, what is due of it
	for shard := range l.shards {
		due := make(map[string]int)
		delivered[shard] = due
		following.Go(func() {
			sub := &subscription{client: c, name: stream("orders"), shard: shard, from: "earliest", warn: func(text string) { t.Error(text) }}
			err := sub.run(t.Context(), untilEnd(func(r feedRecord) {
				var publisher string
				var n int
				if _, err := fmt.Sscanf(string(r.payload()), "%s %d", &publisher, &n); err != nil {
					return // the end
				}
				if n != due[publisher] {
					t.Errorf("shard %d: %q where number %d was due", shard, r.payload(), due[publisher])
				}
				due[publisher] = n + 1
			}))
			if !errors.Is(err, errEnough) {
				t.Error(err)
			}
		})
	}
	sent := make([]int, l.publishers)
	end := time.Now().Add(l.lasts)
	for i := range l.publishers {
		publishing.Go(func() {
			for n := 0; l.records > 0 && n < l.records || l.records == 0 && time.Now().Before(end); n++ {
				_, err := c.publish(t.Context(), stream("orders"), shardQuery(i%l.shards), "", fmt.Appendf(nil, "publisher-%d %d", i, n))
				if err != nil {
					t.Error(err)
					return
				}
				sent[i] = n + 1
				total.Add(1)
			}
		})
	}
	publishing.Wait()
	for shard := range l.shards {
		if _, err := c.publish(t.Context(), stream("orders"), shardQuery(shard), "", []byte(theEnd)); err != nil {
			t.Error(err)
		}
	}
	following.Wait()
	for i, n := range sent {
		if got := delivered[i%l.shards][fmt.Sprintf("publisher-%d", i)]; got != n {
			t.Errorf("publisher %d: %d records were acknowledged and %d delivered", i, n, got)
		}
	}
	return total.Load()
}

func shardQuery(shard int) url.Values { return url.Values{"shard": {strconv.Itoa(shard)}} }

// residentPeak is the most memory that a process had, in bytes.
func residentPeak(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`).FindSubmatch(text)
	if m == nil {
		t.Fatal("the kernel does not say how much memory the process had")
	}
	kib, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// metricOf reads a metric without labels from a server's /metrics.
func metricOf(t *testing.T, p *serveProcess, name string) float64 {
	t.Helper()
	answer, err := http.Get("http://" + p.ready.Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?m)^" + name + " (.+)$").FindSubmatch(text)
	if m == nil {
		t.Fatalf("/metrics has no %s", name)
	}
	value, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
