package main

import (
	"crypto/tls"
	"errors"
	"log/slog"

	"felix.local/felix/auth"
)

// secure reads credentials and certificates, and refuses what they leave open. Nil
// credentials mean that everybody may do everything. Settings that combinations has
// refused are passed over, so that both can be asked.
func (c *serverConfig) secure(logger *slog.Logger) (credentials *auth.Credentials, tlsConfig *tls.Config, err error) {
	if len(c.halfTLS()) == 0 {
		tlsConfig, err = auth.TLS{CertFile: c.certFile, KeyFile: c.keyFile, ClientCAFile: c.clientCAFile, Logger: logger}.Config()
	}
	if c.credentialsFile != "" {
		var credentialsErr error
		credentials, credentialsErr = auth.Load(c.credentialsFile)
		err = errors.Join(err, credentialsErr)
	}
	for _, l := range []struct{ what, addr string }{{"http", c.httpAddr}, {"kafka", c.kafkaAddr}, {"admin", c.adminAddr}} {
		if l.addr != "" {
			err = errors.Join(err, auth.CheckListener(l.what, l.addr, c.authenticates(), c.insecure))
		}
	}
	if err != nil {
		err = &exitError{code: exitUsage, err: err}
	}
	return credentials, tlsConfig, err
}

// authenticates says that clients have to show who they are.
func (c *serverConfig) authenticates() bool { return c.credentialsFile != "" || c.clientCAFile != "" }
