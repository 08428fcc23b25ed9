package auth

import (
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// pemBytesMax bounds the files that TLS settings name.
const pemBytesMax = 1 << 20

// TLS are the settings of one listener. All empty: no TLS.
type TLS struct {
	// CertFile and KeyFile are PEM files; a change of either is noticed.
	CertFile, KeyFile string
	// ClientCAFile, when set, makes clients show a certificate of one of the
	// authorities in this PEM file. A change of it needs a restart.
	ClientCAFile string
	// Logger hears of a certificate that has expired, and of a changed one that
	// cannot be used; nil: nobody does.
	Logger *slog.Logger
}

// Config gives the configuration for a listener, nil when TLS is off. It speaks
// TLS 1.2 and later. The certificate is read now, and again when a handshake
// finds its files changed; one that cannot be used is logged, and the former one
// stays. Errors are *TLSError.
func (t TLS) Config() (*tls.Config, error) {
	switch {
	case t.CertFile == "" && t.KeyFile == "" && t.ClientCAFile == "":
		return nil, nil
	case t.CertFile == "":
		return nil, &TLSError{What: "certificate", Problem: "is not set, though other TLS settings are: set FELIX_TLS_CERT_FILE to a PEM file"}
	case t.KeyFile == "":
		return nil, &TLSError{What: "key", Problem: "is not set, though the certificate is: set FELIX_TLS_KEY_FILE to a PEM file"}
	}
	logger := t.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	served := &certificate{certFile: t.CertFile, keyFile: t.KeyFile, logger: logger, now: time.Now}
	if err := served.load(); err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: served.get}
	if t.ClientCAFile != "" {
		authorities, err := readAuthorities(t.ClientCAFile)
		if err != nil {
			return nil, err
		}
		config.ClientCAs, config.ClientAuth = authorities, tls.RequireAndVerifyClientCert
	}
	return config, nil
}

func readAuthorities(path string) (*x509.CertPool, error) {
	pem, _, err := readRegular(path, pemBytesMax)
	if err != nil {
		return nil, &TLSError{What: "client CA", File: path, Err: err}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, &TLSError{What: "client CA", File: path, Problem: "holds no certificate in PEM"}
	}
	return pool, nil
}

// checkInterval is how often handshakes look at the files at most.
const checkInterval = time.Second

// certificate is the one a listener shows.
type certificate struct {
	certFile, keyFile string
	logger            *slog.Logger
	now               func() time.Time
	current           atomic.Pointer[tls.Certificate]
	// mu is held by the handshake that looks at the files; others do not wait.
	mu struct {
		sync.Mutex
		checked time.Time
		// seen is how the files were when they were read last; nil: not there.
		seen [2]fs.FileInfo
	}
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c.mu.TryLock() {
		defer c.mu.Unlock()
		if now := c.now(); now.Sub(c.mu.checked) >= checkInterval {
			c.mu.checked = now
			c.refreshLocked()
		}
	}
	return c.current.Load(), nil
}

// refreshLocked reads the files again if they are not as they were. A failure is
// logged once per change: it may be half of a rotation.
func (c *certificate) refreshLocked() {
	if is := c.stat(); !sameState(is[0], c.mu.seen[0]) || !sameState(is[1], c.mu.seen[1]) {
		if err := c.readLocked(is); err != nil {
			c.logger.Warn("the changed TLS certificate cannot be used; the former one stays", "error", err)
			return
		}
		c.logger.Info("the TLS certificate was read again", "file", c.certFile)
	}
}

// load reads the certificate for the first time.
func (c *certificate) load() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.checked = c.now()
	return c.readLocked(c.stat())
}

// readLocked reads both files, which had this state before.
func (c *certificate) readLocked(before [2]fs.FileInfo) error {
	c.mu.seen = before
	certPEM, _, err := readRegular(c.certFile, pemBytesMax)
	if err != nil {
		return &TLSError{What: "certificate", File: c.certFile, Err: err}
	}
	keyPEM, _, err := readRegular(c.keyFile, pemBytesMax)
	if err != nil {
		return &TLSError{What: "key", File: c.keyFile, Err: err}
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return &TLSError{What: "certificate", File: c.certFile, Problem: "does not go with the key " + c.keyFile, Err: err}
	}
	if leaf := pair.Leaf; leaf != nil && c.now().After(leaf.NotAfter) {
		c.logger.Warn("the TLS certificate has expired; clients will refuse it", "file", c.certFile, "expired", leaf.NotAfter)
	}
	c.current.Store(&pair)
	return nil
}

func (c *certificate) stat() (is [2]fs.FileInfo) {
	for i, path := range []string{c.certFile, c.keyFile} {
		if info, err := os.Stat(path); err == nil {
			is[i] = info
		}
	}
	return is
}

func sameState(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return sameFile(a, b)
}
