package bench

import (
	"context"
	"errors"
	"sync"

	"felix.local/felix/broker"
)

// BrokerTarget publishes to the shards of a stream.
func BrokerTarget(stream *broker.Stream) Target {
	return func(worker int) Publisher {
		to := broker.Explicit(worker % stream.Shards())
		var messages []broker.Message
		return func(ctx context.Context, payloads [][]byte) (uint64, error) {
			messages = messages[:0]
			for _, payload := range payloads {
				messages = append(messages, broker.Message{Value: payload})
			}
			got, err := stream.Publish(ctx, to, messages...)
			return got.First, err
		}
	}
}

// Subscribers take everything that is published to a stream while a load runs.
type Subscribers struct {
	stop context.CancelFunc
	wait sync.WaitGroup
	subs []*broker.Subscription
	errs []error
}

// Subscribe begins n subscriptions, shard by shard in turn, each taking every record
// from now on.
func Subscribe(ctx context.Context, stream *broker.Stream, n int) (*Subscribers, error) {
	running, stop := context.WithCancel(ctx)
	s := &Subscribers{stop: stop, errs: make([]error, n)}
	for i := range n {
		sub, err := stream.Subscribe(ctx, i%stream.Shards(), broker.Latest(), broker.SubscribeOptions{})
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.subs = append(s.subs, sub)
		s.wait.Go(func() { s.errs[i] = takeAll(running, sub) })
	}
	return s, nil
}

// takeAll takes what comes until ctx or the broker ends, which is no failure.
func takeAll(ctx context.Context, sub *broker.Subscription) error {
	for {
		if _, err := sub.Next(ctx); err != nil {
			var closed *broker.ClosedError
			if ctx.Err() != nil || errors.As(err, &closed) {
				return nil
			}
			return err
		}
	}
}

// Close ends them and joins what failed.
func (s *Subscribers) Close() error {
	s.stop()
	s.wait.Wait()
	for _, sub := range s.subs {
		sub.Close()
	}
	return errors.Join(s.errs...)
}
