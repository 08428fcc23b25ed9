package main

import (
	"context"
	"errors"
	"fmt"

	"felix.local/felix/broker"
)

// stop ends the server in order: nothing new is let in, what is under way ends,
// subscriptions are told where to resume, then the store is closed. It says what
// was not synced, and that is an error.
func (s *server) stop(reason string) error {
	s.ready.set(phaseStopping)
	ctx, cancel := context.WithTimeout(context.Background(), s.config.shutdownTimeout)
	defer cancel()
	s.say(stoppingEvent{Reason: reason, TimeoutSeconds: int(s.config.shutdownTimeout.Seconds())})
	result := stoppedEvent{Poisoned: []string{}}
	for _, u := range s.broker.Health().Unavailable {
		if u.State == broker.StatePoisoned {
			result.Poisoned = append(result.Poisoned, fmt.Sprintf("%s/%d", u.Stream, u.Shard))
		}
	}
	err := errors.Join(s.closeDoors(ctx), s.closeBroker(ctx))
	if store := s.broker.Store(); store != nil {
		result.UnsyncedBytes = store.Stats().UnsyncedBytes
	}
	err = errors.Join(err, s.closeAdmin(ctx))
	if err == nil && len(result.Poisoned) > 0 {
		err = fmt.Errorf("%d shards had been poisoned; the next start reads what the device holds", len(result.Poisoned))
	}
	result.OK = err == nil && result.UnsyncedBytes == 0
	if err != nil {
		result.Problem = oneLine(err)
	}
	s.say(result)
	if err == nil && !result.OK {
		err = fmt.Errorf("%d acknowledged bytes were not synced", result.UnsyncedBytes)
	}
	return err
}

// closeDoors ends HTTP and Kafka, both at once. Clients that do not come to an end
// leave a third of the time to the store.
func (s *server) closeDoors(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.shutdownTimeout*2/3)
	defer cancel()
	errs := make(chan error, 2)
	doors := 0
	for _, d := range []*door{s.http, s.kafka} {
		if d != nil {
			doors++
			go func() { errs <- d.close(ctx) }()
		}
	}
	var failed error
	for range doors {
		failed = errors.Join(failed, <-errs)
	}
	s.broker.Drain()
	return failed
}

// close ends a door; a listener that nobody serves is closed.
func (d *door) close(ctx context.Context) error {
	if d.shutdown == nil {
		return d.listener.Close()
	}
	err := d.shutdown(ctx)
	if err != nil {
		return fmt.Errorf("%s did not end in time: %w", d.what, err)
	}
	<-d.ended
	return nil
}

func (s *server) closeBroker(ctx context.Context) error {
	s.exporter.Detach()
	s.ready.broker.Store(nil)
	return s.broker.Close(ctx)
}

func (s *server) closeAdmin(ctx context.Context) error {
	if s.admin == nil {
		return nil
	}
	return s.admin.close(ctx)
}

// abandon ends what a start that failed left.
func (s *server) abandon() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.shutdownTimeout)
	defer cancel()
	var err error
	for _, d := range []*door{s.http, s.kafka, s.admin} {
		if d != nil {
			err = errors.Join(err, d.close(ctx))
		}
	}
	if s.broker != nil {
		err = errors.Join(err, s.closeBroker(ctx))
	}
	return err
}
