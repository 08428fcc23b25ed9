package httpapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"felix.local/felix/broker"
)

func TestPagesFollowOneAnotherToTheEnd(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{})
	f.stream("")
	for i := range 10 {
		f.publish(fmt.Sprintf("record %d", i))
	}
	from, seen := "earliest", 0
	for range 20 {
		page := f.send("GET", orders+"/records?max_records=3&from="+from, "").want(http.StatusOK)
		if page.header.Get(headerBase) != "0" || page.header.Get(headerNext) != "10" || page.header.Get("Content-Type") != mediaNDJSON {
			t.Errorf("%v", page.header)
		}
		lines := page.lines()
		for _, l := range lines {
			if l.Offset != uint64(seen) || *l.Text != fmt.Sprintf("record %d", seen) {
				t.Errorf("%+v at %d", l, seen)
			}
			seen++
		}
		from = page.header.Get(headerContinue)
		if len(lines) == 0 {
			break
		}
	}
	if seen != 10 || from != "10" {
		t.Errorf("%d records, then %s", seen, from)
	}
}

func TestAPageHoldsWhatItsBudgetAllowsAndAtLeastOne(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{})
	f.stream("")
	for range 4 {
		f.publish(strings.Repeat("x", 100))
	}
	for budget, want := range map[int]int{1: 1, 100: 1, 200: 2, 1000: 4} {
		if got := len(f.send("GET", fmt.Sprintf("%s/records?max_bytes=%d", orders, budget), "").lines()); got != want {
			t.Errorf("%d bytes: %d records instead of %d", budget, got, want)
		}
	}
}

func TestARecordOfAnyBytesAndSizeComesBack(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{})
	f.stream("")
	bodies := []string{
		"", "\x00\x01\x1f", "\"\\/\b\f\n\r\t", "<script>", "\u2028 é 😀 \ufffd", "\xed\xa0\x80", "a\xffb",
		strings.Repeat("é\"", 50_000), strings.Repeat("\x01", 100_000), strings.Repeat("\xff", 100_001),
	}
	for _, body := range bodies {
		f.publish(body)
	}
	lines := f.send("GET", orders+"/records", "").lines()
	for i, body := range bodies {
		got := string(lines[i].Base64)
		if lines[i].Text != nil {
			got = *lines[i].Text
		}
		if got != body {
			t.Errorf("record %d of %d bytes came back as %d", i, len(body), len(got))
		}
	}
}

func TestOnePayloadIsGivenAsItIs(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{})
	f.stream("")
	f.send("POST", orders+"/records?timestamp_micros=42", "<b>\xff").want(http.StatusOK)
	r := f.send("GET", orders+"/records?from=0&max_records=1", "", "Accept: application/octet-stream").want(http.StatusOK)
	if string(r.body) != "<b>\xff" || r.header.Get(headerOffset) != "0" || r.header.Get(headerTimestamp) != "42" || r.header.Get(headerContinue) != "1" {
		t.Errorf("%q %v", r.body, r.header)
	}
	if r.header.Get("Content-Type") != mediaBytes || r.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%v", r.header)
	}
	f.send("GET", orders+"/records?from=1", "", "Accept: application/octet-stream").want(http.StatusNoContent)
	f.send("GET", orders+"/records?from=0&max_records=2", "", "Accept: application/octet-stream").refused(http.StatusBadRequest, codeInvalidParameter)
}

func TestBadReadsAreRefused(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{})
	f.stream(`{"shards":2}`)
	for _, c := range []struct {
		query, header string
		status        int
		code          string
	}{
		{"", "", 400, codeInvalidParameter},
		{"?shard=9", "", 404, "no_such_shard"},
		{"?shard=0&from=1", "", 416, "cursor_in_future"},
		{"?shard=0&from=18446744073709551615", "", 416, "cursor_in_future"},
		{"?shard=0&from=18446744073709551616", "", 400, codeInvalidParameter},
		{"?shard=0&max_bytes=0", "", 400, codeInvalidParameter},
		{"?shard=0&max_bytes=99999999999", "", 400, codeInvalidParameter},
		{"?shard=0&max_records=0", "", 400, codeInvalidParameter},
		{"?shard=0&limit=1", "", 400, codeInvalidParameter},
		{"?shard=0", "Accept: text/html, application/json;q=1", 406, "not_acceptable"},
		{"?shard=0", "Accept: application/x-ndjson;q=0", 406, "not_acceptable"},
	} {
		f.send("GET", orders+"/records"+c.query, "", c.header).refused(c.status, c.code)
	}
	f.send("GET", orders+"/records?shard=0", "body").refused(http.StatusBadRequest, codeInvalidBody)
	f.send("GET", orders+"/records?shard=0", "", "Accept: text/html, */*;q=0.1").want(http.StatusOK)
}

func TestDeletedRecordsAreGone(t *testing.T) {
	root := t.TempDir()
	f := start(t, durable(t, root), Config{})
	f.stream("")
	for i := range 5 {
		f.publish(fmt.Sprint(i))
	}
	var deleted deletedJSON
	f.send("DELETE", orders+"/records?before=3", "").want(http.StatusOK).json(&deleted)
	if deleted != (deletedJSON{0, 3}) {
		t.Errorf("%+v", deleted)
	}
	gone := f.send("GET", orders+"/records?from=1", "").refused(http.StatusGone, codeCursorTooOld)
	if gone["oldest"] != 3.0 {
		t.Errorf("%v", gone)
	}
	if lines := f.send("GET", orders+"/records", "").lines(); len(lines) != 2 || lines[0].Offset != 3 {
		t.Errorf("%+v", lines)
	}
	f.send("DELETE", orders+"/records?before=6", "").refused(http.StatusRequestedRangeNotSatisfiable, "cursor_in_future")
	f.send("DELETE", orders+"/records", "").refused(http.StatusBadRequest, codeInvalidParameter)
	f.send("DELETE", orders+"/records?before=x", "").refused(http.StatusBadRequest, codeInvalidParameter)
}

func TestAPageGoesOnBehindOffsetsThatHoldNothing(t *testing.T) {
	server := must(New(Config{Broker: inMemory(t, brokerDefaults), Logger: quiet()}))
	for _, page := range []broker.Page{
		{Records: []broker.Record{{Offset: 3}}, Next: 9, Continue: 7},
		{Next: 9, Continue: 7},
	} {
		for name, answer := range map[string]func(x *exchange) error{
			"lines":   func(x *exchange) error { return x.lines(0, page) },
			"payload": func(x *exchange) error { return x.payload(page) },
		} {
			recorder := httptest.NewRecorder()
			x := &exchange{server: server, w: recorder, control: http.NewResponseController(recorder)}
			if err := answer(x); err != nil {
				t.Error(err)
			}
			if got := recorder.Header().Get(headerContinue); got != "7" {
				t.Errorf("%s of %d records go on at %s", name, len(page.Records), got)
			}
		}
	}
}
