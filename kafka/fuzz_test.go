package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"felix.local/felix/broker"
)

// The bounds that fuzzing finds out about: what may be allocated for a byte of
// input, and for an input of any size.
const (
	allocatedPerByte = 1000
	allocatedAtAll   = 24 << 20
)

// allocated is how many bytes f allocates, whoever frees them.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func checkAllocated(t *testing.T, input []byte, f func()) {
	t.Helper()
	if got, most := allocated(f), uint64(len(input))*allocatedPerByte+allocatedAtAll; got > most {
		t.Errorf("%d bytes of input made it allocate %d; at most %d is fair", len(input), got, most)
	}
}

func FuzzRecordBatch(f *testing.F) {
	f.Add(encode(sample()))
	for _, c := range compress(f, encode(sample())[batchHeaderSize:]) {
		f.Add(recompressed(c))
	}
	for _, c := range compress(f, make([]byte, 4<<20)) {
		f.Add(recompressed(c))
	}
	pool := new(buffers)
	inflate := newInflater(1<<20, 1, pool)
	f.Fuzz(func(t *testing.T, b []byte) {
		// With the checksum mended, what is behind it is looked at.
		mended := append([]byte(nil), b...)
		if len(mended) > batchAttributesAt {
			length := int64(int32(binary.BigEndian.Uint32(mended[batchLengthAt:])))
			if end := length + batchEpochAt; length >= batchLengthMin && end <= int64(len(mended)) {
				binary.BigEndian.PutUint32(mended[batchCRCAt:], checksum(mended[batchAttributesAt:end]))
			}
		}
		for _, input := range [][]byte{b, mended} {
			charged := int64(0)
			d := &decoder{recordsMax: 1000, inflate: inflate, charge: func(n int64) error { charged += n; return nil }}
			checkAllocated(t, input, func() { judge(t, d, input) })
			if most := int64(len(input))*allocatedPerByte + 4<<20; charged > most {
				t.Errorf("%d bytes were charged for %d of input", charged, len(input))
			}
			d.release(pool)
		}
	})
}

// judge decodes a batch. What is refused has a code; what is taken reads the same
// when it is written again.
func judge(t *testing.T, d *decoder, input []byte) {
	err := d.decode(input)
	if err != nil {
		var refused *failure
		if !errors.As(err, &refused) || refused.code == codeNone {
			t.Errorf("%v has no code", err)
		}
		return
	}
	if len(d.messages) == 0 || len(d.messages) > d.recordsMax {
		t.Errorf("%d messages", len(d.messages))
	}
	var records []broker.Record
	for i, m := range d.messages {
		records = append(records, broker.Record{Offset: uint64(i), Message: m})
	}
	again := newDecoder(d.recordsMax, 0)
	if err := again.decode(encode(records)); err != nil {
		t.Fatal(err)
	}
	for i, m := range again.messages {
		was := d.messages[i]
		// A record whose time is left to the server has none to write.
		if string(m.Value) != string(was.Value) || string(m.Key) != string(was.Key) || (m.Value == nil) != (was.Value == nil) ||
			(m.Key == nil) != (was.Key == nil) || len(m.Headers) != len(was.Headers) || m.TimestampMicros != max(was.TimestampMicros, 1) {
			t.Fatalf("record %d is %v, and was %v", i, m, was)
		}
	}
}

// recompressed is a batch that says it holds the sample, compressed.
func recompressed(c compressed) []byte {
	b := append(encode(sample())[:batchHeaderSize:batchHeaderSize], c.b...)
	binary.BigEndian.PutUint32(b[batchLengthAt:], uint32(len(b)-batchEpochAt))
	return put16(batchAttributesAt, uint16(c.codec))(b)
}

// FuzzRequest sends a connection's bytes, after the length of the first request, to
// a server with a topic "t", and asks that it ends, and what it allocates.
func FuzzRequest(f *testing.F) {
	for key, request := range requests() {
		for _, a := range supported() {
			if a.key == key {
				for v := a.min; v <= a.max; v++ {
					f.Add(frameOf(version(v, request), 1)[frameLengthSize:])
				}
			}
		}
	}
	f.Add([]byte{0, byte(keyAPIVersions), 0x7f, 0xff, 0, 0, 0, 1, 0xff, 0xff})
	// A list that says it has more entries than there are bytes, and one of nothing.
	f.Add([]byte{0, byte(keyFetch), 0, 12, 0, 0, 0, 1, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	s := fuzzed(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		checkAllocated(t, b, func() {
			client, server := net.Pipe()
			c := newConn(s, server)
			done := make(chan struct{})
			go func() { defer close(done); c.serve() }()
			go func() {
				client.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
				// Whatever comes back ends with the connection, or with this.
				client.SetReadDeadline(time.Now().Add(time.Second))
				var sink [4096]byte
				client.Read(sink[:])
				client.Close()
			}()
			select {
			case <-done:
			case <-time.After(patience):
				t.Error("the connection does not end")
			}
		})
		if n := s.requests.Used() + s.responses.Used(); n != 0 {
			t.Fatalf("%d bytes of memory are still taken", n)
		}
	})
}

// fuzzed is a server without a listener, over streams in memory.
func fuzzed(f *testing.F) *Server {
	b, err := broker.Open(f.Context(), broker.Config{StreamsMax: 10, ShardsMax: 4})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			f.Error(fmt.Errorf("closing: %w", err))
		}
	})
	name := broker.StreamName{Tenant: "default", Namespace: "default", Stream: "t"}
	if _, _, err := b.CreateStream(f.Context(), name, broker.StreamConfig{Format: broker.FormatKafka}); err != nil {
		f.Fatal(err)
	}
	s, err := New(Config{
		Broker: b, AutoCreate: true, FetchWaitMax: 10 * time.Millisecond, RequestTimeout: 100 * time.Millisecond,
		IdleTimeout: 100 * time.Millisecond, FetchBytesMax: 1 << 20, InflatedBytesMax: 1 << 20, RecordsMax: 1000,
	})
	if err != nil {
		f.Fatal(err)
	}
	return s
}
