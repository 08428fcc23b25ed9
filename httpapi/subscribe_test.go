package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

func TestASubscriptionDeliversWhatIsHeldAndWhatComes(t *testing.T) {
	for _, media := range []string{mediaEvents, mediaNDJSON} {
		t.Run(strings.ReplaceAll(media, "/", "_"), func(t *testing.T) {
			f := start(t, durable(t, t.TempDir()), Config{})
			f.stream("")
			for i := range 3 {
				f.publish(fmt.Sprintf("old %d", i))
			}
			e := f.subscribe("?from=1", "Accept: "+media)
			if first := e.expect("subscribed"); first.StartOffset != 1 || first.LiveOffset != 3 || first.Shard != 0 {
				t.Errorf("%+v", first)
			}
			f.publish("line one\nline two\r\n\n: no comment")
			for offset, text := range []string{1: "old 1", 2: "old 2", 3: "line one\nline two\r\n\n: no comment"} {
				if offset == 0 {
					continue
				}
				if l := e.expect("record"); l.Offset != uint64(offset) || *l.Text != text || l.TimestampMicros == 0 {
					t.Errorf("%+v", l)
				}
			}
			if e.sse && e.id != "3" {
				t.Errorf("the last id is %s", e.id)
			}
		})
	}
}

func TestLastEventIDResumesBehindIt(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{})
	f.stream("")
	for i := range 5 {
		f.publish(strconv.Itoa(i))
	}
	e := f.subscribe("?from=earliest", "Last-Event-ID: 2")
	if first := e.expect("subscribed"); first.StartOffset != 3 {
		t.Errorf("%+v", first)
	}
	if l := e.expect("record"); l.Offset != 3 {
		t.Errorf("%+v", l)
	}
	for _, id := range []string{"x", "-1", "18446744073709551615"} {
		f.send("GET", orders+"/subscribe", "", "Last-Event-ID: "+id).refused(http.StatusBadRequest, codeInvalidParameter)
	}
	gone := f.send("GET", orders+"/subscribe", "", "Last-Event-ID: 7").refused(http.StatusRequestedRangeNotSatisfiable, "cursor_in_future")
	if gone["requested"] != 8.0 || gone["next"] != 5.0 {
		t.Errorf("%v", gone)
	}
}

func TestASubscriptionStartsAtATime(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{})
	f.stream("")
	for _, micros := range []string{"1000000", "2000000", "3000000"} {
		f.send("POST", orders+"/records?timestamp_micros="+micros, "x").want(http.StatusOK)
	}
	for from, want := range map[string]uint64{
		"@1500000": 1, "@1970-01-01T00:00:03Z": 2, "@1970-01-01T01:00:02+01:00": 1, "@1970-01-01T01:00:02%2B01:00": 1,
		"latest": 3, "earliest": 0, "3": 3,
	} {
		e := f.subscribe("?from=" + from)
		if first := e.expect("subscribed"); first.StartOffset != want {
			t.Errorf("%s: %+v", from, first)
		}
		e.leave()
	}
}

func TestWhatWasTrimmedIsSaidWithTheOldest(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{})
	f.stream("")
	for i := range 5 {
		f.publish(strconv.Itoa(i))
	}
	f.send("DELETE", orders+"/records?before=3", "").want(http.StatusOK)
	gone := f.send("GET", orders+"/subscribe?from=1", "").refused(http.StatusGone, codeCursorTooOld)
	if gone["oldest"] != 3.0 || gone["requested"] != 1.0 {
		t.Errorf("%v", gone)
	}
}

func TestADeletedStreamEndsItsSubscriptions(t *testing.T) {
	for _, media := range []string{mediaEvents, mediaNDJSON} {
		f := start(t, durable(t, t.TempDir()), Config{})
		f.stream("")
		e := f.subscribe("", "Accept: "+media)
		e.expect("subscribed")
		f.send("DELETE", orders, "").want(http.StatusNoContent)
		if last := e.expect("error"); last.Error["code"] != "deleted" || last.Error["action"] == "" {
			t.Errorf("%+v", last)
		}
		e.expectEnd()
	}
}

func TestADrainingBrokerEndsSubscriptionsThatCaughtUp(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{})
	f.stream(`{"durable":false}`)
	f.publish("one")
	e := f.subscribe("?from=0")
	e.expect("subscribed")
	f.broker.Drain()
	e.expect("record")
	if last := e.expect("closing"); last.Error["code"] != codeClosing {
		t.Errorf("%+v", last)
	}
	e.expectEnd()
	f.send("POST", orders+"/records", "x").refused(http.StatusServiceUnavailable, codeClosing)
	f.send("GET", orders+"/subscribe", "").refused(http.StatusServiceUnavailable, codeClosing)
}

func TestHeartbeatsShowThatASilentSubscriptionLives(t *testing.T) {
	for _, media := range []string{mediaEvents, mediaNDJSON} {
		f := start(t, inMemory(t, brokerDefaults), Config{HeartbeatInterval: time.Millisecond, WriteTimeout: time.Second})
		f.stream(`{"durable":false}`)
		e := f.subscribe("", "Accept: "+media)
		e.expect("subscribed")
		for range 3 {
			if name, _, err := e.next(); name != "heartbeat" || err != nil {
				t.Fatalf("%s, %v", name, err)
			}
		}
		f.publish("x")
		e.expect("record")
		if f.server.Stats().Heartbeats < 3 {
			t.Errorf("%+v", f.server.Stats())
		}
	}
}

// A heartbeat may be due before the one who starts it comes back from that.
func TestAHeartbeatThatIsDueAtOnceFindsItsSubscription(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{HeartbeatInterval: time.Nanosecond})
	f.stream(`{"durable":false}`)
	for range 200 {
		e := f.subscribe("")
		e.expect("subscribed")
		e.leave()
	}
}

func TestWhatASlowSubscriptionMissedIsTold(t *testing.T) {
	// The queue holds one record, so that a batch is more than it takes.
	f := start(t, inMemory(t, broker.Config{SubscriberQueue: 1}), Config{})
	f.stream(`{"durable":false}`)
	e := f.subscribe("?from=latest")
	e.expect("subscribed")
	f.send("POST", orders+"/records", strings.Repeat(`{"text":"x"}`+"\n", 10), "Content-Type: "+mediaNDJSON).want(http.StatusOK)
	f.publish("last")
	seen := uint64(0)
	missed := false
	for seen < 10 || !missed {
		name, l, err := e.next()
		switch {
		case err != nil:
			t.Fatal(err)
		case name == "record" && l.Offset == seen:
			seen++
		case name == "missed" && l.First == seen && l.Last >= l.First:
			seen, missed = l.Last+1, true
			if e.id != strconv.FormatUint(l.Last, 10) {
				t.Errorf("the event's id is %s", e.id)
			}
		default:
			t.Fatalf("%s %+v after %d", name, l, seen)
		}
	}
}

func TestAClientThatTakesNothingLosesItsSubscription(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{WriteTimeout: time.Second})
	f.stream("")
	big := strings.Repeat("x", 1<<20)
	for range 16 {
		f.publish(big)
	}
	e := f.subscribe("?from=earliest") // and reads nothing
	eventually(t, "the subscription ends", func() bool {
		stats := f.server.Stats()
		return stats.SlowReaders > 0 && stats.Subscriptions == 0 && stats.RequestsActive == 0
	})
	e.leave()
	f.publish("others go on")
}

func TestASubscriptionEndsWhenItsClientLeaves(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{})
	f.stream(`{"durable":false}`)
	e := f.subscribe("")
	e.expect("subscribed")
	if n := f.server.Stats().Subscriptions; n != 1 {
		t.Errorf("%d subscriptions", n)
	}
	e.leave()
	eventually(t, "the subscription ends", func() bool { return f.server.Stats().Subscriptions == 0 })
}

func TestShutdownEndsSubscriptionsWithAClosingEvent(t *testing.T) {
	for _, media := range []string{mediaEvents, mediaNDJSON} {
		b := durable(t, t.TempDir())
		f := start(t, b, Config{})
		f.stream("")
		f.publish("one")
		e := f.subscribe("?from=0", "Accept: "+media)
		e.expect("subscribed")
		e.expect("record")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := f.server.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
		e.expect("closing")
		e.expectEnd()

		// Another server goes on where that one ended.
		again := start(t, b, Config{})
		resumed := again.subscribe("", "Last-Event-ID: 0")
		resumed.expect("subscribed")
		again.publish("two")
		if l := resumed.expect("record"); l.Offset != 1 {
			t.Errorf("%+v", l)
		}
	}
}

func TestBadSubscriptionsAreRefusedBeforeTheyBegin(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{})
	f.stream(`{"durable":false,"shards":2}`)
	for _, c := range []struct {
		query, header string
		status        int
		code          string
	}{
		{"", "", 400, codeInvalidParameter},
		{"?shard=2", "", 404, "no_such_shard"},
		{"?shard=x", "", 400, codeInvalidParameter},
		{"?shard=0&from=never", "", 400, codeInvalidParameter},
		{"?shard=0&from=@never", "", 400, codeInvalidParameter},
		{"?shard=0&from=@1960-01-01T00:00:00Z", "", 400, codeInvalidParameter},
		{"?shard=0&when_full=maybe", "", 400, codeInvalidParameter},
		{"?shard=0", "Accept: text/html", 406, "not_acceptable"},
		{"?shard=0&from=5", "", 416, "cursor_in_future"},
	} {
		f.send("GET", orders+"/subscribe"+c.query, "", c.header).refused(c.status, c.code)
	}
	f.send("GET", "/v1/streams/no/such/stream/subscribe", "").refused(http.StatusNotFound, "stream_not_found")
	f.send("HEAD", orders+"/subscribe?shard=0", "").want(http.StatusMethodNotAllowed)
}

// What starts a generation takes an offset and is no record.
func TestASubscriptionBeforeOffsetsThatHoldNothingIsSilentAndHoldsNothing(t *testing.T) {
	root := t.TempDir()
	config := engine.DefaultConfig()
	config.Logger, config.IOURing = quiet(), engine.IOURingOff
	store := must(engine.OpenStore(t.Context(), root, config))
	log := must(store.OpenLog(t.Context(), engine.ShardKey{Tenant: "acme", Namespace: "shop", Stream: "orders"}))
	must(log.Append(t.Context(), engine.Record{Payload: []byte("one")}))
	must(log.AcceptGeneration(t.Context(), 1, ""))
	if _, recorded, err := log.StartGeneration(t.Context(), 1, ""); err != nil || !recorded {
		t.Fatal(recorded, err)
	}
	if err := store.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	// There is room for one page, which each of them needs.
	f := start(t, durable(t, root), Config{
		WriteTimeout: 500 * time.Millisecond, FeedPageBytes: 1000, PageBytes: 1000, PageBytesMax: 1000, PagesBytesMax: 1000,
	})
	f.stream("")
	var all []*events
	for range 3 {
		e := f.subscribe("?from=0")
		if first := e.expect("subscribed"); first.LiveOffset != 1 { // behind the last record, not the generation
			t.Fatalf("%+v", first)
		}
		e.expect("record")
		all = append(all, e)
	}
	f.publish("two")
	for _, e := range all {
		if l := e.expect("record"); l.Offset != 2 {
			t.Errorf("%+v", l)
		}
	}
}

func TestALentPageIsGivenBackUnlessItIsSettled(t *testing.T) {
	b := newBudget("bytes", 10, 10)
	late := &pageHold{pages: b, client: "a"}
	if err := late.wait(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	settle := late.lend(time.Millisecond)
	eventually(t, "it is given back", func() bool { return b.held() == 0 })
	settle()
	late.release()
	kept := &pageHold{pages: b, client: "a"}
	if err := kept.wait(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	kept.lend(time.Hour)()
	if b.held() != 10 {
		t.Errorf("%d bytes are held", b.held())
	}
	kept.release()
}

func TestNoPageIsReadBeforeThereIsRoomForIt(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{})
	f.stream("")
	f.publish("one")
	if err := f.server.pages.take("another", 0, DefaultPagesBytesMax); err != nil {
		t.Fatal(err)
	}
	pagesRead := func() uint64 { stats := f.broker.Stats(); return stats.RingReads + stats.DiskReads }
	before := pagesRead()
	e := f.subscribe("?from=0")
	e.expect("subscribed")
	eventually(t, "the subscription waits", func() bool { return f.server.pages.waiters() == 1 })
	if n := pagesRead() - before; n != 0 {
		t.Errorf("%d pages were read", n)
	}
	f.server.pages.give("another", DefaultPagesBytesMax)
	e.expect("record")
}
