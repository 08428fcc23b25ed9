package broker_test

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
)

// blocked is a stream whose one subscription is full, and publishers who wait.
type blocked struct {
	*rig
	stream *broker.Stream
	sub    *broker.Subscription
	// outcomes is what the publishers were told, in no order.
	outcomes chan error
}

const (
	blockedPublishers = 3
	blockedQueue      = 4
)

// newBlocked fills the subscription and waits until all publishers are held back.
func newBlocked(t *testing.T, cfg broker.StreamConfig, change ...func(*broker.Config)) *blocked {
	t.Helper()
	r := newRig(t, append(change, func(c *broker.Config) { c.SubscriberQueue = blockedQueue })...)
	b := &blocked{rig: r, stream: r.create(name("s"), cfg), outcomes: make(chan error, blockedPublishers)}
	b.sub = r.subscribe(b.stream, 0, broker.Latest(), broker.SubscribeOptions{WhenFull: broker.WhenFullBlock, PageRecords: 1})
	r.fill(b.stream, 0, blockedQueue)
	for range blockedPublishers {
		go func() {
			_, err := b.stream.Publish(r.ctx, broker.Explicit(0), messages("held back")...)
			b.outcomes <- err
		}()
	}
	b.waitBlocked(blockedPublishers)
	return b
}

// waitBlocked waits until so many publishes were held back.
func (b *blocked) waitBlocked(n uint64) {
	b.Helper()
	for b.b.Stats().Blocked < n {
		if b.ctx.Err() != nil {
			b.Fatalf("%d publishers are held back, want %d", b.b.Stats().Blocked, n)
		}
	}
	select {
	case err := <-b.outcomes:
		b.Fatalf("a publisher was not held back: %v", err)
	default:
	}
	if next := b.info(b.stream, 0).Next; next != blockedQueue {
		b.Fatalf("the stream goes to %d, though its subscription is full at %d", next, blockedQueue)
	}
}

// eachOutcome waits for all publishers.
func (b *blocked) eachOutcome(want func(error) bool) {
	b.Helper()
	for range blockedPublishers {
		select {
		case err := <-b.outcomes:
			if !want(err) {
				b.Errorf("a publisher that was held back got %v (%T)", err, err)
			}
		case <-b.ctx.Done():
			b.Fatal("a publisher is held back for ever")
		}
	}
}

func isNil(err error) bool { return err == nil }

func is[T error](err error) bool {
	var want T
	return errors.As(err, &want)
}

// eachBlocked runs a test on a durable and on an in-memory stream.
func eachBlocked(t *testing.T, test func(b *blocked)) {
	t.Run("durable", func(t *testing.T) { test(newBlocked(t, broker.StreamConfig{Durable: true})) })
	t.Run("in memory", func(t *testing.T) { test(newBlocked(t, broker.StreamConfig{}, inMemory)) })
}

func TestPublishersThatAreHeldBackGoOnAsTheSubscriberReads(t *testing.T) {
	eachBlocked(t, func(b *blocked) {
		total := uint64(blockedQueue + blockedPublishers)
		for at := uint64(0); at < total; {
			d := b.next(b.sub)
			if d.Missed != nil || d.Records[0].Offset != at {
				b.Fatalf("at %d: %+v", at, d)
			}
			at = d.Next
		}
		b.eachOutcome(isNil)
	})
}

func TestClosingTheFullSubscriptionFreesPublishers(t *testing.T) {
	eachBlocked(t, func(b *blocked) {
		b.sub.Close()
		b.eachOutcome(isNil)
		if next := b.info(b.stream, 0).Next; next != blockedQueue+blockedPublishers {
			b.Errorf("the stream ends at %d", next)
		}
	})
}

func TestDeletingTheStreamFreesPublishers(t *testing.T) {
	eachBlocked(t, func(b *blocked) {
		if err := b.b.DeleteStream(b.ctx, b.stream.Name()); err != nil {
			b.Fatal(err)
		}
		b.eachOutcome(is[*broker.DeletedError])
		for {
			d, err := b.sub.Next(b.ctx)
			if err != nil {
				errorAs[*broker.DeletedError](b, err)
				break
			}
			if d.Next > blockedQueue {
				b.Fatalf("it gave %+v", d)
			}
		}
	})
}

func TestDrainingFreesPublishers(t *testing.T) {
	eachBlocked(t, func(b *blocked) {
		b.b.Drain()
		b.eachOutcome(is[*broker.ClosedError])
		b.wantNumbered(b.sub, 0, blockedQueue)
		_, err := b.sub.Next(b.ctx)
		errorAs[*broker.ClosedError](b, err)
		if err := b.b.Close(b.ctx); err != nil {
			b.Error(err)
		}
	})
}

func TestAPublisherThatStopsWaitingHasAppendedNothing(t *testing.T) {
	eachBlocked(t, func(b *blocked) {
		ctx, cancel := context.WithCancel(b.ctx)
		told := make(chan error, 1)
		go func() {
			_, err := b.stream.Publish(ctx, broker.Explicit(0), messages("gives up")...)
			told <- err
		}()
		b.waitBlocked(blockedPublishers + 1)
		cancel()
		err := <-told
		errorAs[*broker.BlockedError](b, err)
		if !errors.Is(err, context.Canceled) {
			b.Error(err)
		}
		b.sub.Close()
		b.eachOutcome(isNil)
		for _, record := range b.read(b.stream, 0, 0).Records {
			if string(record.Value) == "gives up" {
				b.Errorf("offset %d holds what was given up", record.Offset)
			}
		}
	})
}

// The log is poisoned by a flush of its own while publishers are held back.
func TestAPoisonFreesPublishers(t *testing.T) {
	disk, set := faulty(t)
	b := newBlocked(t, broker.StreamConfig{Durable: true, Fsync: ptr(engine.FsyncPeriodic)}, set, func(c *broker.Config) {
		c.Engine.FsyncInterval = 1 << 40 // the test flushes
	})
	disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Errno: syscall.EIO, Path: isLog})
	_, err := b.stream.DeleteRecords(b.ctx, 0, 1) // makes durable what it hides
	if !errors.Is(err, engine.ErrPoisoned) {
		t.Fatal(err)
	}
	b.eachOutcome(func(err error) bool { return errors.Is(err, engine.ErrPoisoned) && is[*broker.UnavailableError](err) })
}

// A subscription that blocks holds back its own shard and no other.
func TestOtherShardsArePublishedToMeanwhile(t *testing.T) {
	b := newBlocked(t, broker.StreamConfig{Durable: true, Shards: 3})
	b.fill(b.stream, 1, 20)
	b.fill(b.stream, 2, 20)
	b.sub.Close()
	b.eachOutcome(isNil)
}

// One that replays history is as far behind as history is long.
func TestABlockingSubscriptionInHistoryHoldsPublishersBackUntilItCatchesUp(t *testing.T) {
	r := newRig(t, tinyRing, func(c *broker.Config) { c.SubscriberQueue = blockedQueue })
	s := r.create(name("s"), broker.StreamConfig{Durable: true})
	r.fill(s, 0, 50)
	sub := r.subscribe(s, 0, broker.Earliest(), broker.SubscribeOptions{WhenFull: broker.WhenFullBlock, PageRecords: 2})
	told := make(chan uint64, 1)
	go func() {
		p, err := s.Publish(r.ctx, broker.Explicit(0), messages(numbered(50))...)
		if err != nil {
			t.Error(err)
		}
		told <- p.First
	}()
	r.wantNumbered(sub, 0, 44)
	select {
	case at := <-told:
		t.Errorf("%d was published while the subscription was 6 records behind", at)
	default:
	}
	r.wantNumbered(sub, 44, 51)
	if at := <-told; at != 50 {
		t.Errorf("it got offset %d", at)
	}
}
