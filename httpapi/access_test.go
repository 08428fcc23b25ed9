package httpapi

import (
	"bytes"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"felix.local/felix/auth"
)

// Secrets of the principals in credentials.
const (
	readerSecret = "the-reader-has-a-long-secret"
	writerSecret = "the-writer-has-a-long-secret"
	adminSecret  = "the-admin-has-a-long-secret"
	bothSecret   = "who-may-do-both-has-a-long-secret"
)

func credentials(t *testing.T) *auth.Credentials {
	t.Helper()
	c, _ := credentialsFile(t)
	return c
}

// principal is a line of a credentials file, hashed with few iterations, so that tests
// are quick.
func principal(t *testing.T, name, secret, grant string) string {
	t.Helper()
	salt := bytes.Repeat([]byte{7}, 16)
	hash, err := pbkdf2.Key(sha256.New, secret, salt, auth.IterationsMin, sha256.Size)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("%s pbkdf2-sha256$%d$%s$%s %s\n", name, auth.IterationsMin, encode(salt), encode(hash), grant)
}

func credentialsFile(t *testing.T) (*auth.Credentials, string) {
	t.Helper()
	text := principal(t, "reader", readerSecret, "read:acme*") + principal(t, "writer", writerSecret, "write:acme") +
		principal(t, "admin", adminSecret, "admin:*") + principal(t, "both", bothSecret, "read,write:acme")
	path := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := auth.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return c, path
}

func bearer(name, secret string) string { return "Authorization: Bearer " + auth.Token(name, secret) }

func TestEachRouteAsksForItsOwnGrant(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{Credentials: credentials(t)})
	reader, writer, admin := bearer("reader", readerSecret), bearer("writer", writerSecret), bearer("admin", adminSecret)
	f.send("PUT", orders, `{"durable":false}`, admin).want(http.StatusCreated)
	for _, c := range []struct {
		method, path, body string
		allowed            string
		status             int
	}{
		{"PUT", orders, `{"durable":false}`, admin, 200},
		{"GET", orders, "", reader, 200},
		{"POST", orders + "/records", "x", writer, 200},
		{"GET", orders + "/records", "", reader, 200},
		{"GET", orders + "/subscribe?from=9", "", reader, 416},
		{"POST", orders + "/retention", "", admin, 200},
		{"DELETE", orders + "/records?before=0", "", admin, 200},
		{"DELETE", orders, "", admin, 204},
	} {
		f.send(c.method, c.path, c.body).refused(http.StatusUnauthorized, codeUnauthorized)
		for _, who := range []string{reader, writer, admin} {
			if who != c.allowed {
				f.send(c.method, c.path, c.body, who).refused(http.StatusForbidden, codeForbidden)
			}
		}
		f.send(c.method, c.path, c.body, c.allowed).want(c.status)
	}
}

func TestWhoCannotProveItIsTold401WithTheScheme(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{Credentials: credentials(t)})
	for _, header := range []string{
		"X-None: 1", "Authorization: Bearer", "Authorization: Bearer ", "Authorization: Basic cmVhZGVyOng=",
		"Authorization: Bearer reader", "Authorization: Bearer reader.wrong-but-long-enough-secret",
		"Authorization: Bearer nobody.wrong-but-long-enough-secret", "Authorization: Bearer " + strings.Repeat("x", 5000),
	} {
		r := f.send("GET", orders, "", header)
		r.refused(http.StatusUnauthorized, codeUnauthorized)
		if !strings.HasPrefix(r.header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s: WWW-Authenticate is %q", header, r.header.Get("WWW-Authenticate"))
		}
	}
	// Who is nobody learns nothing of names either.
	f.send("GET", "/v1/streams/%2e%2e/b/c", "").refused(http.StatusUnauthorized, codeUnauthorized)
}

func TestAListShowsOnlyTenantsThatMayBeRead(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{Credentials: credentials(t)})
	for _, tenant := range []string{"acme", "acme-eu", "other"} {
		f.send("PUT", "/v1/streams/"+tenant+"/n/s", `{"durable":false}`, bearer("admin", adminSecret)).want(http.StatusCreated)
	}
	for who, want := range map[string]string{
		bearer("reader", readerSecret): "acme acme-eu",
		bearer("admin", adminSecret):   "",
	} {
		var page listJSON
		f.send("GET", "/v1/streams", "", who).want(http.StatusOK).json(&page)
		var tenants []string
		for _, s := range page.Streams {
			tenants = append(tenants, s.Tenant)
		}
		if got := strings.Join(tenants, " "); got != want {
			t.Errorf("%q instead of %q", got, want)
		}
	}
	f.send("GET", "/v1/streams", "").refused(http.StatusUnauthorized, codeUnauthorized)
}

func TestASubscriptionEndsWhenItsGrantIsTakenAway(t *testing.T) {
	c, path := credentialsFile(t)
	f := start(t, inMemory(t, brokerDefaults), Config{Credentials: c})
	admin, writer := bearer("admin", adminSecret), bearer("writer", writerSecret)
	f.send("PUT", orders, `{"durable":false}`, admin).want(http.StatusCreated)
	events := f.subscribe("?from=earliest", bearer("reader", readerSecret))
	events.expect("subscribed")
	f.send("POST", orders+"/records", "first", writer).want(http.StatusOK)
	events.expect("record")
	if err := auth.Remove(path, "reader"); err != nil {
		t.Fatal(err)
	}
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	f.send("POST", orders+"/records", "second", writer).want(http.StatusOK)
	if last := events.expect("error"); last.Error["code"] != codeForbidden {
		t.Errorf("%v", last.Error)
	}
	events.expectEnd()
}

func TestAPageOfAnotherOriginIsRefused(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{})
	f.stream(`{"durable":false}`)
	f.send("POST", orders+"/records", "x", "Sec-Fetch-Site: cross-site").refused(http.StatusForbidden, "cross_origin")
	f.send("DELETE", orders, "", "Origin: http://elsewhere.example").refused(http.StatusForbidden, "cross_origin")
	f.send("POST", orders+"/records", "x", "Origin: "+f.base).want(http.StatusOK)
}

func TestAPageThatMadeItsNameResolveHereIsRefused(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{Hosts: []string{"felix.example:8080"}})
	known := start(t, inMemory(t, brokerDefaults), Config{Credentials: credentials(t)})
	ask := func(f *fixture, host string) reply {
		c := f.dial()
		c.write("GET /v1/streams HTTP/1.1\r\nHost: " + host + "\r\n" + bearer("reader", readerSecret) + "\r\n\r\n")
		return c.answer()
	}
	for _, host := range []string{"evil.example", "evil.example:8080", "evil", ""} {
		refused := ask(f, host).refused(http.StatusForbidden, "foreign_host")
		if !strings.Contains(refused["action"].(string), "FELIX_HOSTS") {
			t.Errorf("%v", refused)
		}
		ask(known, host).want(http.StatusOK)
	}
	for _, host := range []string{"localhost", "localhost:8080", "127.0.0.1:8080", "[::1]", "felix.example", "FELIX.example:9"} {
		ask(f, host).want(http.StatusOK)
	}
}

func TestHoldingPublishersBackNeedsTheirGrant(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{Credentials: credentials(t)})
	f.send("PUT", orders, `{"durable":false}`, bearer("admin", adminSecret)).want(http.StatusCreated)
	f.publishAs("writer", writerSecret)
	for _, query := range []string{"?when_full=block", "?from=0&when_full=block"} {
		refused := f.send("GET", orders+"/subscribe"+query, "", bearer("reader", readerSecret)).refused(http.StatusForbidden, codeForbidden)
		if !strings.Contains(refused["action"].(string), "when_full=disk") {
			t.Errorf("%v", refused)
		}
	}
	e := f.subscribe("?from=0&when_full=block", bearer("both", bothSecret))
	e.expect("subscribed")
	e.expect("record")
	e = f.subscribe("?from=0&when_full=disk", bearer("reader", readerSecret))
	e.expect("subscribed")
	e.expect("record")
}

func (f *fixture) publishAs(name, secret string) {
	f.t.Helper()
	f.send("POST", orders+"/records", "x", bearer(name, secret)).want(http.StatusOK)
}
