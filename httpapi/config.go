package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"felix.local/felix/auth"
	"felix.local/felix/broker"
)

// The defaults.
const (
	DefaultBodyBytesMax      = broker.DefaultBatchBytesMax
	DefaultBatchRecordsMax   = broker.DefaultBatchRecordsMax
	DefaultBufferedBytesMax  = 256 << 20
	DefaultPageBytes         = 1 << 20
	DefaultPageBytesMax      = 16 << 20
	DefaultPageRecordsMax    = 10_000
	DefaultPagesBytesMax     = 256 << 20
	DefaultFeedPageBytes     = 256 << 10
	DefaultHeaderBytesMax    = 16 << 10
	DefaultConnectionsMax    = 10_000
	DefaultStreamsPerConn    = 100
	DefaultReadHeaderTimeout = 10 * time.Second
	DefaultBodyTimeout       = 10 * time.Second
	DefaultBodyProgressBytes = 16 << 10
	DefaultBodyRateMin       = 256 << 10
	DefaultWriteTimeout      = 30 * time.Second
	DefaultIdleTimeout       = 2 * time.Minute
	DefaultPublishTimeout    = time.Minute
	DefaultHeartbeatInterval = 15 * time.Second
)

// Config is everything a Server can be told. Broker is needed; of all else the zero
// value takes the default.
type Config struct {
	Broker *broker.Broker
	// Credentials say who may do what; nil lets everybody do everything.
	Credentials *auth.Credentials
	// Hosts are names that the server may be called by, each as HOST or HOST:PORT,
	// beside those that auth.HostAllowed lets pass: without Credentials and TLS,
	// requests for another name are refused.
	Hosts []string
	// Logger receives what an operator should know; nil is slog.Default.
	Logger *slog.Logger
	// Observer is told of every request as it ends; nil for none.
	Observer Observer

	// BodyBytesMax bounds the body of one publish.
	BodyBytesMax int64
	// BatchRecordsMax bounds the lines of one batch.
	BatchRecordsMax int
	// BufferedBytesMax bounds the bodies of all publishes under way together; more
	// are answered 429.
	BufferedBytesMax int64
	// BufferedBytesClient is how many of them one client may hold: a principal, or,
	// where there are no Credentials, an IP address. 0 is half: a body takes up to one and
	// a half times its size as it grows, and has to find room beside others.
	BufferedBytesClient int64

	// PageBytes is how many payload bytes a range read returns when it does not say,
	// PageBytesMax and PageRecordsMax what it may ask for.
	PageBytes, PageBytesMax int64
	PageRecordsMax          int
	// PagesBytesMax bounds the pages of all range reads and subscriptions under way
	// together, PagesBytesClient those of one client; 0 is a quarter. More range reads
	// are answered 429; subscriptions wait.
	PagesBytesMax, PagesBytesClient int64
	// FeedPageBytes is how many payload bytes a subscription holds at a time.
	FeedPageBytes int64

	// HeaderBytesMax bounds a request's line and headers.
	HeaderBytesMax int
	// ConnectionsMax bounds open connections; more are closed at once.
	ConnectionsMax int
	// StreamsPerConn bounds concurrent requests on one HTTP/2 connection.
	StreamsPerConn int
	// ReadHeaderTimeout bounds a TLS handshake and the arrival of headers.
	ReadHeaderTimeout time.Duration
	// BodyTimeout is how long a body may take to bring BodyProgressBytes, or its end.
	BodyTimeout       time.Duration
	BodyProgressBytes int64
	// BodyRateMin is how many bytes a second a body has to bring over all, after a
	// first BodyTimeout.
	BodyRateMin int64
	// WriteTimeout is how long a client may take to accept one piece of an answer, of
	// at most 32 KiB.
	WriteTimeout time.Duration
	// IdleTimeout closes connections without a request.
	IdleTimeout time.Duration
	// PublishTimeout is how long a publish waits for its acknowledgement. A request
	// may ask for less with timeout_ms.
	PublishTimeout time.Duration
	// HeartbeatInterval is how often a silent subscription shows that it lives.
	HeartbeatInterval time.Duration
}

// Observer is told of requests as they end, for histograms. Its method is called by
// many goroutines and must not block. A subscription ends when its client leaves.
type Observer interface {
	Request(route string, status int, took time.Duration)
}

// ConfigError lists everything wrong with a Config.
type ConfigError struct{ Problems []error }

func (e *ConfigError) Error() string {
	return fmt.Sprintf("http: %v", errors.Join(e.Problems...))
}

// Unwrap gives the problems.
func (e *ConfigError) Unwrap() []error { return e.Problems }

// or gives value, or its default when it is 0.
func or[N ~int | ~int64](value *N, standard N) {
	if *value == 0 {
		*value = standard
	}
}

func (c *Config) withDefaults() {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	or(&c.BodyBytesMax, DefaultBodyBytesMax)
	or(&c.BatchRecordsMax, DefaultBatchRecordsMax)
	or(&c.BufferedBytesMax, DefaultBufferedBytesMax)
	or(&c.BufferedBytesClient, max(c.BufferedBytesMax/2, 1))
	or(&c.PageBytes, DefaultPageBytes)
	or(&c.PageBytesMax, DefaultPageBytesMax)
	or(&c.PageRecordsMax, DefaultPageRecordsMax)
	or(&c.PagesBytesMax, DefaultPagesBytesMax)
	or(&c.PagesBytesClient, max(c.PagesBytesMax/4, 1))
	or(&c.FeedPageBytes, DefaultFeedPageBytes)
	or(&c.HeaderBytesMax, DefaultHeaderBytesMax)
	or(&c.ConnectionsMax, DefaultConnectionsMax)
	or(&c.StreamsPerConn, DefaultStreamsPerConn)
	or(&c.ReadHeaderTimeout, DefaultReadHeaderTimeout)
	or(&c.BodyTimeout, DefaultBodyTimeout)
	or(&c.BodyProgressBytes, DefaultBodyProgressBytes)
	or(&c.BodyRateMin, DefaultBodyRateMin)
	or(&c.WriteTimeout, DefaultWriteTimeout)
	or(&c.IdleTimeout, DefaultIdleTimeout)
	or(&c.PublishTimeout, DefaultPublishTimeout)
	or(&c.HeartbeatInterval, DefaultHeartbeatInterval)
}

// validate reports every problem of a Config whose defaults are filled in.
func (c *Config) validate() error {
	var problems []error
	if c.Broker == nil {
		problems = append(problems, errors.New("the Broker is missing"))
	}
	for _, bound := range []struct {
		name       string
		value, min int64
	}{
		{"BodyBytesMax", c.BodyBytesMax, 1},
		{"BatchRecordsMax", int64(c.BatchRecordsMax), 1},
		{"BufferedBytesMax", c.BufferedBytesMax, bodyBufferBytes},
		{"BufferedBytesClient", c.BufferedBytesClient, 1},
		{"PageBytes", c.PageBytes, 1},
		{"PageBytesMax", c.PageBytesMax, c.PageBytes},
		{"PageRecordsMax", int64(c.PageRecordsMax), 1},
		{"PagesBytesMax", c.PagesBytesMax, c.PageBytesMax},
		{"PagesBytesClient", c.PagesBytesClient, 1},
		{"FeedPageBytes", c.FeedPageBytes, 1},
		{"HeaderBytesMax", int64(c.HeaderBytesMax), 2 * headerSlack},
		{"ConnectionsMax", int64(c.ConnectionsMax), 1},
		{"StreamsPerConn", int64(c.StreamsPerConn), 1},
		{"ReadHeaderTimeout", int64(c.ReadHeaderTimeout), 1},
		{"BodyTimeout", int64(c.BodyTimeout), 1},
		{"BodyProgressBytes", c.BodyProgressBytes, 1},
		{"BodyRateMin", c.BodyRateMin, 1},
		{"WriteTimeout", int64(c.WriteTimeout), 1},
		{"IdleTimeout", int64(c.IdleTimeout), 1},
		{"PublishTimeout", int64(c.PublishTimeout), 1},
		{"HeartbeatInterval", int64(c.HeartbeatInterval), 1},
	} {
		if bound.value < bound.min {
			problems = append(problems, fmt.Errorf("%s is %d; at least %d is needed", bound.name, bound.value, bound.min))
		}
	}
	if problems != nil {
		return &ConfigError{Problems: problems}
	}
	return nil
}
