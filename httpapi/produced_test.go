package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"felix.local/felix/broker"
	"felix.local/felix/internal/faultdisk"
)

// producedAnswer is the answer to a batch of an idempotent producer.
type producedAnswer struct {
	published
	Duplicate bool
}

// produce sends a batch of one record to shard 1.
func (f *fixture) produce(id, sequence uint64, body string) reply {
	f.t.Helper()
	return f.send("POST", fmt.Sprintf("%s/records?shard=1&producer_id=%d&sequence=%d", orders, id, sequence), body)
}

func TestBatchesOfAProducerAreAnsweredByTheirNumbers(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{})
	f.stream(`{"shards":2}`)
	const id, last = 7, ^uint64(0)
	for _, c := range []struct {
		what         string
		id, sequence uint64
		body         string
		// offset and duplicate are of an answer with 200; code and expected of one with 409.
		offset    uint64
		duplicate bool
		code      string
		expected  any
	}{
		{what: "not the first", id: id, sequence: 1, code: "unknown_producer"},
		{what: "the first", id: id, sequence: 0, body: "0", offset: 0},
		{what: "the first again", id: id, sequence: 0, body: "0", offset: 0, duplicate: true},
		{what: "the first with another record", id: id, sequence: 0, body: "x", code: "sequence_reused"},
		{what: "too far", id: id, sequence: 2, body: "2", code: "sequence_gap", expected: 1.0},
		{what: "much too far", id: id, sequence: last, body: "2", code: "sequence_gap", expected: 1.0},
		{what: "the next", id: id, sequence: 1, body: "1", offset: 1},
		{what: "one before the newest", id: id, sequence: 0, body: "0", offset: 0, duplicate: true},
		{what: "of another producer", id: last, sequence: 0, body: "2", offset: 2},
		{what: "of producer 0", id: 0, sequence: 0, body: "3", offset: 3},
	} {
		r := f.produce(c.id, c.sequence, c.body)
		if c.code != "" {
			refused := r.refused(http.StatusConflict, c.code)
			if refused["expected"] != c.expected || refused["producer_id"] != float64(c.id) || refused["sequence"] != float64(c.sequence) || refused["action"] == "" {
				t.Errorf("%s: %v", c.what, refused)
			}
			continue
		}
		var got producedAnswer
		r.want(http.StatusOK).json(&got)
		if want := (producedAnswer{published{1, c.offset, c.offset}, c.duplicate}); got != want {
			t.Errorf("%s: %+v; want %+v", c.what, got, want)
		}
		if !c.duplicate && strings.Contains(string(r.body), "duplicate") {
			t.Errorf("%s: %s", c.what, r.body)
		}
	}
	for sequence := range uint64(70) {
		f.produce(8, sequence, "x").want(http.StatusOK)
	}
	if refused := f.produce(8, 0, "x").refused(http.StatusConflict, "sequence_expired"); refused["expected"] != 70.0 {
		t.Errorf("%v", refused)
	}
	if lines := f.send("GET", orders+"/records?shard=1", "").lines(); len(lines) != 74 {
		t.Errorf("%d records are stored", len(lines))
	}
}

func TestABatchOfAProducerIsTheWholeRequest(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{})
	f.stream("")
	batch := func(lines string) reply {
		return f.send("POST", orders+"/records?producer_id=1&sequence=0", lines, "Content-Type: "+mediaNDJSON)
	}
	for try := range 2 {
		var got producedAnswer
		batch("{\"text\":\"a\"}\n{\"text\":\"b\"}\n").want(http.StatusOK).json(&got)
		if got != (producedAnswer{published{0, 0, 1}, try > 0}) {
			t.Errorf("%+v", got)
		}
	}
	batch(`{"text":"a"}`).refused(http.StatusConflict, "sequence_reused")
}

func TestProducersThatCannotBeAreRefused(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{})
	f.stream(`{"shards":2}`)
	for query, parameter := range map[string]string{
		"shard=0&producer_id=1":                                 "sequence",
		"shard=0&sequence=1":                                    "producer_id",
		"shard=0&producer_id=-1&sequence=0":                     "producer_id",
		"shard=0&producer_id=1&sequence=x":                      "sequence",
		"shard=0&producer_id=1&sequence=18446744073709551616":   "sequence",
		"shard=0&producer_id=1&sequence=":                       "sequence",
		"shard=0&producer_id=1&sequence=0&sequence=0":           "sequence",
		"producer_id=1&sequence=0":                              "shard",
		"partition_key=k&producer_id=1&sequence=0":              "shard",
		"shard=0&partition_key=k&producer_id=1&sequence=0":      "partition_key",
		"shard=0&producer-id=1&sequence=0":                      "producer-id",
		"shard=0&producer_id=1&sequence=0&timestamp_micros=abc": "timestamp_micros",
	} {
		if refused := f.send("POST", orders+"/records?"+query, "x").refused(http.StatusBadRequest, codeInvalidParameter); refused["parameter"] != parameter {
			t.Errorf("%s: %v", query, refused)
		}
	}
	for shard := range 2 {
		if lines := f.send("GET", fmt.Sprintf("%s/records?shard=%d", orders, shard), "").lines(); len(lines) != 0 {
			t.Errorf("%+v", lines)
		}
	}
}

func TestAnInMemoryStreamKnowsNoProducers(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{})
	f.stream(`{"durable":false}`)
	f.send("POST", orders+"/records?producer_id=1&sequence=0", "x").refused(http.StatusBadRequest, codeInvalidRequest)
}

func TestARetryAfterARestartIsADuplicate(t *testing.T) {
	root := t.TempDir()
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprint(again), func(t *testing.T) {
			f := start(t, durable(t, root), Config{})
			if !again {
				f.stream(`{"shards":2}`)
			}
			var got producedAnswer
			f.produce(7, 0, "x").want(http.StatusOK).json(&got)
			if got != (producedAnswer{published{1, 0, 0}, again}) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A retry that comes while the flush of the first try hangs waits for it, and has its
// outcome.
func TestARetryDuringAHangingFlushHasItsOutcome(t *testing.T) {
	for _, fails := range []bool{false, true} {
		b, disk := onFaultyDisk(t)
		f := start(t, b, Config{})
		f.stream(`{"shards":2}`)
		fault := faultdisk.Fault{Kinds: faultdisk.WriteDsync | faultdisk.Flush, Stall: true, Path: ofLog}
		if fails {
			fault.Errno = syscall.EIO
		}
		hung := disk.Inject(fault)
		defer hung.Release()
		path := orders + "/records?shard=1&producer_id=7&sequence=0"
		f.send("POST", path+"&timeout_ms=300", "x").refused(http.StatusGatewayTimeout, codeUnknownOutcome)
		unknown := f.send("POST", path+"&timeout_ms=300", "x").refused(http.StatusGatewayTimeout, codeUnknownOutcome)
		if unknown["first_offset"] != 0.0 || unknown["last_offset"] != 0.0 {
			t.Errorf("the retry: %v", unknown)
		}
		answered := make(chan reply)
		go func() { answered <- f.send("POST", path, "x") }()
		for begun := time.Now(); f.server.Stats().RequestsActive == 0; { // the retry is under way
			if time.Since(begun) > patience {
				t.Fatal("the retry does not come")
			}
		}
		select {
		case r := <-answered:
			t.Errorf("it was answered while the flush hangs: %s", r.body)
		default:
		}
		hung.Release()
		r := <-answered
		if fails {
			if refused := r.refused(http.StatusServiceUnavailable, codeUnavailable); refused["state"] != broker.StatePoisoned.String() {
				t.Errorf("%v", refused)
			}
			continue
		}
		var got producedAnswer
		r.want(http.StatusOK).json(&got)
		if got != (producedAnswer{published{1, 0, 0}, true}) {
			t.Errorf("%+v", got)
		}
	}
}
