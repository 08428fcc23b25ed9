package kafka

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"felix.local/felix/broker"
)

// cutter stands between clients and a server, and cuts connections after a random
// number of bytes of their answers: the request was carried out, its client does not
// know. It stops cutting when it has cut often enough.
type cutter struct {
	to  string
	l   net.Listener
	all sync.WaitGroup
	mu  struct {
		sync.Mutex
		random *rand.Rand
		left   int // cuts
	}
}

func cutAnswers(t *testing.T, cuts int, l net.Listener) *cutter {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := &cutter{l: l}
	c.mu.random, c.mu.left = rand.New(rand.NewPCG(seed, 0)), cuts
	return c
}

func (c *cutter) run() {
	for {
		client, err := c.l.Accept()
		if err != nil {
			return
		}
		c.all.Go(func() { c.carry(client) })
	}
}

func (c *cutter) carry(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	for {
		if n := c.draw(); n < 0 {
			_, _ = io.Copy(client, server)
			return
		} else if _, err := io.CopyN(client, server, n); err != nil {
			return
		}
		if !c.cut() {
			continue
		}
		// What was asked for meanwhile is carried out, and nobody hears of it.
		_ = server.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
		_, _ = io.Copy(io.Discard, server)
		return
	}
}

// draw is after how many bytes a connection is cut, -1 for never.
func (c *cutter) draw() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.left == 0 {
		return -1
	}
	return 1000 + c.mu.random.Int64N(3000)
}

func (c *cutter) cut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.left == 0 {
		return false
	}
	c.mu.left--
	return true
}

func (c *cutter) cutsLeft() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.left
}

func TestOverLostConnectionsEachRecordIsStoredOnce(t *testing.T) {
	const partitions, cuts = 3, 40
	for topic, durable := range map[string]string{"durable": "true", "memory": "false"} {
		t.Run(topic, func(t *testing.T) {
			front, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			proxy := cutAnswers(t, cuts, front)
			r := start(t, func(c *Config, b *broker.Config) {
				c.AdvertisedAddr, b.RingRecords = front.Addr().String(), 1<<20
			})
			proxy.to = r.addr
			go proxy.run()
			r.addr = front.Addr().String()
			t.Cleanup(func() { // after the clients have closed
				front.Close()
				proxy.all.Wait()
			})
			r.create(topic, partitions, map[string]string{configDurable: durable})
			c := r.client(kgo.ProducerBatchMaxBytes(600), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond }))
			sent := 0
			for deadline := time.Now().Add(patience); proxy.cutsLeft() > 0 || sent%1000 > 0; sent++ {
				if sent%1000 == 0 {
					if err := c.Flush(r.ctx()); err != nil || time.Now().After(deadline) {
						t.Fatalf("%d records, %d cuts left: %v", sent, proxy.cutsLeft(), err)
					}
				}
				n := sent
				c.Produce(r.ctx(), &kgo.Record{Topic: topic, Partition: int32(n % partitions), Value: fmt.Append(nil, n)}, func(_ *kgo.Record, err error) {
					if err != nil {
						t.Errorf("record %d: %v", n, err)
					}
				})
			}
			if err := c.Flush(r.ctx()); err != nil {
				t.Fatal(err)
			}
			for p := range partitions {
				for i, got := range r.values(topic, int32(p)) {
					if want := fmt.Sprint(i*partitions + p); got != want {
						t.Fatalf("partition %d, offset %d holds %q; want %q", p, i, got, want)
					}
				}
				if n := len(r.values(topic, int32(p))); n != (sent+partitions-1-p)/partitions {
					t.Errorf("partition %d holds %d of %d records", p, n, sent)
				}
			}
			stats := r.broker.Stats()
			t.Logf("%d records, %d duplicates", sent, stats.Duplicates)
			if durable == "true" && stats.Duplicates == 0 {
				t.Error("no batch was sent twice")
			}
		})
	}
}
