package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"felix.local/felix/auth"
)

// credentialsFile writes a file in which each name has its grants and the secret
// "secret-of-" and its name, and gives the tokens by name.
func credentialsFile(t *testing.T, path string, grants map[string]string) (tokens map[string]string) {
	t.Helper()
	tokens = make(map[string]string)
	for name, grant := range grants {
		secret := "secret-of-" + name + "-0123456789abcdef"
		if err := auth.Add(path, name, secret, []string{grant}); err != nil {
			t.Fatal(err)
		}
		tokens[name] = name + "." + secret
	}
	return tokens
}

// status asks the admin listener with a token.
func status(t *testing.T, addr, path, token string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

func TestTheAdminListenerShowsEachWhatItMaySee(t *testing.T) {
	path := filepath.Join(t.TempDir(), "credentials")
	tokens := credentialsFile(t, path, map[string]string{"scraper": "read:nobody", "operator": "admin:*", "tenant": "read,write,admin:t1"})
	s := runServer(t, serveFlags(t, "--credentials-file", path))
	for _, c := range []struct {
		path, who string
		want      int
	}{
		{"/live", "", 200},
		{"/ready", "", 200},
		{"/metrics", "", 401},
		{"/metrics", "scraper", 200},
		{"/debug/pprof/", "", 401},
		{"/debug/pprof/", "scraper", 403},
		{"/debug/pprof/", "tenant", 403},
		{"/debug/pprof/cmdline", "operator", 200},
		{"/elsewhere", "operator", 404},
	} {
		if got := status(t, s.admin.boundAddr(), c.path, tokens[c.who]); got != c.want {
			t.Errorf("%s for %q answers %d, want %d", c.path, c.who, got, c.want)
		}
	}
	if got := status(t, s.admin.boundAddr(), "/metrics", "scraper.wrong"); got != 401 {
		t.Errorf("a wrong secret is answered %d", got)
	}
}

func TestSIGHUPReadsTheCredentialsAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "credentials")
	tokens := credentialsFile(t, path, map[string]string{"first": "read,write,admin:*"})
	p := spawn(t, os.Stderr, "1", serveFlags(t, "--credentials-file", path)...)
	more := credentialsFile(t, path, map[string]string{"second": "read:*"})
	if got := status(t, p.ready.Admin, "/metrics", more["second"]); got != 401 {
		t.Fatalf("somebody nobody told the server of is answered %d", got)
	}
	hangup(t, p)
	until(t, "the second principal is known", func() bool { return status(t, p.ready.Admin, "/metrics", more["second"]) == 200 })

	// A file that cannot be read leaves what applied.
	if err := os.WriteFile(path, []byte("no such thing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hangup(t, p)
	until(t, "the second signal is answered", func() bool { return len(p.reloads()) == 2 })
	if got := status(t, p.ready.Admin, "/metrics", tokens["first"]); got != 200 {
		t.Errorf("after a file that cannot be read the first principal is answered %d", got)
	}
	// And neither does one that lets nobody in.
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	hangup(t, p)
	until(t, "the third signal is answered", func() bool { return len(p.reloads()) == 3 })
	if got := status(t, p.ready.Admin, "/metrics", tokens["first"]); got != 200 {
		t.Errorf("after an empty file the first principal is answered %d", got)
	}
	if _, err := p.stop(); err != nil {
		t.Error(err)
	}
	reloads := p.reloads()
	for _, r := range reloads {
		if r.Principals != 2 || r.File != path {
			t.Errorf("said %+v", r)
		}
	}
	if len(reloads) != 3 || !reloads[0].OK || reloads[1].OK || reloads[2].OK || !strings.Contains(reloads[1].Problem, path) || !strings.Contains(reloads[2].Problem, "no principal") {
		t.Errorf("said %+v", reloads)
	}
}

func TestASignalWithNothingToReadAgainSaysSo(t *testing.T) {
	s := runServer(t, serveFlags(t))
	s.reload()
	var e reloadedEvent
	if err := json.Unmarshal([]byte(eventLine(t, said(s), "reloaded")), &e); err != nil {
		t.Fatal(err)
	}
	if !e.OK || e.File != "" || !strings.Contains(e.text(), "nothing, since no credentials file is set") {
		t.Errorf("said %+v: %s", e, e.text())
	}
}

// reloads are the answers to SIGHUP so far.
func (p *serveProcess) reloads() (answers []reloadedEvent) {
	for _, e := range p.later() {
		var answer reloadedEvent
		if e.kind == answer.kind() && json.Unmarshal(e.line, &answer) == nil {
			answers = append(answers, answer)
		}
	}
	return answers
}

func hangup(t *testing.T, p *serveProcess) {
	t.Helper()
	if err := p.child.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// until asks again until something holds; a minute is more than any machine needs.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("a minute went by before %s", what)
		}
	}
}

func TestTheServiceManagerIsToldWhenAServerIsReadyAndWhenItStops(t *testing.T) {
	for name, abstract := range map[string]bool{"path": false, "abstract": true} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "notify")
			shown := path
			if abstract {
				path, shown = "\x00"+path, "@"+path
			}
			manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
			if err != nil {
				t.Fatal(err)
			}
			defer manager.Close()
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			p, err := startServe(t.Context(), self, append(childEnvironment(os.Environ(), nil), "NOTIFY_SOCKET="+shown), os.Stderr, serveFlags(t)...)
			if err != nil {
				t.Fatal(err)
			}
			told(t, manager, "READY=1")
			if _, err := p.stop(); err != nil {
				t.Error(err)
			}
			told(t, manager, "STOPPING=1")
		})
	}
}

func told(t *testing.T, manager *net.UnixConn, want string) {
	t.Helper()
	if err := manager.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	n, err := manager.Read(b)
	if err != nil || string(b[:n]) != want {
		t.Errorf("the manager was told %q, want %q: %v", b[:n], want, err)
	}
}

// certificate makes a certificate for 127.0.0.1 that is its own authority.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "felix"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

func TestWithACertificateAllListenersSpeakTLS(t *testing.T) {
	certFile, keyFile := certificate(t)
	s := runServer(t, serveFlags(t, "--tls-cert-file", certFile, "--tls-key-file", keyFile))
	identity := identityFlags{CAFile: certFile}
	for _, d := range []*door{s.http, s.admin} {
		c, err := identity.client("--server", "https://"+d.boundAddr())
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.do(t.Context(), request{method: "GET", path: map[*door]string{s.http: "v1/streams", s.admin: "live"}[d]})
		if err != nil {
			t.Errorf("%s: %v", d.what, err)
			continue
		}
		if answer.ProtoMajor != 2 {
			t.Errorf("%s speaks %s", d.what, answer.Proto)
		}
		answer.Body.Close()
	}
	// Whoever speaks no TLS gets no answer, and whoever trusts others does not trust this.
	plain, err := (&identityFlags{}).client("--server", "http://"+s.http.boundAddr())
	if err != nil {
		t.Fatal(err)
	}
	var answered *serverError
	if err := plain.json(t.Context(), request{method: "GET", path: "v1/streams"}, nil); !errors.As(err, &answered) || answered.Status != 400 {
		t.Errorf("plain HTTP: %v", err)
	}
	stranger, err := (&identityFlags{}).client("--server", "https://"+s.http.boundAddr())
	if err != nil {
		t.Fatal(err)
	}
	if err := stranger.json(t.Context(), request{method: "GET", path: "v1/streams"}, nil); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown authority: %v", err)
	}
}

func TestAServerThatAsksForCertificatesServesThoseWhoShowOne(t *testing.T) {
	certFile, keyFile := certificate(t)
	// That is authentication: the listeners need not be loopback.
	s := runServer(t, serveFlags(t, "--tls-cert-file", certFile, "--tls-key-file", keyFile, "--tls-client-ca-file", certFile, "--kafka-addr", "0.0.0.0:0"))
	ask := func(identity identityFlags, d *door, path string) error {
		c, err := identity.client("--server", "https://"+d.boundAddr())
		if err != nil {
			t.Fatal(err)
		}
		return c.json(t.Context(), request{method: "GET", path: path}, nil)
	}
	for d, path := range map[*door]string{s.http: "v1/streams", s.admin: "metrics"} {
		if err := ask(identityFlags{CAFile: certFile, CertFile: certFile, KeyFile: keyFile}, d, path); err != nil {
			t.Errorf("%s with a certificate: %v", d.what, err)
		}
		if err := ask(identityFlags{CAFile: certFile}, d, path); err == nil {
			t.Errorf("%s answers without a certificate", d.what)
		}
	}
	if _, err := (&identityFlags{CertFile: certFile}).client("--server", "https://x"); exitCode(err) != exitUsage {
		t.Errorf("a certificate without its key: %v", err)
	}
}
