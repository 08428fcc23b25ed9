package kafka

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

// patience is how long a test waits for what has to come.
const patience = 20 * time.Second

// rig is a server over a broker of its own.
type rig struct {
	t      testing.TB
	broker *broker.Broker
	server *Server
	addr   string
	served chan error
}

// start runs a server over a durable broker; change may alter both configurations.
func start(t testing.TB, change ...func(*Config, *broker.Config)) *rig {
	t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	bcfg := broker.Config{Root: t.TempDir(), Engine: engine.DefaultConfig(), Logger: quiet}
	bcfg.Engine.Logger = quiet
	cfg := Config{AutoCreate: true, Logger: quiet}
	for _, f := range change {
		f(&cfg, &bcfg)
	}
	b, err := broker.Open(t.Context(), bcfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the server has stopped
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := b.Close(ctx); err != nil && !errors.Is(err, engine.ErrPoisoned) { // some tests do poison
			t.Errorf("closing the broker: %v", err)
		}
	})
	cfg.Broker = b
	return serve(t, cfg, nil)
}

// serve runs a server with this configuration. wrap, if set, changes its listener.
func serve(t testing.TB, cfg Config, wrap func(net.Listener) net.Listener) *rig {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, broker: cfg.Broker, server: s, addr: l.Addr().String(), served: make(chan error, 1)}
	if wrap != nil {
		l = wrap(l)
	}
	go func() { r.served <- s.Serve(l) }()
	t.Cleanup(r.stop)
	return r
}

func (r *rig) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.server.Shutdown(ctx); err != nil {
		r.t.Errorf("shutdown: %v", err)
	}
	if err := <-r.served; !errors.Is(err, ErrServerClosed) {
		r.t.Errorf("Serve gave %v", err)
	}
	if n := r.server.requests.Used() + r.server.responses.Used(); n != 0 {
		r.t.Errorf("%d bytes of memory were taken and not given back", n)
	}
}

// until waits for what the server does by itself, asking it something in between.
func (r *rig) until(what string, holds func() bool) {
	r.t.Helper()
	c := r.dial()
	for begun := time.Now(); !holds(); {
		if time.Since(begun) > patience {
			r.t.Fatalf("still waiting until %s", what)
		}
		c.ask(version(3, kmsg.NewPtrApiVersionsRequest()))
	}
}

// ctx ends when the test has waited long enough.
func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	r.t.Cleanup(cancel)
	return ctx
}

// client is a franz-go client as users configure it for this server.
func (r *rig) client(opts ...kgo.Opt) *kgo.Client {
	r.t.Helper()
	opts = append([]kgo.Opt{
		kgo.SeedBrokers(r.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.FetchMaxWait(time.Second), kgo.ProducerLinger(0), kgo.MetadataMinAge(10 * time.Millisecond),
	}, opts...)
	c, err := kgo.NewClient(opts...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(c.Close)
	return c
}

func (r *rig) admin() *kadm.Client { return kadm.NewClient(r.client()) }

// create makes a topic in format kafka.
func (r *rig) create(topic string, partitions int32, configs map[string]string) {
	r.t.Helper()
	values := make(map[string]*string)
	for name, value := range configs {
		values[name] = kadm.StringPtr(value)
	}
	if _, err := r.admin().CreateTopic(r.ctx(), partitions, 1, values, topic); err != nil {
		r.t.Fatalf("creating %s: %v", topic, err)
	}
}

// produce writes records and fails the test unless all are acknowledged.
func (r *rig) produce(c *kgo.Client, records ...*kgo.Record) {
	r.t.Helper()
	if err := c.ProduceSync(r.ctx(), records...).FirstErr(); err != nil {
		r.t.Fatal(err)
	}
}

// consume reads n records of a topic's partitions from their places.
func (r *rig) consume(n int, at map[string]map[int32]kgo.Offset, opts ...kgo.Opt) []*kgo.Record {
	r.t.Helper()
	c := r.client(append([]kgo.Opt{kgo.ConsumePartitions(at)}, opts...)...)
	var got []*kgo.Record
	for len(got) < n {
		fetches := c.PollFetches(r.ctx())
		for _, e := range fetches.Errors() {
			r.t.Fatalf("%s/%d after %d of %d records: %v", e.Topic, e.Partition, len(got), n, e.Err)
		}
		got = append(got, fetches.Records()...)
	}
	return got
}

// from is one partition's place.
func from(topic string, partition int32, offset kgo.Offset) map[string]map[int32]kgo.Offset {
	return map[string]map[int32]kgo.Offset{topic: {partition: offset}}
}
