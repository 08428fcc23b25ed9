package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"felix.local/felix/broker"
)

// felixd runs a client command against a server in this process.
func felixd(t *testing.T, s *server, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("FELIX_SERVER", "http://"+s.http.boundAddr())
	var out, err bytes.Buffer
	code = run(args, &out, &err)
	return code, out.String(), err.String()
}

// must wants a client command to succeed.
func must(t *testing.T, s *server, args ...string) (stdout string) {
	t.Helper()
	code, stdout, stderr := felixd(t, s, args...)
	if code != exitOK || stderr != "" {
		t.Fatalf("felixd %v exits %d: %s", args, code, stderr)
	}
	return stdout
}

func TestStreamsAreCreatedShownTrimmedAndDeleted(t *testing.T) {
	s := runServer(t, serveFlags(t, "--fsync", "on_commit"))
	out := must(t, s, "streams", "create", "t1/default/orders", "--shards", "2", "--fsync", "none", "--retention-seconds", "60")
	for _, part := range []string{`"event":"stream"`, `"shards":2`, `"fsync":"none"`, `"retention_seconds":60`, `"durable":true`} {
		if !strings.Contains(out, part) {
			t.Errorf("%s is not in %s", part, out)
		}
	}
	must(t, s, "streams", "create", "t1/default/telemetry", "--in-memory")
	if n := strings.Count(must(t, s, "streams", "list"), "\n"); n != 2 {
		t.Errorf("%d streams are listed", n)
	}
	must(t, s, "publish", "t1/default/orders", "a", "b", "c", "--shard", "1")
	if out := must(t, s, "streams", "trim", "t1/default/orders", "--shard", "1", "--before", "2"); !strings.Contains(out, `"shard":1,"base_offset":2`) {
		t.Errorf("trimming says %s", out)
	}
	if out := must(t, s, "streams", "trim", "t1/default/orders"); !strings.Contains(out, `"event":"retained"`) {
		t.Errorf("a retention pass says %s", out)
	}
	if out := must(t, s, "streams", "show", "t1/default/orders"); !strings.Contains(out, `"shard":1,"state":"serving","base_offset":2,"next_offset":3`) {
		t.Errorf("shown %s", out)
	}
	must(t, s, "streams", "delete", "t1/default/orders")
	code, _, stderr := felixd(t, s, "streams", "show", "t1/default/orders")
	if code != exitFailure || !strings.Contains(stderr, "stream_not_found: ") || !strings.Contains(stderr, "create it") || !strings.Contains(stderr, "HTTP 404") {
		t.Errorf("a stream that is gone: %d, %q", code, stderr)
	}
}

func TestEveryPageOfTheListIsAskedFor(t *testing.T) {
	s := runServer(t, []string{"--in-memory", "--http-addr", "127.0.0.1:0", "--kafka-addr", "off", "--admin-addr", "off"})
	for i := range 1001 {
		if _, _, err := s.broker.CreateStream(t.Context(), stream(fmt.Sprintf("s%04d", i)), broker.StreamConfig{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(must(t, s, "streams", "list"), "\n"); n != 1001 {
		t.Errorf("%d streams are listed", n)
	}
}

func TestRecordsOfEverySortArePublishedAndPrinted(t *testing.T) {
	s := runServer(t, serveFlags(t))
	c := clientOf(t, s)
	if _, err := c.create(t.Context(), stream("orders"), definitionDocument{Durable: new(true), Shards: new(1), Format: "kafka"}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "record")
	if err := os.WriteFile(file, []byte("two\nlines\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, s, "publish", "t1/default/orders", "plain", "")
	must(t, s, "publish", "t1/default/orders", "keyed", "--key", "k")
	must(t, s, "publish", "t1/default/orders", "--file", file, "--key", "")
	p := &publisher{client: c, name: stream("orders"), out: &output{w: new(bytes.Buffer), json: true}}
	// A slow input, a line that ends as on Windows, one that is no text, and an end without a line's end.
	if err := p.lines(t.Context(), iotest.OneByteReader(strings.NewReader("one\r\ntwo\n\xff\xfe\n\nlast")), 2); err != nil {
		t.Fatal(err)
	}
	out := must(t, s, "subscribe", "t1/default/orders", "--from", "earliest", "--count", "9")
	var got []string
	for line := range strings.Lines(out) {
		_, shown, _ := strings.Cut(strings.TrimSpace(line), `"timestamp_micros":`)
		_, shown, _ = strings.Cut(shown, ",")
		got = append(got, shown)
	}
	want := []string{
		`"text":"plain"}`, `"text":""}`, `"text":"keyed","key":"k"}`, `"text":"two\nlines\n","key":""}`,
		`"text":"one\r"}`, `"text":"two"}`, `"base64":"//4="}`, `"text":""}`, `"text":"last"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestALineThatIsTooLongIsRefused(t *testing.T) {
	p := &publisher{out: &output{w: new(bytes.Buffer), json: true}}
	long := strings.NewReader(strings.Repeat("x", publishBatchBytes+1))
	if err := p.lines(t.Context(), long, 10); err == nil || !strings.Contains(err.Error(), strconv.Itoa(publishBatchBytes)) || !strings.Contains(err.Error(), "--file") {
		t.Errorf("got %v", err)
	}
}

func TestWhatAClientAsksForIsJudgedBeforeItAsks(t *testing.T) {
	for _, args := range [][]string{
		{"publish", "orders", "x"},
		{"publish", "t1/default/..", "x"},
		{"publish", "t1/default/orders", "x", "--file", "f"},
		{"publish", "t1/default/orders", "x", "--shard", "1", "--partition-key", "k"},
		{"publish", "t1/default/orders", "x", "--server", "localhost:8080"},
		{"subscribe", "t1/default/orders", "--when-full", "drop"},
		{"streams", "create", "t1/default/orders", "--format", "xml"},
		{"streams", "create", "t1/default/orders", "--fsync", "sometimes"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(args, &stdout, &stderr); code != exitUsage || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("felixd %v exits %d: %s", args, code, stderr.String())
		}
	}
}

func TestAnAnswerThatIsNoFelixIsShown(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "nothing to see here", http.StatusTeapot)
	}))
	defer other.Close()
	c, err := (&clientFlags{Server: other.URL}).client()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.json(t.Context(), request{method: "GET", path: "v1/streams"}, nil); err == nil || !strings.Contains(err.Error(), "HTTP 418: nothing to see here") {
		t.Errorf("got %v", err)
	}
}

func TestATokenIsSentToTheServerAloneAndCanComeFromAFile(t *testing.T) {
	var told []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { told = append(told, r.Header.Get("Authorization")) }))
	defer other.Close()
	redirecting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told = append(told, r.Header.Get("Authorization"))
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	defer redirecting.Close()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(" name.secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := (&clientFlags{Server: redirecting.URL, identityFlags: identityFlags{Token: "other.one", TokenFile: file}}).client()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.json(t.Context(), request{method: "GET", path: "v1/streams"}, nil); err == nil {
		t.Error("a redirect counts as an answer")
	}
	if diff := cmp.Diff([]string{"Bearer name.secret"}, told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAResumeFileGoesOnBehindWhatWasPrintedAndBelongsToOneShard(t *testing.T) {
	s := runServer(t, serveFlags(t))
	must(t, s, "streams", "create", "t1/default/orders", "--shards", "2")
	must(t, s, "publish", "t1/default/orders", "a", "b", "c", "--shard", "0")
	file := filepath.Join(t.TempDir(), "resume.json")
	subscribe := []string{"subscribe", "t1/default/orders", "--shard", "0", "--from", "earliest", "--resume-file", file, "--count"}
	if out := must(t, s, append(subscribe, "2")...); strings.Count(out, "\n") != 2 || !strings.Contains(out, `"text":"b"`) {
		t.Errorf("first %s", out)
	}
	if out := must(t, s, append(subscribe, "1")...); strings.Count(out, "\n") != 1 || !strings.Contains(out, `"offset":2`) {
		t.Errorf("then %s", out)
	}
	code, _, stderr := felixd(t, s, append(subscribe, "1", "--shard", "1")...)
	if code != exitFailure || !strings.Contains(stderr, file) || !strings.Contains(stderr, "shard 0") {
		t.Errorf("another shard: %d, %q", code, stderr)
	}
	// Where it began is remembered before there is a record.
	latest := filepath.Join(t.TempDir(), "latest.json")
	if err := (&printer{resume: resumeFile{latest}, point: resumePoint{Stream: "t1/default/orders"}}).started(3); err != nil {
		t.Fatal(err)
	}
	must(t, s, "publish", "t1/default/orders", "d", "--shard", "0")
	if out := must(t, s, "subscribe", "t1/default/orders", "--shard", "0", "--resume-file", latest, "--count", "1"); !strings.Contains(out, `"offset":3`) {
		t.Errorf("a subscription that was ended before its first record: %s", out)
	}
	if err := os.WriteFile(file, []byte("offset 2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := felixd(t, s, append(subscribe, "1")...); code != exitFailure || !strings.Contains(stderr, "no resume file") {
		t.Errorf("a file of somebody else: %d, %q", code, stderr)
	}
}

func TestASubscriptionThatCannotGoOnSaysWhy(t *testing.T) {
	s := runServer(t, serveFlags(t))
	must(t, s, "streams", "create", "t1/default/orders")
	must(t, s, "publish", "t1/default/orders", "a", "b", "c")
	must(t, s, "streams", "trim", "t1/default/orders", "--before", "2")
	for from, want := range map[string]string{"0": "cursor_too_old: ", "99": "cursor_in_future: ", "yesterday": "invalid_parameter: "} {
		code, stdout, stderr := felixd(t, s, "subscribe", "t1/default/orders", "--from", from)
		if code != exitFailure || stdout != "" || !strings.Contains(stderr, want) || strings.Contains(stderr, "again") {
			t.Errorf("from %s: %d, %q, %q", from, code, stdout, stderr)
		}
	}
}

// Whoever does not say which of several shards is meant has not said enough: neither is
// one of them read, nor are records of one deleted, unasked.
func TestOneOfSeveralShardsHasToBeNamed(t *testing.T) {
	s := runServer(t, serveFlags(t))
	must(t, s, "streams", "create", "t1/default/orders")
	must(t, s, "publish", "t1/default/orders", "a", "b", "c")
	file := filepath.Join(t.TempDir(), "resume.json")
	subscribe := []string{"subscribe", "t1/default/orders", "--from", "earliest", "--count", "1"}
	if out := must(t, s, append(subscribe, "--resume-file", file)...); !strings.Contains(out, `"shard":0,"offset":0`) {
		t.Errorf("the only shard need not be named: %s", out)
	}
	if out := must(t, s, "streams", "trim", "t1/default/orders", "--before", "1"); !strings.Contains(out, `"shard":0,"base_offset":1`) {
		t.Errorf("the only shard need not be named: %s", out)
	}
	must(t, s, "streams", "create", "t1/default/orders", "--shards", "3")
	for _, args := range [][]string{
		subscribe, append(subscribe, "--resume-file", file), {"streams", "trim", "t1/default/orders", "--before", "2"},
	} {
		code, stdout, stderr := felixd(t, s, args...)
		if code != exitFailure || stdout != "" || !strings.Contains(stderr, "the stream has 3 shards; name one") || strings.Contains(stderr, "again") {
			t.Errorf("%v: %d, %q, %q", args, code, stdout, stderr)
		}
	}
	if out := must(t, s, "streams", "show", "t1/default/orders"); !strings.Contains(out, `"shard":0,"state":"serving","base_offset":1,`) {
		t.Errorf("records were deleted: %s", out)
	}
	if out := must(t, s, append(subscribe, "--shard", "0", "--from", "1", "--resume-file", file)...); !strings.Contains(out, `"shard":0,"offset":1`) {
		t.Errorf("with the shard named it goes on: %s", out)
	}
	if out := must(t, s, "streams", "trim", "t1/default/orders", "--shard", "0", "--before", "2"); !strings.Contains(out, `"shard":0,"base_offset":2`) {
		t.Errorf("with the shard named: %s", out)
	}
}

// A subscription that has begun is one to the shard that the server told, whatever is
// added meanwhile.
func TestASubscriptionStaysWithTheShardThatItBeganWith(t *testing.T) {
	var asked []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("shard"))
		if len(asked) == 1 {
			_, _ = w.Write([]byte(`{"event":"subscribed","shard":0,"start_offset":4}` + "\n"))
			return
		}
		_, _ = w.Write([]byte(`{"event":"subscribed","shard":0,"start_offset":4}` + "\n" + `{"offset":4,"text":"the end"}` + "\n"))
	}))
	defer other.Close()
	sub := &subscription{client: clientAt(t, other.URL), name: stream("orders"), from: "latest", warn: func(string) {}}
	if err := sub.run(t.Context(), untilEnd(func(feedRecord) {})); !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"", "0"}, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// What a refused shard answers it goes on answering until somebody has mended its files;
// a poisoned one may serve after the next start.
func TestASubscriptionWaitsForNoShardThatIsRefused(t *testing.T) {
	const unavailable = `{"error":{"code":"unavailable","message":"the reason, at length","action":"see the reason"}}`
	state := func(s string) string {
		return `{"shard_list":[{"shard":0,"state":"serving"},{"shard":1,"state":"` + s + `"}]}`
	}
	for name, c := range map[string]struct {
		describedStatus int
		described       string
		// subscribed counts the attempts, of which the fourth succeeds.
		subscribed int
	}{
		"refused":                     {200, state("refused"), 1},
		"a stream that is unreadable": {200, `{"error":"its definition cannot be read"}`, 1},
		"a stream that is refused":    {503, unavailable, 1},
		"poisoned":                    {200, state("poisoned"), 4},
		"mended meanwhile":            {200, state("serving"), 4},
		"no description":              {500, `{"error":{"code":"internal"}}`, 4},
	} {
		t.Run(name, func(t *testing.T) {
			subscribed := 0
			other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasSuffix(r.URL.Path, "/subscribe") {
					w.WriteHeader(c.describedStatus)
					_, _ = w.Write([]byte(c.described))
					return
				}
				if subscribed++; subscribed < 4 {
					w.WriteHeader(http.StatusServiceUnavailable)
					_, _ = w.Write([]byte(unavailable))
					return
				}
				_, _ = w.Write([]byte(`{"event":"subscribed","shard":1,"start_offset":0}` + "\n" + `{"offset":0,"text":"the end"}` + "\n"))
			}))
			defer other.Close()
			var warnings []string
			sub := &subscription{client: clientAt(t, other.URL), name: stream("orders"), shard: new(1), from: "earliest", warn: func(text string) {
				reason, _, _ := strings.Cut(text, "; connecting again")
				warnings = append(warnings, reason)
			}}
			err := sub.run(t.Context(), untilEnd(func(feedRecord) {}))
			var answered *serverError
			refused := errors.As(err, &answered) && answered.Code == "unavailable"
			if refused != (c.subscribed == 1) || !refused && !errors.Is(err, errEnough) || subscribed != c.subscribed {
				t.Errorf("%d attempts, then %v", subscribed, err)
			}
			// A reason is said once, however often it is met.
			var want []string
			if !refused {
				want = []string{"unavailable: the reason, at length; see the reason (HTTP 503)", "as before", "as before"}
			}
			if diff := cmp.Diff(want, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// clientAt talks to a server of a test's own.
func clientAt(t *testing.T, url string) *client {
	t.Helper()
	c, err := (&clientFlags{Server: url}).client()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A server that leaves out an offset, or sends half a line, must not be believed.
func TestAHoleInAFeedIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		feed string
		want string
	}{
		"an offset is left out":        {`{"event":"subscribed","start_offset":4}` + "\n" + `{"offset":4,"text":"a"}` + "\n" + `{"offset":6,"text":"c"}` + "\n", "offset 6 where 5 was due"},
		"the first offset is left out": {`{"event":"subscribed","start_offset":4}` + "\n" + `{"offset":5,"text":"b"}` + "\n", "offset 5 where 4 was due"},
		"an offset comes twice":        {`{"event":"subscribed","start_offset":4}` + "\n" + `{"offset":4,"text":"a"}` + "\n" + `{"offset":4,"text":"a"}` + "\n", "offset 4 where 5 was due"},
	} {
		t.Run(name, func(t *testing.T) {
			other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(c.feed)) }))
			defer other.Close()
			flags, err := (&clientFlags{Server: other.URL}).client()
			if err != nil {
				t.Fatal(err)
			}
			sub := &subscription{client: flags, name: stream("orders"), from: "earliest", warn: func(string) {}}
			if err := sub.run(t.Context(), onRecord(func(feedRecord) {})); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAFeedThatBreaksOffIsGoneOnWith(t *testing.T) {
	var asked []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("from")+"/"+r.Header.Get("Last-Event-ID"))
		switch len(asked) {
		case 1: // nothing but where it begins
			_, _ = w.Write([]byte(`{"event":"subscribed","start_offset":4}` + "\n"))
		case 2: // a record and a half
			_, _ = w.Write([]byte(`{"event":"subscribed","start_offset":4}` + "\n" + `{"offset":4,"text":"a"}` + "\n" + `{"offset":5,"te`))
		case 3: // no server for a moment
			w.WriteHeader(http.StatusServiceUnavailable)
		default: // an event of a later version, which is passed over
			_, _ = w.Write([]byte(`{"event":"subscribed","start_offset":5}` + "\n" + `{"event":"news"}` + "\n" + `{"offset":5,"text":"the end"}` + "\n"))
		}
	}))
	defer other.Close()
	c, err := (&clientFlags{Server: other.URL}).client()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	sub := &subscription{client: c, name: stream("orders"), from: "latest", warn: func(string) {}}
	if err := sub.run(t.Context(), untilEnd(func(r feedRecord) { got = append(got, string(r.payload())) })); !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", theEnd}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"latest/", "4/", "/4", "/4"}, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestRecordsAreShownToPeopleWithoutWhatWouldMoveTheirCursor(t *testing.T) {
	text, key := "a\x1b[2Jb", "k"
	r := feedRecord{Offset: 7, Text: &text, Key: &key}
	if got, want := r.text(), `7: k = "a\x1b[2Jb"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r = feedRecord{Offset: 8, Base64: []byte{0xff, 'a'}}
	if got, want := r.text(), `8: "\xffa"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestOnlyWhatIsGivenOfAStreamIsSent(t *testing.T) {
	var sent string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = string(body)
		_, _ = io.WriteString(w, "{}")
	}))
	defer server.Close()
	for want, flags := range map[string][]string{
		`{}`:                           nil,
		`{"retention_seconds":60}`:     {"--retention-seconds", "60"},
		`{"shards":3}`:                 {"--shards", "3"},
		`{"durable":false,"shards":1}`: {"--in-memory", "--shards", "1"},
		`{"format":"kafka","fsync":"none","retention_bytes":0}`: {"--format", "kafka", "--fsync", "none", "--retention-bytes", "0"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(append([]string{"streams", "create", "t1/default/orders", "--server", server.URL}, flags...), &stdout, &stderr); code != exitOK || sent != want {
			t.Errorf("%v exits %d and sends %s, want %s: %s", flags, code, sent, want, stderr.String())
		}
	}
}

func TestAMissingStreamIsAnsweredWithTheCommandThatCreatesIt(t *testing.T) {
	s := runServer(t, serveFlags(t))
	for _, args := range [][]string{{"publish", "t1/default/orders", "x"}, {"subscribe", "t1/default/orders"}} {
		if code, _, stderr := felixd(t, s, args...); code != exitFailure || !strings.Contains(stderr, "felixd streams create t1/default/orders") {
			t.Errorf("%v exits %d: %s", args, code, stderr)
		}
	}
}

func TestControlCharactersOfARecordDoNotReachTheTerminal(t *testing.T) {
	for text, want := range map[string]string{
		"plain":         "plain",
		"a\tb":          "a\tb",
		"größer":        "größer",
		"\x1b[2J":       `"\x1b[2J"`,
		"\u009b2J":      `"\u009b2J"`,
		"\u0085":        `"\u0085"`,
		"\x7f":          `"\x7f"`,
		"line\nanother": `"line\nanother"`,
	} {
		if got := shownBytes(&text, nil); got != want {
			t.Errorf("%q is shown as %s, want %s", text, got, want)
		}
	}
}

func TestReadyIsToldByVariablesWhomToAskAndWhomToTrust(t *testing.T) {
	path := filepath.Join(t.TempDir(), "credentials")
	tokens := credentialsFile(t, path, map[string]string{"a": "read:*"})
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(tokens["a"]+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := certificate(t)
	s := runServer(t, serveFlags(t, "--credentials-file", path, "--tls-cert-file", certFile, "--tls-key-file", keyFile))
	t.Setenv("FELIX_ADMIN", "https://"+s.admin.boundAddr())
	t.Setenv("FELIX_CA_FILE", certFile)
	t.Setenv("FELIX_TOKEN_FILE", token)
	var stdout, stderr bytes.Buffer
	if code := run([]string{"ready"}, &stdout, &stderr); code != exitOK || stderr.Len() > 0 {
		t.Errorf("felixd ready exits %d: %s", code, stderr.String())
	}
	t.Setenv("FELIX_CA_FILE", "")
	if code := run([]string{"ready"}, &stdout, &stderr); code != exitFailure || !strings.Contains(stderr.String(), "certificate") {
		t.Errorf("without an authority felixd ready exits %d: %s", code, stderr.String())
	}
}
