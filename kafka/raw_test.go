package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// raw is a connection that sends exactly what a test says.
type raw struct {
	t  testing.TB
	nc net.Conn
	// correlation is that of the last request.
	correlation int32
}

func (r *rig) dial() *raw {
	r.t.Helper()
	nc, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	return &raw{t: r.t, nc: nc}
}

// frameOf is a request as it goes over the wire.
func frameOf(request kmsg.Request, correlation int32) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, request, correlation)
}

func (c *raw) write(b []byte) {
	c.t.Helper()
	if _, err := c.nc.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// send sends a request without waiting for its answer.
func (c *raw) send(request kmsg.Request) {
	c.t.Helper()
	c.correlation++
	c.write(frameOf(request, c.correlation))
}

// receive reads the next answer, which is to be for request number correlation.
func (c *raw) receive(request kmsg.Request, correlation int32) kmsg.Response {
	c.t.Helper()
	body, err := c.frame()
	if err != nil {
		c.t.Fatalf("%s version %d: %v", kmsg.NameForKey(request.Key()), request.GetVersion(), err)
	}
	if got := int32(binary.BigEndian.Uint32(body)); got != correlation {
		c.t.Fatalf("the answer to request %d came when that to %d was due", got, correlation)
	}
	body = body[4:]
	if request.IsFlexible() && request.Key() != keyAPIVersions {
		body = body[1:]
	}
	response := request.ResponseKind()
	if err := response.ReadFrom(body); err != nil {
		c.t.Fatalf("%s version %d: %v", kmsg.NameForKey(request.Key()), request.GetVersion(), err)
	}
	if again := response.AppendTo(nil); !bytes.Equal(again, body) {
		c.t.Fatalf("%s version %d: bytes that are not the codec's:\n%x\n%x", kmsg.NameForKey(request.Key()), request.GetVersion(), body, again)
	}
	return response
}

func (c *raw) ask(request kmsg.Request) kmsg.Response {
	c.t.Helper()
	c.send(request)
	return c.receive(request, c.correlation)
}

// frame reads an answer's bytes.
func (c *raw) frame() ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(c.nc, length[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(c.nc, body)
	return body, err
}

// ended fails the test unless the server closes the connection without a word.
func (c *raw) ended(why string) {
	c.t.Helper()
	n, err := c.nc.Read(make([]byte, 1))
	var timeout net.Error
	if err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		c.t.Errorf("%s: the connection goes on: %d bytes, %v", why, n, err)
	}
}

// version gives a request in this version.
func version[R kmsg.Request](v int16, request R) R {
	request.SetVersion(v)
	return request
}

// produceOf is a Produce request for one partition.
func produceOf(topic string, partition int32, records []byte) *kmsg.ProduceRequest {
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis, request.Version = -1, 10_000, 9
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	t.Partitions = append(t.Partitions, p)
	request.Topics = append(request.Topics, t)
	return request
}

// fetchOf is a Fetch request without a session, for one partition.
func fetchOf(topic string, partition int32, offset int64) *kmsg.FetchRequest {
	request := kmsg.NewPtrFetchRequest()
	request.ReplicaID, request.MaxBytes, request.SessionEpoch, request.Version = -1, 1<<20, epochFinal, 12
	addFetch(request, topic, partition, offset)
	return request
}

func addFetch(request *kmsg.FetchRequest, topic string, partition int32, offset int64) {
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 1<<20
	t.Partitions = append(t.Partitions, p)
	request.Topics = append(request.Topics, t)
}
