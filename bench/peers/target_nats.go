package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func natsTargets() []target {
	const (
		what = "a stream with file storage and one replica; all streams in one embedded server, reached without a socket"
		why  = "with `SyncAlways` the server answers after fsync of the message block"
	)
	return []target{
		{
			name: "nats", logs: what, how: "`PublishMsgAsync` of a batch, then its acknowledgements; the server syncs once per message", why: why,
			open: func(ctx context.Context, dir string, r row) (instance, error) {
				return openNATS(ctx, dir, r, func(l *natsLog) log { return l })
			},
		},
		{
			name: "nats/atomic", logs: what, how: "an atomic batch publish for all that wait, up to 1000 messages, which the server syncs as one", why: why,
			serves: func(r row) bool { return shared(r) || r.Batch > 1 },
			open: func(ctx context.Context, dir string, r row) (instance, error) {
				return openNATS(ctx, dir, r, func(l *natsLog) log { return group(natsAtomic{l}) })
			},
		},
	}
}

// natsPatience is how long to wait for the server to start.
const natsPatience = 30 * time.Second

func openNATS(ctx context.Context, dir string, r row, wrap func(*natsLog) log) (in instance, err error) {
	s, err := server.NewServer(&server.Options{
		DontListen: true, JetStream: true, StoreDir: dir, SyncAlways: true, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return in, err
	}
	s.Start()
	var conn *nats.Conn
	in.close = func() error {
		if conn != nil {
			conn.Close()
		}
		s.Shutdown()
		s.WaitForShutdown()
		return nil
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, in.close())
		}
	}()
	if !s.ReadyForConnections(natsPatience) {
		return in, errors.New("the embedded server did not start")
	}
	if conn, err = nats.Connect("", nats.InProcessServer(s)); err != nil {
		return in, err
	}
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(r.Publishers*r.Batch+1))
	if err != nil {
		return in, err
	}
	for i := range r.Logs {
		name := fmt.Sprintf("log-%03d", i)
		stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: name, Subjects: []string{name}, Storage: jetstream.FileStorage, Replicas: 1, AllowAtomicPublish: true,
		})
		if err != nil {
			return in, err
		}
		in.logs = append(in.logs, wrap(&natsLog{js: js, stream: stream, subject: name}))
	}
	return in, nil
}

type natsLog struct {
	js      jetstream.JetStream
	stream  jetstream.Stream
	subject string
	batches atomic.Uint64
}

func (l *natsLog) Append(ctx context.Context, payloads [][]byte) error {
	acks := make([]jetstream.PubAckFuture, len(payloads))
	for i, payload := range payloads {
		var err error
		if acks[i], err = l.js.PublishAsync(l.subject, payload); err != nil {
			return err
		}
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// natsAtomic publishes what one goroutine gathered.
type natsAtomic struct{ *natsLog }

// natsBatchMax is what the server takes as one batch unless it is told otherwise.
const natsBatchMax = 1000

func (l natsAtomic) write(ctx context.Context, payloads [][]byte) error {
	for len(payloads) > 0 {
		n := min(len(payloads), natsBatchMax)
		if err := l.publish(ctx, payloads[:n]); err != nil {
			return err
		}
		payloads = payloads[n:]
	}
	return nil
}

// publish sends a batch whose last message commits it and is answered.
func (l natsAtomic) publish(ctx context.Context, payloads [][]byte) error {
	if len(payloads) == 1 {
		_, err := l.js.Publish(ctx, l.subject, payloads[0])
		return err
	}
	id := strconv.FormatUint(l.batches.Add(1), 10)
	for i, payload := range payloads {
		message := nats.NewMsg(l.subject)
		message.Data = payload
		message.Header.Set(server.JSBatchId, id)
		message.Header.Set(server.JSBatchSeq, strconv.Itoa(i+1))
		if i < len(payloads)-1 {
			if err := l.js.Conn().PublishMsg(message); err != nil {
				return err
			}
			continue
		}
		message.Header.Set(server.JSBatchCommit, "1")
		if _, err := l.js.PublishMsg(ctx, message); err != nil {
			return err
		}
	}
	return nil
}

func (l *natsLog) Read(ctx context.Context, visit func([]byte) error) error {
	info, err := l.stream.Info(ctx)
	if err != nil || info.State.Msgs == 0 {
		return err
	}
	consumer, err := l.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for range info.State.Msgs {
		message, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		if err := visit(message.Data()); err != nil {
			return err
		}
	}
	return nil
}
