package kafka

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"felix.local/felix/broker"
)

// served fails the test unless the server still answers.
func (r *rig) stillServes() {
	r.t.Helper()
	r.dial().ask(version(3, kmsg.NewPtrApiVersionsRequest()))
}

func TestSizesThatCannotBeEndTheConnection(t *testing.T) {
	r := start(t, func(c *Config, _ *broker.Config) { c.RequestBytesMax, c.SmallRequestBytesMax = 1<<20, 1<<10 })
	begin := func(size uint32, key int16) []byte {
		b := binary.BigEndian.AppendUint32(nil, size)
		return append(binary.BigEndian.AppendUint16(b, uint16(key)), 0, 3, 0, 0, 0, 1)
	}
	for name, b := range map[string][]byte{
		"negative":          begin(1<<31, keyProduce),
		"zero":              begin(0, keyProduce),
		"below a header":    begin(7, keyProduce),
		"produce too large": begin(1<<20+1, keyProduce),
		"other too large":   begin(1<<10+1, keyMetadata),
		"an HTTP request":   []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"a TLS hello":       {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0},
	} {
		c := r.dial()
		c.write(b)
		c.ended(name)
	}
	r.stillServes()
}

func TestRequestsThatEndEarlyEndTheConnection(t *testing.T) {
	r := start(t)
	r.create("t", 1, nil)
	for key, request := range requests() {
		a := r.server.apis[key]
		whole := frameOf(version(a.max, request), 1)
		for _, n := range []int{len(whole) - 1, (len(whole) + 12) / 2, 13} {
			if n < 13 || n >= len(whole) || key == keyDescribeCluster || key == keyAPIVersions && n < len(whole)-1 {
				continue
			}
			cut := append([]byte(nil), whole[:n]...)
			binary.BigEndian.PutUint32(cut, uint32(n-frameLengthSize))
			c := r.dial()
			c.write(cut)
			c.ended(kmsg.NameForKey(key))
		}
	}
	r.stillServes()
}

func TestGarbageNeverHoldsTheServerUp(t *testing.T) {
	r := start(t)
	r.create("t", 1, nil)
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	byKey := requests()
	keys := supported()
	for range 300 {
		a := keys[random.IntN(len(keys))]
		whole := frameOf(version(a.min+int16(random.IntN(int(a.max-a.min)+1)), byKey[a.key]), 1)
		for range 1 + random.IntN(6) {
			whole[12+random.IntN(len(whole)-12)] = byte(random.Uint32())
		}
		c := r.dial()
		c.write(whole)
		if tcp, ok := c.nc.(*net.TCPConn); ok {
			tcp.CloseWrite()
		}
		c.frame() // an answer or an end, but something comes
	}
	r.stillServes()
}

func TestSlowClientsAreCutOff(t *testing.T) {
	r := start(t, func(c *Config, _ *broker.Config) {
		c.RequestTimeout, c.IdleTimeout = 50*time.Millisecond, 50*time.Millisecond
	})
	c := r.dial()
	c.ended("idle")
	c = r.dial()
	c.write([]byte{0})
	c.ended("within a length")
	c = r.dial()
	c.write(frameOf(version(3, kmsg.NewPtrApiVersionsRequest()), 1)[:15])
	c.ended("within a body")
}

func TestAClientThatTakesNoAnswersIsCutOff(t *testing.T) {
	r := start(t, func(c *Config, _ *broker.Config) { c.WriteTimeout = 500 * time.Millisecond })
	r.create("t", 1, nil)
	c := r.dial()
	c.ask(produceOf("t", 0, encode([]broker.Record{{Message: broker.Message{Value: make([]byte, 1<<20)}}})))
	tcp := c.nc.(*net.TCPConn)
	if err := tcp.SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	var err error
	for err == nil { // first nobody reads the answers, then nobody the requests
		_, err = c.nc.Write(frameOf(fetchOf("t", 0, 0), 1))
	}
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		t.Error("the connection goes on")
	}
	r.stillServes()
}

func TestConnectionsAreBounded(t *testing.T) {
	r := start(t, func(c *Config, _ *broker.Config) { c.ConnectionsMax = 2 })
	one, two := r.dial(), r.dial()
	one.ask(version(3, kmsg.NewPtrApiVersionsRequest()))
	two.ask(version(3, kmsg.NewPtrApiVersionsRequest()))
	r.dial().ended("the third")
	if s := r.server.Stats(); s.Connections != 2 || s.ConnectionsRefused != 1 {
		t.Errorf("counted %+v", s)
	}
}

func TestRequestsWaitForMemoryInTurnAndGetIt(t *testing.T) {
	r := start(t, func(c *Config, _ *broker.Config) { c.RequestMemory, c.ResponseMemory = 200_000, 100_000 })
	r.create("t", 1, nil)
	batch := encode([]broker.Record{{Message: broker.Message{Value: make([]byte, 50_000)}}})
	done := make(chan struct{})
	for range 8 {
		c := r.dial()
		go func() {
			defer func() { done <- struct{}{} }()
			for range 10 {
				if got := failureOf(c.ask(produceOf("t", 0, batch))); got != codeNone {
					t.Errorf("a produce gave %d", got)
				}
				if got := failureOf(c.ask(fetchOf("t", 0, 0))); got != codeNone {
					t.Errorf("a fetch gave %d", got)
				}
			}
		}()
	}
	for range 8 {
		<-done
	}
}
