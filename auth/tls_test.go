package auth

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// authority makes certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue makes a certificate and its key, in PEM.
func (a *authority) issue(t *testing.T, name string, until time.Time) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"felix.test"}, NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// tlsFiles are the files of one listener.
type tlsFiles struct{ TLS }

func newTLSFiles(t *testing.T, a *authority, name string) tlsFiles {
	t.Helper()
	dir := t.TempDir()
	f := tlsFiles{TLS{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}}
	cert, key := a.issue(t, name, time.Now().Add(time.Hour))
	put(t, f.CertFile, cert)
	put(t, f.KeyFile, key)
	return f
}

// put replaces a file as a rotation does, by a rename.
func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// handshake connects both ends and gives the name in the server's certificate.
func handshake(t *testing.T, server, client *tls.Config) (name string, serverErr, clientErr error) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ended := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			err = errors.Join(conn.(*tls.Conn).HandshakeContext(t.Context()), conn.Close())
		}
		ended <- err
	}()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	secured := tls.Client(conn, client)
	if clientErr = secured.HandshakeContext(t.Context()); clientErr == nil {
		name = secured.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	return name, <-ended, clientErr
}

func clientOf(a *authority) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{RootCAs: pool, ServerName: "felix.test"}
}

func TestWithoutSettingsThereIsNoTLS(t *testing.T) {
	if config, err := (TLS{}).Config(); config != nil || err != nil {
		t.Errorf("%v, %v", config, err)
	}
}

func TestTLSIsSpokenFromVersion12On(t *testing.T) {
	a := newAuthority(t)
	config, err := newTLSFiles(t, a, "server").Config()
	if err != nil {
		t.Fatal(err)
	}
	for version, wanted := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		client := clientOf(a)
		client.MinVersion, client.MaxVersion = tls.VersionTLS10, version
		name, _, err := handshake(t, config, client)
		if (err == nil) != wanted || wanted && name != "server" {
			t.Errorf("%s: %q, %v", tls.VersionName(version), name, err)
		}
	}
}

func TestTLSSettingsThatCannotBeUsedAreRefused(t *testing.T) {
	a := newAuthority(t)
	f, other := newTLSFiles(t, a, "server"), newTLSFiles(t, a, "other")
	dir := t.TempDir()
	empty, missing := filepath.Join(dir, "empty"), filepath.Join(dir, "missing")
	put(t, empty, nil)
	for _, row := range []struct {
		settings   TLS
		what, want string
	}{
		{TLS{CertFile: f.CertFile}, "key", "FELIX_TLS_KEY_FILE"},
		{TLS{KeyFile: f.KeyFile}, "certificate", "FELIX_TLS_CERT_FILE"},
		{TLS{ClientCAFile: f.CertFile}, "certificate", "FELIX_TLS_CERT_FILE"},
		{TLS{CertFile: missing, KeyFile: f.KeyFile}, "certificate", "no such file"},
		{TLS{CertFile: f.CertFile, KeyFile: missing}, "key", "no such file"},
		{TLS{CertFile: dir, KeyFile: f.KeyFile}, "certificate", "no regular file"},
		{TLS{CertFile: f.CertFile, KeyFile: other.KeyFile}, "certificate", "does not go with the key " + other.KeyFile},
		{TLS{CertFile: empty, KeyFile: f.KeyFile}, "certificate", "does not go with"},
		{TLS{CertFile: f.CertFile, KeyFile: f.KeyFile, ClientCAFile: missing}, "client CA", "no such file"},
		{TLS{CertFile: f.CertFile, KeyFile: f.KeyFile, ClientCAFile: empty}, "client CA", "holds no certificate"},
		{TLS{CertFile: f.CertFile, KeyFile: f.KeyFile, ClientCAFile: f.KeyFile}, "client CA", "holds no certificate"},
	} {
		config, err := row.settings.Config()
		var refused *TLSError
		if config != nil || !errors.As(err, &refused) || refused.What != row.what || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: %v, want %s: %q", row.settings, err, row.what, row.want)
		}
	}
}

func TestAClientNeedsACertificateWhenAnAuthorityIsSet(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	f := newTLSFiles(t, a, "server")
	f.ClientCAFile = filepath.Join(t.TempDir(), "ca.pem")
	put(t, f.ClientCAFile, a.pem)
	config, err := f.Config()
	if err != nil {
		t.Fatal(err)
	}
	for who, row := range map[string]struct {
		from   *authority
		wanted bool
	}{"known": {a, true}, "stranger": {stranger, false}, "nobody": {nil, false}} {
		client := clientOf(a)
		if row.from != nil {
			pair, err := tls.X509KeyPair(row.from.issue(t, who, time.Now().Add(time.Hour)))
			if err != nil {
				t.Fatal(err)
			}
			client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		if _, err, _ := handshake(t, config, client); (err == nil) != row.wanted {
			t.Errorf("%s: %v", who, err)
		}
	}
}

// logged is what a logger wrote.
type logged struct {
	mu struct {
		sync.Mutex
		text bytes.Buffer
	}
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.text.Write(p)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.mu.text.String(), text)
}

func TestAChangedCertificateIsServedOnceItsKeyGoesWithIt(t *testing.T) {
	a := newAuthority(t)
	f := newTLSFiles(t, a, "first")
	log := new(logged)
	now := time.Now()
	served := &certificate{certFile: f.CertFile, keyFile: f.KeyFile, logger: slog.New(slog.NewTextHandler(log, nil)), now: func() time.Time { return now }}
	if err := served.load(); err != nil {
		t.Fatal(err)
	}
	serves := func(want string) {
		t.Helper()
		got, err := served.get(nil)
		if err != nil || got.Leaf.Subject.CommonName != want {
			t.Errorf("serves %s, want %s: %v", got.Leaf.Subject.CommonName, want, err)
		}
	}
	const failed = "the former one stays"
	cert, key := a.issue(t, "second", now.Add(time.Hour))
	put(t, f.CertFile, cert)
	now = now.Add(checkInterval)
	serves("first") // the key is still the former one
	now = now.Add(checkInterval)
	serves("first")
	if got := log.count(failed); got != 1 {
		t.Errorf("the failure was logged %d times", got)
	}
	put(t, f.KeyFile, key)
	serves("first") // not every handshake looks at the files
	now = now.Add(checkInterval)
	serves("second")
	if err := os.Remove(f.KeyFile); err != nil {
		t.Fatal(err)
	}
	now = now.Add(checkInterval)
	serves("second")
	if got := log.count(failed); got != 2 {
		t.Errorf("failures were logged %d times", got)
	}
	cert, key = a.issue(t, "third", now.Add(-time.Minute))
	put(t, f.CertFile, cert)
	put(t, f.KeyFile, key)
	now = now.Add(checkInterval)
	serves("third")
	if log.count("has expired") != 1 {
		t.Error("nobody was told that it has expired")
	}
}

func TestHandshakesAtTheSameTimeAsARotation(t *testing.T) {
	a := newAuthority(t)
	f := newTLSFiles(t, a, "server")
	config, err := f.Config()
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for range 20 {
			cert, key := a.issue(t, "server", time.Now().Add(time.Hour))
			put(t, f.CertFile, cert)
			put(t, f.KeyFile, key)
		}
	})
	for range 4 {
		all.Go(func() {
			for range 20 {
				if name, _, err := handshake(t, config, clientOf(a)); err != nil || name != "server" {
					t.Errorf("%q, %v", name, err)
				}
			}
		})
	}
	all.Wait()
}
