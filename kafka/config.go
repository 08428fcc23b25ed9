package kafka

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strconv"
	"time"

	"felix.local/felix/auth"
	"felix.local/felix/broker"
)

// The defaults.
const (
	DefaultName                      = "default"
	DefaultClusterID                 = "felix"
	DefaultRequestBytesMax           = 100 << 20
	DefaultSmallRequestBytesMax      = 1 << 20
	DefaultStrangerRequestBytesMax   = 64 << 10
	DefaultRecordsMax                = 500_000
	DefaultPartitionsMax             = 10_000
	DefaultInflatedBytesMax          = 64 << 20
	DefaultRequestMemory             = 512 << 20
	DefaultResponseMemory            = 256 << 20
	DefaultFetchBytesMax             = 50 << 20
	DefaultFetchWaitMax              = time.Minute
	DefaultFetchSessionsMax          = 1000
	DefaultFetchSessionPartitionsMax = 100_000
	DefaultProducersMax              = 10_000
	DefaultConnectionsMax            = 4096
	DefaultInFlightMax               = 16
	DefaultIdleTimeout               = 10 * time.Minute
	DefaultRequestTimeout            = 30 * time.Second
	DefaultWriteTimeout              = 30 * time.Second
	DefaultAuthenticationTimeout     = 10 * time.Second
	DefaultPublishTimeoutMax         = time.Minute
)

// Config is everything a Server can be told. Broker is needed; the zero value of
// everything else means the default.
type Config struct {
	Broker *broker.Broker
	// Credentials are who may do what; nil lets everybody do everything.
	Credentials *auth.Credentials
	// AdvertisedAddr is the host:port that clients are told to connect to; "" tells
	// each the address that it reached this server at.
	AdvertisedAddr string
	// AutoCreate makes a topic that a client asks about with leave to create it.
	AutoCreate bool
	// DefaultTenant and DefaultNamespace complete a topic of one part.
	DefaultTenant, DefaultNamespace string
	// NodeID is the only broker's number.
	NodeID    int32
	ClusterID string

	// RequestBytesMax bounds a Produce request, SmallRequestBytesMax any other, and
	// StrangerRequestBytesMax what a client sends before it has authenticated.
	RequestBytesMax, SmallRequestBytesMax, StrangerRequestBytesMax int
	// RecordsMax, PartitionsMax and InflatedBytesMax bound what one Produce request
	// holds: records, entries of partitions, and bytes of records that were
	// compressed. PartitionsMax bounds a fetch session and other lists too.
	RecordsMax, PartitionsMax int
	InflatedBytesMax          int64
	// RequestMemory and ResponseMemory bound, in bytes, what requests under way and
	// fetched records hold over all connections. Requests wait for memory at most
	// RequestTimeout. Above the first, one request at a time may still be decoded,
	// and above the second a fetch of one record larger than it.
	RequestMemory, ResponseMemory int64
	// FetchBytesMax and FetchWaitMax cap what a Fetch may ask for.
	FetchBytesMax int
	FetchWaitMax  time.Duration
	// FetchSessionsMax bounds the incremental fetch sessions, and
	// FetchSessionPartitionsMax the partitions of all of them.
	FetchSessionsMax, FetchSessionPartitionsMax int
	// ProducersMax bounds the idempotent producers whose last batches are
	// remembered, counted per partition; those used longest ago are forgotten.
	ProducersMax int
	// ConnectionsMax bounds connections; further ones are closed at once.
	ConnectionsMax int
	// InFlightMax bounds the requests of one connection that are not answered yet.
	InFlightMax int
	// IdleTimeout ends a connection without a request, RequestTimeout one that takes
	// longer to send one, WriteTimeout one that takes longer to take an answer (or a
	// MiB of a larger one, both), and AuthenticationTimeout one that has not
	// authenticated (TLS and SASL).
	IdleTimeout, RequestTimeout, WriteTimeout, AuthenticationTimeout time.Duration
	// PublishTimeoutMax caps the time that a Produce may ask for.
	PublishTimeoutMax time.Duration
	// Logger receives what an operator should know; nil is slog.Default.
	Logger *slog.Logger
}

// ConfigError lists everything wrong with a Config.
type ConfigError struct{ Problems []error }

func (e *ConfigError) Error() string { return fmt.Sprintf("kafka: %v", errors.Join(e.Problems...)) }

// Unwrap gives the problems.
func (e *ConfigError) Unwrap() []error { return e.Problems }

// withDefaults gives the configuration in effect, or a *ConfigError with all that is
// wrong with it.
func (c Config) withDefaults() (Config, error) {
	setDefault(&c.DefaultTenant, DefaultName)
	setDefault(&c.DefaultNamespace, DefaultName)
	setDefault(&c.ClusterID, DefaultClusterID)
	setDefault(&c.Logger, slog.Default())
	var problems []error
	if c.Broker == nil {
		problems = append(problems, errors.New("a Broker is missing"))
	}
	name := broker.StreamName{Tenant: c.DefaultTenant, Namespace: c.DefaultNamespace, Stream: DefaultName}
	if err := name.Validate(); err != nil {
		problems = append(problems, fmt.Errorf("default name: %w", err))
	}
	if c.AdvertisedAddr != "" {
		if _, _, err := splitAddr(c.AdvertisedAddr); err != nil {
			problems = append(problems, fmt.Errorf("AdvertisedAddr: %w", err))
		}
	}
	if c.NodeID < 0 {
		problems = append(problems, fmt.Errorf("NodeID is %d and must not be negative", c.NodeID))
	}
	positive(&problems, "RequestBytesMax", &c.RequestBytesMax, DefaultRequestBytesMax)
	positive(&problems, "SmallRequestBytesMax", &c.SmallRequestBytesMax, DefaultSmallRequestBytesMax)
	positive(&problems, "StrangerRequestBytesMax", &c.StrangerRequestBytesMax, DefaultStrangerRequestBytesMax)
	positive(&problems, "RecordsMax", &c.RecordsMax, DefaultRecordsMax)
	positive(&problems, "PartitionsMax", &c.PartitionsMax, DefaultPartitionsMax)
	positive(&problems, "InflatedBytesMax", &c.InflatedBytesMax, DefaultInflatedBytesMax)
	positive(&problems, "RequestMemory", &c.RequestMemory, DefaultRequestMemory)
	positive(&problems, "ResponseMemory", &c.ResponseMemory, DefaultResponseMemory)
	positive(&problems, "FetchBytesMax", &c.FetchBytesMax, DefaultFetchBytesMax)
	positive(&problems, "FetchWaitMax", &c.FetchWaitMax, DefaultFetchWaitMax)
	positive(&problems, "FetchSessionsMax", &c.FetchSessionsMax, DefaultFetchSessionsMax)
	positive(&problems, "FetchSessionPartitionsMax", &c.FetchSessionPartitionsMax, DefaultFetchSessionPartitionsMax)
	positive(&problems, "ProducersMax", &c.ProducersMax, DefaultProducersMax)
	positive(&problems, "ConnectionsMax", &c.ConnectionsMax, DefaultConnectionsMax)
	positive(&problems, "InFlightMax", &c.InFlightMax, DefaultInFlightMax)
	positive(&problems, "IdleTimeout", &c.IdleTimeout, DefaultIdleTimeout)
	positive(&problems, "RequestTimeout", &c.RequestTimeout, DefaultRequestTimeout)
	positive(&problems, "WriteTimeout", &c.WriteTimeout, DefaultWriteTimeout)
	positive(&problems, "AuthenticationTimeout", &c.AuthenticationTimeout, DefaultAuthenticationTimeout)
	positive(&problems, "PublishTimeoutMax", &c.PublishTimeoutMax, DefaultPublishTimeoutMax)
	if len(problems) > 0 {
		return c, &ConfigError{Problems: problems}
	}
	return c, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// positive fills in a default, and notes a value that no bound can have.
func positive[T int | int64 | time.Duration](problems *[]error, name string, field *T, value T) {
	setDefault(field, value)
	if *field < 0 {
		*problems = append(*problems, fmt.Errorf("%s is %v and must be positive", name, *field))
	}
}

func splitAddr(addr string) (host string, port int32, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("port of %q: %w", addr, err)
	}
	return host, int32(number), nil
}

// inflateSlots is how many batches are inflated at a time: it is work for
// processors, so that more of them would only hold memory.
func inflateSlots() int { return max(2, runtime.GOMAXPROCS(0)) }
