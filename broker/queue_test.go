package broker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"felix.local/felix/broker"
)

// queueOf makes in-memory streams whose subscriptions hold few records.
func queueOf(records int) func(*broker.Config) {
	return func(c *broker.Config) {
		inMemory(c)
		c.SubscriberQueue = records
	}
}

func TestASlowSubscriberOfAnInMemoryStreamIsToldExactlyWhatItMissed(t *testing.T) {
	r := newRig(t, queueOf(5))
	s := r.create(name("s"), broker.StreamConfig{})
	sub := r.subscribe(s, 0, broker.Latest(), broker.SubscribeOptions{})
	other := r.subscribe(s, 0, broker.Latest(), broker.SubscribeOptions{})
	r.fill(s, 0, 5)
	r.wantNumbered(other, 0, 5)
	r.fill(s, 0, 12)
	r.wantNumbered(sub, 0, 5) // what was queued comes first
	if d := r.next(sub); d.Missed == nil || *d.Missed != (broker.OffsetRange{First: 5, Last: 11}) || d.Next != 12 || len(d.Records) != 0 {
		t.Errorf("got %+v, missed %v", d, d.Missed)
	}
	r.wantNumbered(other, 5, 10)
	if d := r.next(other); d.Missed == nil || *d.Missed != (broker.OffsetRange{First: 10, Last: 11}) {
		t.Errorf("got %+v, missed %v", d, d.Missed)
	}
	if n := r.b.Stats().DroppedRecords; n != 7+2 {
		t.Errorf("%d records are counted as dropped, want 9", n)
	}
	// It goes on after the gap as if nothing had been.
	r.fill(s, 0, 15)
	r.wantNumbered(sub, 12, 15)
	r.wantNumbered(other, 12, 15)
}

// One batch that is larger than the queue is cut where the queue is full.
func TestABatchIsDroppedFromWhereTheQueueIsFull(t *testing.T) {
	r := newRig(t, queueOf(3))
	s := r.create(name("s"), broker.StreamConfig{})
	sub := r.subscribe(s, 0, broker.Latest(), broker.SubscribeOptions{PageRecords: 2})
	r.publish(s, 0, numbered(0), numbered(1), numbered(2), numbered(3), numbered(4))
	r.wantNumbered(sub, 0, 2)
	// There is room again, but what comes is dropped until the gap was told: a
	// subscription has one gap at most.
	r.publish(s, 0, numbered(5))
	r.wantNumbered(sub, 2, 3)
	if d := r.next(sub); d.Missed == nil || *d.Missed != (broker.OffsetRange{First: 3, Last: 5}) {
		t.Errorf("got %+v, missed %v", d, d.Missed)
	}
}

// Every offset is delivered or told as missed, once, in order, and the counter says
// how many.
func TestUnderRacingPublishersEveryOffsetIsDeliveredOrToldAsMissed(t *testing.T) {
	r := newRig(t, queueOf(16))
	s := r.create(name("s"), broker.StreamConfig{})
	const publishers, each = 4, 3000
	var subscribers, wait sync.WaitGroup
	var mu sync.Mutex
	missed := uint64(0)
	for i := range 4 {
		sub := r.subscribe(s, 0, broker.Latest(), broker.SubscribeOptions{PageRecords: 1 + i*5})
		subscribers.Go(func() {
			lost := uint64(0)
			for at := uint64(0); at < publishers*each; {
				d, err := sub.Next(r.ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Missed != nil {
					if d.Missed.First != at || d.Missed.Last < at || d.Next != d.Missed.Last+1 || len(d.Records) > 0 {
						t.Errorf("at %d: missed %+v, next %d", at, *d.Missed, d.Next)
						return
					}
					lost += d.Next - at
					at = d.Next
				}
				for _, record := range d.Records {
					if record.Offset != at {
						t.Errorf("%d where %d belongs", record.Offset, at)
						return
					}
					at++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			missed += lost
		})
	}
	for range publishers {
		wait.Go(func() {
			for range each {
				if _, err := s.Publish(r.ctx, broker.RoundRobin(), messages("x")...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	subscribers.Wait()
	if n := r.b.Stats().DroppedRecords; n != missed {
		t.Errorf("%d are counted as dropped, %d were told as missed", n, missed)
	}
}

func TestASubscriptionToAnInMemoryStreamKeepsWhatTheRingHeldWhenItBegan(t *testing.T) {
	r := newRig(t, queueOf(4), func(c *broker.Config) { c.RingRecords = 10 })
	s := r.create(name("s"), broker.StreamConfig{})
	r.fill(s, 0, 25)
	if info := r.info(s, 0); info.Base != 15 || info.Next != 25 {
		t.Errorf("%+v", info)
	}
	_, err := s.Subscribe(r.ctx, 0, broker.AtOffset(14), broker.SubscribeOptions{})
	if e := errorAs[*broker.CursorTooOldError](t, err); e.Oldest != 15 {
		t.Errorf("%+v", e)
	}
	sub := r.subscribe(s, 0, broker.Earliest(), broker.SubscribeOptions{PageRecords: 3})
	r.wantNumbered(sub, 15, 18)
	r.fill(s, 0, 29) // the ring has moved past what the subscription still has to come
	r.fill(s, 0, 40)
	r.wantNumbered(sub, 18, 29)
	if d := r.next(sub); d.Missed == nil || *d.Missed != (broker.OffsetRange{First: 29, Last: 39}) {
		t.Errorf("got %+v, missed %v", d, d.Missed)
	}
}

// A queue is bounded in bytes as well: a subscription that nobody reads keeps no
// more than a ring does.
func TestAQueueIsBoundedInBytes(t *testing.T) {
	r := newRig(t, inMemory, func(c *broker.Config) { c.RingBytes = 1000 })
	s := r.create(name("s"), broker.StreamConfig{})
	sub := r.subscribe(s, 0, broker.Latest(), broker.SubscribeOptions{})
	for range 30 {
		r.publish(s, 0, string(make([]byte, 100)))
	}
	got := 0
	for {
		d := r.next(sub)
		if d.Missed != nil {
			if *d.Missed != (broker.OffsetRange{First: 10, Last: 29}) {
				t.Errorf("missed %+v", *d.Missed)
			}
			break
		}
		got += len(d.Records)
	}
	if got != 10 {
		t.Errorf("%d records of 100 bytes were queued within 1000", got)
	}
}

func TestARecordLargerThanAQueueIsStillDelivered(t *testing.T) {
	r := newRig(t, inMemory, func(c *broker.Config) { c.RingBytes = 10 })
	s := r.create(name("s"), broker.StreamConfig{})
	sub := r.subscribe(s, 0, broker.Latest(), broker.SubscribeOptions{PageBytes: 1})
	for i := range 3 {
		r.publish(s, 0, fmt.Sprintf("%0100d", i))
		if d := r.next(sub); len(d.Records) != 1 || len(d.Records[0].Value) != 100 {
			t.Errorf("got %+v", d)
		}
	}
}

// A subscription that holds publishers back loses nothing and keeps the queue short.
func TestABlockingSubscriptionToAnInMemoryStreamMissesNothing(t *testing.T) {
	r := newRig(t, queueOf(4))
	s := r.create(name("s"), broker.StreamConfig{})
	sub := r.subscribe(s, 0, broker.Latest(), broker.SubscribeOptions{WhenFull: broker.WhenFullBlock, PageRecords: 3})
	const total = 500
	var wait sync.WaitGroup
	wait.Go(func() {
		for at := range uint64(total) {
			if _, err := s.Publish(r.ctx, broker.Explicit(0), messages(numbered(at))...); err != nil {
				t.Error(err)
			}
			if behind := r.info(s, 0).Next - at; behind != 1 {
				t.Errorf("%d publishes at a time", behind)
			}
		}
	})
	r.wantNumbered(sub, 0, total)
	wait.Wait()
	if stats := r.b.Stats(); stats.DroppedRecords != 0 {
		t.Errorf("%+v", stats)
	}
}

func TestWhatWasQueuedIsDeliveredBeforeTheEndOfAnInMemoryStream(t *testing.T) {
	r := newRig(t, queueOf(4))
	s := r.create(name("s"), broker.StreamConfig{})
	sub := r.subscribe(s, 0, broker.Latest(), broker.SubscribeOptions{PageRecords: 3})
	r.fill(s, 0, 6)
	r.b.Drain()
	r.wantNumbered(sub, 0, 4)
	if d := r.next(sub); d.Missed == nil || *d.Missed != (broker.OffsetRange{First: 4, Last: 5}) {
		t.Errorf("got %+v", d)
	}
	_, err := sub.Next(context.Background())
	errorAs[*broker.ClosedError](t, err)
}
