package broker_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"felix.local/felix/broker"
)

func TestRecordsDeletedUnderAReplayAreToldWithTheOldestThatIsLeft(t *testing.T) {
	r := newRig(t, unflushed, tinyRing)
	s := r.create(name("s"), broker.StreamConfig{Durable: true})
	r.fill(s, 0, 500)
	behind := r.subscribe(s, 0, broker.Earliest(), broker.SubscribeOptions{PageRecords: 5})
	ahead := r.subscribe(s, 0, broker.AtOffset(450), broker.SubscribeOptions{PageRecords: 5})
	r.wantNumbered(behind, 0, 5)
	oldest, err := s.DeleteRecords(r.ctx, 0, 300)
	if err != nil || oldest != 300 {
		t.Fatalf("%d, %v", oldest, err)
	}
	_, err = behind.Next(r.ctx)
	if e := errorAs[*broker.CursorTooOldError](t, err); e.Requested != 5 || e.Oldest != 300 || e.Shard != 0 {
		t.Errorf("%+v", e)
	}
	r.wantNumbered(ahead, 450, 500)
	// To delete what is deleted already changes nothing.
	for _, offset := range []uint64{0, 299, 300} {
		if oldest, err := s.DeleteRecords(r.ctx, 0, offset); err != nil || oldest != 300 {
			t.Errorf("%d, %v", oldest, err)
		}
	}
	_, err = s.DeleteRecords(r.ctx, 0, 501)
	if e := errorAs[*broker.CursorInFutureError](t, err); e.Next != 500 {
		t.Errorf("%+v", e)
	}
	r.reopen()
	s = r.stream(name("s"))
	r.wantNumbered(r.subscribe(s, 0, broker.Earliest(), broker.SubscribeOptions{}), 300, 500)
	// All of them may go; what comes next is seen.
	if oldest, err := s.DeleteRecords(r.ctx, 0, 500); err != nil || oldest != 500 {
		t.Errorf("%d, %v", oldest, err)
	}
	r.reopen()
	s = r.stream(name("s"))
	r.fill(s, 0, 502)
	r.wantNumbered(r.subscribe(s, 0, broker.Earliest(), broker.SubscribeOptions{}), 500, 502)
}

func TestRetentionUnderAReplayIsToldWithTheOldestThatIsLeft(t *testing.T) {
	r := newRig(t, unflushed, tinyRing)
	s := r.create(name("s"), broker.StreamConfig{Durable: true, Shards: 2})
	r.fill(s, 1, 1000)
	sub := r.subscribe(s, 1, broker.Earliest(), broker.SubscribeOptions{PageRecords: 5})
	r.wantNumbered(sub, 0, 5)
	if result, err := s.EnforceRetention(r.ctx); err != nil || result.Segments != 0 {
		t.Errorf("a pass without a bound: %+v, %v", result, err)
	}
	if _, _, err := r.b.CreateStream(r.ctx, name("s"), broker.StreamConfig{Durable: true, RetentionBytes: ptr(int64(10_000))}); err != nil {
		t.Fatal(err)
	}
	result, err := s.EnforceRetention(r.ctx)
	if err != nil || result.Segments == 0 || len(result.Bases) != 2 || result.Bases[0] != 0 || result.Bases[1] == 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	_, err = sub.Next(r.ctx)
	if e := errorAs[*broker.CursorTooOldError](t, err); e.Requested != 5 || e.Oldest != result.Bases[1] {
		t.Errorf("%+v, bases %v", e, result.Bases)
	}
	r.wantNumbered(r.subscribe(s, 1, broker.Earliest(), broker.SubscribeOptions{}), result.Bases[1], 1000)
}

// Replays and deletions race. Each replay ends at the end, or is told that what it
// was to read next is gone; nothing is left out in between.
func TestAReplayThatRacesWithDeletionsLeavesNothingOut(t *testing.T) {
	const total = 900
	r := newRig(t, unflushed, tinyRing)
	s := r.create(name("s"), broker.StreamConfig{Durable: true})
	r.fill(s, 0, total)
	var wait sync.WaitGroup
	errs := make(chan error, 200)
	done := make(chan struct{})
	for range 4 {
		wait.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				sub, err := s.Subscribe(r.ctx, 0, broker.Earliest(), broker.SubscribeOptions{PageRecords: 20})
				if err != nil {
					errs <- err
					return
				}
				at := sub.Start()
				for at < total && err == nil {
					var d broker.Delivery
					if d, err = sub.Next(r.ctx); err == nil && (d.Records[0].Offset != at || string(d.Records[0].Value) != numbered(at)) {
						err = fmt.Errorf("%d where %d belongs", d.Records[0].Offset, at)
					}
					if err == nil {
						at = d.Next
					}
				}
				sub.Close()
				var gone *broker.CursorTooOldError
				switch {
				case errors.As(err, &gone) && (gone.Requested != at || gone.Oldest <= at):
					errs <- fmt.Errorf("at %d: %+v", at, gone)
					return
				case err != nil && gone == nil:
					errs <- err
					return
				}
			}
		})
	}
	for offset := uint64(30); offset <= total; offset += 30 {
		if oldest, err := s.DeleteRecords(r.ctx, 0, offset); err != nil || oldest != offset {
			t.Errorf("%d, %v", oldest, err)
		}
	}
	close(done)
	wait.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
}

// What a subscription that nobody reads keeps in memory is the page that it gave.
func TestASlowReaderCostsOnePage(t *testing.T) {
	const (
		readers   = 64
		record    = 1 << 10
		pageBytes = 16 << 10
		history   = 4 << 20
	)
	r := newRig(t, unflushed, tinyRing, func(c *broker.Config) { c.Engine.SegmentBytes = 1 << 20 })
	s := r.create(name("s"), broker.StreamConfig{Durable: true})
	text := string(make([]byte, record))
	publish := func() {
		for range history / record / 64 {
			batch := make([]string, 64)
			for i := range batch {
				batch[i] = text
			}
			r.publish(s, 0, batch...)
		}
	}
	publish()
	before := heap()
	pages := make([]broker.Delivery, readers)
	for i := range pages {
		start := broker.Latest()
		if i%2 == 0 {
			start = broker.AtOffset(uint64(i * 10))
		}
		sub := r.subscribe(s, 0, start, broker.SubscribeOptions{PageBytes: pageBytes})
		if i%2 == 0 {
			pages[i] = r.next(sub)
			if n := len(pages[i].Records); n != pageBytes/record {
				t.Fatalf("a page of %d records", n)
			}
		}
	}
	publish() // all of them fall behind by 4 MiB
	grown := heap() - before
	t.Logf("%d readers keep %d KiB", readers, grown>>10)
	if bound := int64(readers * 3 * pageBytes / 2); grown > bound {
		t.Errorf("%d readers that are behind keep %d bytes, want at most %d", readers, grown, bound)
	}
	runtime.KeepAlive(pages)
}

// heap is what is reachable.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools are emptied by the second
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
