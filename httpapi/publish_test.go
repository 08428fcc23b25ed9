package httpapi

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"felix.local/felix/broker"
)

func TestARawBodyIsOneRecord(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{})
	f.stream("")
	for i, body := range []string{"hello", "", "two\nlines", "\xff\x00", strings.Repeat("x", 100_000)} {
		if p := f.publish(body); p.First != uint64(i) || p.Last != uint64(i) || p.Shard != 0 {
			t.Errorf("%+v", p)
		}
		got := f.send("GET", fmt.Sprintf("%s/records?from=%d", orders, i), "", "Accept: "+mediaBytes).want(http.StatusOK)
		if string(got.body) != body || got.header.Get(headerOffset) != fmt.Sprint(i) {
			t.Errorf("%d: %q", i, got.body)
		}
	}
}

func TestABatchIsAppendedWholeToOneShard(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{})
	f.stream(`{"shards":4}`)
	f.send("POST", orders+"/records?shard=2", "first").want(http.StatusOK)
	batch := "{\"text\":\"a\"}\r\n\n  {\"base64\":\"/wA=\"}\n{\"text\":\"\",\"timestamp_micros\":7}"
	var p published
	f.send("POST", orders+"/records?shard=2", batch, "Content-Type: application/x-ndjson; charset=utf-8").want(http.StatusOK).json(&p)
	if p != (published{Shard: 2, First: 1, Last: 3}) {
		t.Errorf("%+v", p)
	}
	lines := f.send("GET", orders+"/records?shard=2&from=1", "").want(http.StatusOK).lines()
	if len(lines) != 3 || *lines[0].Text != "a" || string(lines[1].Base64) != "\xff\x00" || *lines[2].Text != "" || lines[2].TimestampMicros != 7 {
		t.Errorf("%+v", lines)
	}
}

func TestABadLineIsNamedAndNothingIsAppended(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{BatchRecordsMax: 5})
	f.stream(`{"durable":false}`)
	batch := func(lines string) reply {
		return f.send("POST", orders+"/records", lines, "Content-Type: "+mediaNDJSON)
	}
	for body, line := range map[string]float64{
		"{\"text\":\"a\"}\n{\"text\":1}":                    2,
		"\n\n{\"txt\":\"a\"}":                               3,
		"{\"text\":\"a\"}{\"text\":\"b\"}":                  1,
		"{\"text\":\"a\"}\n{\"base64\":\"*\"}":              2,
		"{\"text\":\"a\",\"text\":\"a\"}":                   1,
		"{\"text\":\"a\",\"base64\":\"\"}":                  1,
		"{}":                                                1,
		"[]":                                                1,
		"{\"text\":\"\xff\"}":                               1,
		"{\"text\":\"a\",\"timestamp_micros\":-1}":          1,
		"{\"text\":\"a\",\"timestamp_micros\":1.5}":         1,
		"{\"text\":\"a\",\"headers\":[{}]}":                 1,
		"{\"text\":\"a\",\"headers\":{}}":                   1,
		"{\"text\":\"a\",\"key\":\"\",\"key_base64\":\"\"}": 1,
	} {
		if e := batch(body).refused(http.StatusBadRequest, codeInvalidBatch); e["line"] != line {
			t.Errorf("%q: %v", body, e)
		}
	}
	batch("").refused(http.StatusBadRequest, codeInvalidBatch)
	batch("\n \n").refused(http.StatusBadRequest, codeInvalidBatch)
	batch(strings.Repeat("{\"text\":\"a\"}\n", 6)).refused(http.StatusRequestEntityTooLarge, codeTooLarge)
	if lines := f.send("GET", orders+"/records", "").want(http.StatusOK).lines(); len(lines) != 0 {
		t.Errorf("%+v", lines)
	}
	batch(strings.Repeat("{\"text\":\"a\"}\n", 5)).want(http.StatusOK)
}

func TestKeysAndHeadersAreKeptOnAKafkaStream(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{})
	f.stream(`{"format":"kafka"}`)
	f.send("POST", orders+"/records?key=a%20key", "one").want(http.StatusOK)
	f.send("POST", orders+"/records", `{"text":null,"key_base64":"/w==","headers":[{"key":"h","text":"v"},{"key_base64":"/g==","base64":"/Q=="},{"key":"h","text":null}]}`,
		"Content-Type: "+mediaNDJSON).want(http.StatusOK)
	lines := f.send("GET", orders+"/records", "").want(http.StatusOK).lines()
	if len(lines) != 2 || *lines[0].Key != "a key" || lines[0].Headers != nil {
		t.Fatalf("%+v", lines)
	}
	second := lines[1]
	if second.Text != nil || second.Base64 != nil || string(second.KeyBase64) != "\xff" || len(second.Headers) != 3 {
		t.Fatalf("%+v", second)
	}
	h := second.Headers
	if h[0].Key != "h" || *h[0].Text != "v" || string(h[1].KeyBase64) != "\xfe" || string(h[1].Base64) != "\xfd" || h[2].Text != nil {
		t.Errorf("%+v", h)
	}
	raw := f.send("GET", orders+"/records?from=1", "", "Accept: "+mediaBytes).want(http.StatusOK)
	if raw.header.Get(headerNull) != "true" || raw.header.Get(headerKey) != base64.StdEncoding.EncodeToString([]byte{0xff}) || len(raw.body) != 0 {
		t.Errorf("%v %q", raw.header, raw.body)
	}
}

func TestARawStreamRefusesWhatItCannotHold(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{})
	f.stream(`{"durable":false}`)
	f.send("POST", orders+"/records?key=k", "x").refused(http.StatusBadRequest, codeInvalidFormat)
	for _, line := range []string{`{"text":"a","key":"k"}`, `{"text":"a","headers":[{"key":"h","text":"v"}]}`, `{"text":null}`} {
		f.send("POST", orders+"/records", line, "Content-Type: "+mediaNDJSON).refused(http.StatusBadRequest, codeInvalidFormat)
	}
	f.send("POST", orders+"/records?partition_key=k", "x").want(http.StatusOK)
	if lines := f.send("GET", orders+"/records", "").lines(); len(lines) != 1 || lines[0].Key != nil {
		t.Errorf("%+v", lines)
	}
}

func TestAKeyChoosesOneShardWhereverItIsGiven(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{})
	f.stream(`{"durable":false,"format":"kafka","shards":8}`)
	shards := make(map[int]bool)
	for i := range 20 {
		key := fmt.Sprintf("key-%d", i)
		var byKey, byPartition, byBatch, explicit published
		f.send("POST", orders+"/records?key="+key, "x").want(http.StatusOK).json(&byKey)
		f.send("POST", orders+"/records?partition_key="+key, "x").want(http.StatusOK).json(&byPartition)
		line := `{"text":"x","key":"` + key + "\"}\n"
		f.send("POST", orders+"/records", line+line, "Content-Type: "+mediaNDJSON).want(http.StatusOK).json(&byBatch)
		f.send("POST", orders+"/records?shard=3&key="+key, "x").want(http.StatusOK).json(&explicit)
		if byKey.Shard != byPartition.Shard || byKey.Shard != byBatch.Shard || explicit.Shard != 3 {
			t.Errorf("%s: %+v %+v %+v %+v", key, byKey, byPartition, byBatch, explicit)
		}
		shards[byKey.Shard] = true
	}
	if len(shards) < 3 {
		t.Errorf("only shards %v", shards)
	}
	mixed := "{\"text\":\"x\",\"key\":\"a\"}\n{\"text\":\"x\",\"key\":\"b\"}"
	f.send("POST", orders+"/records", mixed, "Content-Type: "+mediaNDJSON).refused(http.StatusBadRequest, codeInvalidParameter)
	f.send("POST", orders+"/records?shard=1", mixed, "Content-Type: "+mediaNDJSON).want(http.StatusOK)
	f.send("POST", orders+"/records?partition_key=c", mixed, "Content-Type: "+mediaNDJSON).want(http.StatusOK)
}

func TestBadPublishesAreRefused(t *testing.T) {
	f := start(t, inMemory(t, broker.Config{BatchBytesMax: 100}), Config{BodyBytesMax: 1000})
	f.stream(`{"durable":false,"shards":2}`)
	for _, c := range []struct {
		query, body, header string
		status              int
		code                string
	}{
		{"?shard=2", "x", "", 404, "no_such_shard"},
		{"?shard=-1", "x", "", 400, codeInvalidParameter},
		{"?shard=0&shard=1", "x", "", 400, codeInvalidParameter},
		{"?shard=0&partition_key=x", "x", "", 400, codeInvalidParameter},
		{"?sahrd=0", "x", "", 400, codeInvalidParameter},
		{"?timestamp_micros=x", "x", "", 400, codeInvalidParameter},
		{"?timeout_ms=0", "x", "", 400, codeInvalidParameter},
		{"?shard=%zz", "x", "", 400, codeInvalidParameter},
		{"?key=k", `{"text":"x"}`, "Content-Type: " + mediaNDJSON, 400, codeInvalidParameter},
		{"", "x", "Content-Encoding: gzip", 415, "unsupported_media_type"},
		{"", "x", "Content-Type: /;", 415, "unsupported_media_type"},
		{"", strings.Repeat("x", 101), "", 413, codeTooLarge},
		{"", strings.Repeat("x", 1001), "", 413, codeTooLarge},
	} {
		f.send("POST", orders+"/records"+c.query, c.body, c.header).refused(c.status, c.code)
	}
	f.send("POST", "/v1/streams/no/such/stream/records", "x").refused(http.StatusNotFound, "stream_not_found")
	for shard := range 2 {
		if lines := f.send("GET", fmt.Sprintf("%s/records?shard=%d", orders, shard), "").lines(); len(lines) != 0 {
			t.Errorf("%+v", lines)
		}
	}
}

func TestAPublishThatIsHeldBackTooLongIsRefused(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{})
	f.stream("")
	// The subscription is full from the start and takes nothing.
	stream := must(f.broker.Stream(broker.StreamName{Tenant: "acme", Namespace: "shop", Stream: "orders"}))
	sub := must(stream.Subscribe(t.Context(), 0, broker.Latest(), broker.SubscribeOptions{WhenFull: broker.WhenFullBlock}))
	defer sub.Close()
	f.send("POST", orders+"/records", strings.Repeat("{\"text\":\"\"}\n", broker.DefaultSubscriberQueue), "Content-Type: "+mediaNDJSON).want(http.StatusOK)
	r := f.send("POST", orders+"/records?timeout_ms=20", "x")
	r.refused(http.StatusTooManyRequests, codeBackPressure)
	if r.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}
