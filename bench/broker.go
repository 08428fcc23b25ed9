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
	got  []uint64
}

// Subscribe begins n subscriptions, shard by shard in turn, each taking every record
// from now on.
func Subscribe(ctx context.Context, stream *broker.Stream, n int) (*Subscribers, error) {
	running, stop := context.WithCancel(ctx)
	s := &Subscribers{stop: stop, errs: make([]error, n), got: make([]uint64, n)}
	for i := range n {
		sub, err := stream.Subscribe(ctx, i%stream.Shards(), broker.Latest(), broker.SubscribeOptions{})
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.subs = append(s.subs, sub)
		s.wait.Go(func() { s.errs[i] = s.take(running, i, sub) })
	}
	return s, nil
}

func (s *Subscribers) take(ctx context.Context, i int, sub *broker.Subscription) error {
	for {
		d, err := sub.Next(ctx)
		if err != nil {
			var closed *broker.ClosedError
			if ctx.Err() != nil || errors.As(err, &closed) {
				return nil
			}
			return err
		}
		s.got[i] += uint64(len(d.Records))
	}
}

// Close ends them and joins what failed. Delivered is final then.
func (s *Subscribers) Close() error {
	s.stop()
	s.wait.Wait()
	for _, sub := range s.subs {
		sub.Close()
	}
	return errors.Join(s.errs...)
}

// Delivered counts the records that all of them took.
func (s *Subscribers) Delivered() uint64 {
	total := uint64(0)
	for _, n := range s.got {
		total += n
	}
	return total
}
