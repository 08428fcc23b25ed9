package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"felix.local/felix/internal/faultdisk"
)

func TestAStreamIsCreatedOnceAndChangedAfter(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{})
	created := f.send("PUT", orders, `{"shards":2,"fsync":"on_commit","retention_bytes":1000}`, "Content-Type: application/json").want(http.StatusCreated)
	if created.header.Get("Location") != orders {
		t.Errorf("%v", created.header)
	}
	var s streamJSON
	created.json(&s)
	if !*s.Durable || *s.Shards != 2 || *s.Format != "raw" || *s.Fsync != "on_commit" || *s.RetentionBytes != 1000 || len(s.ShardList) != 2 {
		t.Errorf("%s", created.body)
	}
	f.send("PUT", orders, `{"shards":2,"fsync":"on_commit","retention_bytes":1000}`).want(http.StatusOK)
	f.send("PUT", orders, `{"shards":4,"retention_seconds":60}`).want(http.StatusOK).json(&s)
	if *s.Shards != 4 || *s.RetentionSeconds != 60 {
		t.Errorf("%+v", s)
	}
	conflict := f.send("PUT", orders, `{"durable":false}`).refused(http.StatusConflict, "conflict")
	if conflict["field"] != "durable" {
		t.Errorf("%v", conflict)
	}
	f.send("PUT", orders, `{"format":"kafka","shards":4}`).refused(http.StatusConflict, "conflict")
	fewer := f.send("PUT", orders, `{"shards":3}`).refused(http.StatusConflict, "conflict")
	if action := fewer["action"].(string); !strings.Contains(action, "may grow, not shrink") || !strings.Contains(action, "at least 4") {
		t.Errorf("%v", fewer)
	}
	f.send("DELETE", orders, "").want(http.StatusNoContent)
	f.send("GET", orders, "").refused(http.StatusNotFound, "stream_not_found")
	f.send("DELETE", orders, "").refused(http.StatusNotFound, "stream_not_found")
	f.send("PUT", orders, "").want(http.StatusCreated)
}

func TestAStreamIsServedAgainAfterARestart(t *testing.T) {
	root := t.TempDir()
	t.Run("before", func(t *testing.T) {
		f := start(t, durable(t, root), Config{})
		f.stream(`{"format":"kafka"}`)
		f.send("POST", orders+"/records?key=k", "kept").want(http.StatusOK)
	})
	f := start(t, durable(t, root), Config{})
	lines := f.send("GET", orders+"/records", "").want(http.StatusOK).lines()
	if len(lines) != 1 || *lines[0].Text != "kept" || *lines[0].Key != "k" {
		t.Errorf("%+v", lines)
	}
	f.send("PUT", orders, `{"format":"kafka"}`).want(http.StatusOK)
}

func TestADurableStreamNeedsStorage(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{})
	f.send("PUT", orders, "").refused(http.StatusConflict, "no_storage")
	var s streamJSON
	f.send("PUT", orders, `{"durable":false}`).want(http.StatusCreated).json(&s)
	if *s.Durable || s.Fsync != nil || s.RetentionBytes != nil || s.RetentionSeconds != nil {
		t.Errorf("%+v", s)
	}
}

func TestBadDefinitionsAreRefused(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{})
	for _, body := range []string{
		`{`, `[]`, `null`, `{} {}`, `{"shards":0}`, `{"shards":-1}`, `{"shards":1.5}`, `{"shards":"1"}`, `{"shards":99999999999}`,
		`{"Durable":true}`, `{"durable":1}`, `{"durable":true,"durable":true}`, `{"format":"avro"}`, `{"fsync":"sometimes"}`,
		`{"retention_bytes":-1}`, `{"retention_seconds":99999999999999}`, `{"unknown":1}`,
	} {
		f.send("PUT", orders, body).refused(http.StatusBadRequest, codeInvalidBody)
	}
	many := f.send("PUT", orders, `{"shards":1000000}`).refused(http.StatusRequestEntityTooLarge, codeTooLarge)
	if many["size"] != 1e6 || many["max"] != 1024.0 || !strings.Contains(many["action"].(string), "at most 1024 shards, or have FELIX_SHARDS_MAX raised") {
		t.Errorf("%v", many)
	}
	f.send("PUT", orders, `{"durable":false,"fsync":"none"}`).want(http.StatusBadRequest)
	f.send("PUT", orders, `{}`, "Content-Type: application/xml").refused(http.StatusUnsupportedMediaType, "unsupported_media_type")
	f.send("PUT", orders, string(make([]byte, definitionBytesMax+1))).refused(http.StatusRequestEntityTooLarge, codeTooLarge)
	f.send("PUT", orders, `{"durable":null,"shards":null,"format":null,"fsync":null,"retention_bytes":null,"retention_seconds":null}`).want(http.StatusCreated)
}

func TestAListComesInPages(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{})
	for i := range 5 {
		f.send("PUT", fmt.Sprintf("/v1/streams/a/n/s%d", i), `{"durable":false}`).want(http.StatusCreated)
	}
	f.send("PUT", "/v1/streams/a-b/n/s", `{"durable":false}`).want(http.StatusCreated)
	var names []string
	after := ""
	for range 10 {
		var page listJSON
		f.send("GET", "/v1/streams?limit=2"+after, "").want(http.StatusOK).json(&page)
		for _, s := range page.Streams {
			names = append(names, s.Tenant+"/"+s.Stream)
		}
		if page.After == "" {
			break
		}
		after = "&after=" + page.After
	}
	if got := fmt.Sprint(names); got != "[a/s0 a/s1 a/s2 a/s3 a/s4 a-b/s]" {
		t.Errorf("%s", got)
	}
	for _, query := range []string{"?limit=0", "?limit=1001", "?after=x", "?after=a/b/../c", "?after="} {
		f.send("GET", "/v1/streams"+query, "").refused(http.StatusBadRequest, codeInvalidParameter)
	}
}

func TestRetentionRunsWhenAsked(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{})
	f.stream(`{"retention_bytes":4096}`)
	for range 30 {
		f.publish(string(make([]byte, 1000)))
	}
	var result retentionJSON
	f.send("POST", orders+"/retention", "").want(http.StatusOK).json(&result)
	if result.Segments == 0 || result.Bytes == 0 || len(result.BaseOffsets) != 1 || result.BaseOffsets[0] == 0 {
		t.Errorf("%+v", result)
	}
	f.send("POST", "/v1/streams/no/such/stream/retention", "").refused(http.StatusNotFound, "stream_not_found")
}

func TestWhatAPutDoesNotNameStaysAsItIs(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{})
	for definition, shards := range map[string]int{
		`{"durable":false,"format":"kafka","shards":2}`:                                              2,
		`{"format":"kafka","shards":2,"fsync":"none","retention_bytes":8192,"retention_seconds":60}`: 2,
	} {
		var before, after streamJSON
		f.send("PUT", orders, definition).want(http.StatusCreated).json(&before)
		for _, body := range []string{"", `{}`, `{"durable":null,"format":null}`, `{"format":"kafka"}`, fmt.Sprintf(`{"shards":%d}`, shards)} {
			after = streamJSON{}
			f.send("PUT", orders, body).want(http.StatusOK).json(&after)
			if fmt.Sprint(text(t, before)) != fmt.Sprint(text(t, after)) {
				t.Errorf("%s made %s of %s", body, text(t, after), text(t, before))
			}
		}
		f.send("PUT", orders, `{"shards":3}`).want(http.StatusOK).json(&after)
		if *after.Shards != 3 || *after.Durable != *before.Durable || *after.Format != "kafka" {
			t.Errorf("%s", text(t, after))
		}
		for field, body := range map[string]string{"format": `{"format":"raw"}`, "shards": `{"shards":1}`} {
			refused := f.send("PUT", orders, body).refused(http.StatusConflict, "conflict")
			said := refused["message"].(string) + refused["action"].(string)
			if refused["field"] != field || strings.Contains(said, "delete") || strings.Contains(said, "create") {
				t.Errorf("%v", refused)
			}
		}
		f.send("DELETE", orders, "").want(http.StatusNoContent)
	}
	f.stream(`{"durable":false}`)
	f.send("PUT", orders, `{"retention_seconds":60}`).refused(http.StatusBadRequest, codeInvalidRequest)
	f.send("PUT", orders, `{"durable":true}`).refused(http.StatusConflict, "conflict")
}

// text is what clients get of a stream.
func text(t *testing.T, s streamJSON) string {
	t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestAServerWithoutStorageTakesAPutThatNamesNothing(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{})
	f.stream(`{"durable":false}`)
	f.send("PUT", orders, "").want(http.StatusOK)
}

func TestADeletionThatIsNotFinishedIsShown(t *testing.T) {
	b, disk := onFaultyDisk(t)
	f := start(t, b, Config{})
	f.stream(`{"format":"kafka"}`)
	disk.Inject(faultdisk.Fault{Kinds: faultdisk.Rename, Errno: syscall.EIO, Path: func(path string) bool {
		return strings.Contains(path, ".deleted") || !strings.Contains(path, ".felixd")
	}})
	if r := f.send("DELETE", orders, ""); r.status < 500 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	var s streamJSON
	f.send("GET", orders, "").want(http.StatusOK).json(&s)
	if s.Error == nil || !strings.Contains(*s.Error, "not finished") || s.Format == nil || *s.Format != "kafka" || len(s.ShardList) != 1 {
		t.Errorf("%s", text(t, s))
	}
	var page listJSON
	f.send("GET", "/v1/streams", "").want(http.StatusOK).json(&page)
	if len(page.Streams) != 1 || page.Streams[0].Error == nil {
		t.Errorf("%+v", page)
	}
	refused := f.send("PUT", orders, "").refused(http.StatusServiceUnavailable, codeUnavailable)
	if !strings.Contains(refused["action"].(string), "delete") {
		t.Errorf("%v", refused)
	}
	f.send("DELETE", orders, "").want(http.StatusNoContent)
	f.send("GET", orders, "").refused(http.StatusNotFound, "stream_not_found")
}
