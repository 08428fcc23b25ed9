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

// withDefaults gives the configuration in effect, or a *ConfigError with all that is
// wrong with it.
func (c Config) withDefaults() (Config, error) {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	var problems []error
	if c.Broker == nil {
		problems = append(problems, errors.New("the Broker is missing"))
	}
	atLeast(&problems, "BodyBytesMax", &c.BodyBytesMax, DefaultBodyBytesMax, 1)
	atLeast(&problems, "BatchRecordsMax", &c.BatchRecordsMax, DefaultBatchRecordsMax, 1)
	atLeast(&problems, "BufferedBytesMax", &c.BufferedBytesMax, DefaultBufferedBytesMax, bodyBufferBytes)
	atLeast(&problems, "BufferedBytesClient", &c.BufferedBytesClient, max(c.BufferedBytesMax/2, 1), 1)
	atLeast(&problems, "PageBytes", &c.PageBytes, DefaultPageBytes, 1)
	atLeast(&problems, "PageBytesMax", &c.PageBytesMax, DefaultPageBytesMax, c.PageBytes)
	atLeast(&problems, "PageRecordsMax", &c.PageRecordsMax, DefaultPageRecordsMax, 1)
	atLeast(&problems, "PagesBytesMax", &c.PagesBytesMax, DefaultPagesBytesMax, c.PageBytesMax)
	atLeast(&problems, "PagesBytesClient", &c.PagesBytesClient, max(c.PagesBytesMax/4, 1), 1)
	atLeast(&problems, "FeedPageBytes", &c.FeedPageBytes, DefaultFeedPageBytes, 1)
	atLeast(&problems, "HeaderBytesMax", &c.HeaderBytesMax, DefaultHeaderBytesMax, 2*headerSlack)
	atLeast(&problems, "ConnectionsMax", &c.ConnectionsMax, DefaultConnectionsMax, 1)
	atLeast(&problems, "StreamsPerConn", &c.StreamsPerConn, DefaultStreamsPerConn, 1)
	atLeast(&problems, "ReadHeaderTimeout", &c.ReadHeaderTimeout, DefaultReadHeaderTimeout, 1)
	atLeast(&problems, "BodyTimeout", &c.BodyTimeout, DefaultBodyTimeout, 1)
	atLeast(&problems, "BodyProgressBytes", &c.BodyProgressBytes, DefaultBodyProgressBytes, 1)
	atLeast(&problems, "BodyRateMin", &c.BodyRateMin, DefaultBodyRateMin, 1)
	atLeast(&problems, "WriteTimeout", &c.WriteTimeout, DefaultWriteTimeout, 1)
	atLeast(&problems, "IdleTimeout", &c.IdleTimeout, DefaultIdleTimeout, 1)
	atLeast(&problems, "PublishTimeout", &c.PublishTimeout, DefaultPublishTimeout, 1)
	atLeast(&problems, "HeartbeatInterval", &c.HeartbeatInterval, DefaultHeartbeatInterval, 1)
	if len(problems) > 0 {
		return c, &ConfigError{Problems: problems}
	}
	return c, nil
}

// atLeast fills in a default, and notes a value below least.
func atLeast[T int | int64 | time.Duration](problems *[]error, name string, field *T, standard, least T) {
	if *field == 0 {
		*field = standard
	}
	if *field < least {
		*problems = append(*problems, fmt.Errorf("%s is %v; at least %v is needed", name, *field, least))
	}
}
