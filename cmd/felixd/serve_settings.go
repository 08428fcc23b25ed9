package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
	"felix.local/felix/httpapi"
	"felix.local/felix/kafka"
)

// serverFlags are the server's own settings, as text: flag, variable and help of
// each in one place, judged together by judgeServer.
type serverFlags struct {
	HTTPAddr            string  `name:"http-addr" env:"FELIX_HTTP_ADDR" placeholder:"HOST:PORT" group:"server" help:"${FELIX_HTTP_ADDR}"`
	KafkaAddr           string  `name:"kafka-addr" env:"FELIX_KAFKA_ADDR" placeholder:"HOST:PORT" group:"server" help:"${FELIX_KAFKA_ADDR}"`
	AdminAddr           string  `name:"admin-addr" env:"FELIX_ADMIN_ADDR" placeholder:"HOST:PORT" group:"server" help:"${FELIX_ADMIN_ADDR}"`
	KafkaAdvertisedAddr string  `name:"kafka-advertised-addr" env:"FELIX_KAFKA_ADVERTISED_ADDR" placeholder:"HOST:PORT" group:"server" help:"${FELIX_KAFKA_ADVERTISED_ADDR}"`
	KafkaAutoCreate     rawBool `name:"kafka-auto-create" env:"FELIX_KAFKA_AUTO_CREATE" group:"server" help:"${FELIX_KAFKA_AUTO_CREATE}"`
	DefaultTenant       string  `name:"default-tenant" env:"FELIX_DEFAULT_TENANT" placeholder:"NAME" group:"server" help:"${FELIX_DEFAULT_TENANT}"`
	DefaultNamespace    string  `name:"default-namespace" env:"FELIX_DEFAULT_NAMESPACE" placeholder:"NAME" group:"server" help:"${FELIX_DEFAULT_NAMESPACE}"`

	TLSCertFile     string  `name:"tls-cert-file" env:"FELIX_TLS_CERT_FILE" placeholder:"FILE" group:"server" help:"${FELIX_TLS_CERT_FILE}"`
	TLSKeyFile      string  `name:"tls-key-file" env:"FELIX_TLS_KEY_FILE" placeholder:"FILE" group:"server" help:"${FELIX_TLS_KEY_FILE}"`
	TLSClientCAFile string  `name:"tls-client-ca-file" env:"FELIX_TLS_CLIENT_CA_FILE" placeholder:"FILE" group:"server" help:"${FELIX_TLS_CLIENT_CA_FILE}"`
	CredentialsFile string  `name:"credentials-file" env:"FELIX_CREDENTIALS_FILE" placeholder:"FILE" group:"server" help:"${FELIX_CREDENTIALS_FILE}"`
	Hosts           string  `name:"hosts" env:"FELIX_HOSTS" placeholder:"NAME,..." group:"server" help:"${FELIX_HOSTS}"`
	Insecure        rawBool `name:"insecure" env:"FELIX_INSECURE" group:"server" help:"${FELIX_INSECURE}"`

	RingRecords             string `name:"ring-records" env:"FELIX_RING_RECORDS" placeholder:"N" group:"server" help:"${FELIX_RING_RECORDS}"`
	RingBytes               string `name:"ring-bytes" env:"FELIX_RING_BYTES" placeholder:"BYTES" group:"server" help:"${FELIX_RING_BYTES}"`
	MemoryBytesTotal        string `name:"memory-bytes-total" env:"FELIX_MEMORY_BYTES_TOTAL" placeholder:"BYTES" group:"server" help:"${FELIX_MEMORY_BYTES_TOTAL}"`
	RingBytesTotal          string `name:"ring-bytes-total" env:"FELIX_RING_BYTES_TOTAL" placeholder:"BYTES" group:"server" help:"${FELIX_RING_BYTES_TOTAL}"`
	SubscriberQueueCapacity string `name:"subscriber-queue-capacity" env:"FELIX_SUBSCRIBER_QUEUE_CAPACITY" placeholder:"N" group:"server" help:"${FELIX_SUBSCRIBER_QUEUE_CAPACITY}"`
	StreamsMax              string `name:"streams-max" env:"FELIX_STREAMS_MAX" placeholder:"N" group:"server" help:"${FELIX_STREAMS_MAX}"`
	ShardsMax               string `name:"shards-max" env:"FELIX_SHARDS_MAX" placeholder:"N" group:"server" help:"${FELIX_SHARDS_MAX}"`
	ShardsTotalMax          string `name:"shards-total-max" env:"FELIX_SHARDS_TOTAL_MAX" placeholder:"N" group:"server" help:"${FELIX_SHARDS_TOTAL_MAX}"`
	SubscriptionsMax        string `name:"subscriptions-max" env:"FELIX_SUBSCRIPTIONS_MAX" placeholder:"N" group:"server" help:"${FELIX_SUBSCRIPTIONS_MAX}"`
	BatchRecordsMax         string `name:"batch-records-max" env:"FELIX_BATCH_RECORDS_MAX" placeholder:"N" group:"server" help:"${FELIX_BATCH_RECORDS_MAX}"`
	BatchBytesMax           string `name:"batch-bytes-max" env:"FELIX_BATCH_BYTES_MAX" placeholder:"BYTES" group:"server" help:"${FELIX_BATCH_BYTES_MAX}"`

	HTTPConnectionsMax  string `name:"http-connections-max" env:"FELIX_HTTP_CONNECTIONS_MAX" placeholder:"N" group:"server" help:"${FELIX_HTTP_CONNECTIONS_MAX}"`
	KafkaConnectionsMax string `name:"kafka-connections-max" env:"FELIX_KAFKA_CONNECTIONS_MAX" placeholder:"N" group:"server" help:"${FELIX_KAFKA_CONNECTIONS_MAX}"`

	AdminConnectionsMax string `name:"admin-connections-max" env:"FELIX_ADMIN_CONNECTIONS_MAX" placeholder:"N" group:"server" help:"${FELIX_ADMIN_CONNECTIONS_MAX}"`

	ShutdownTimeoutSeconds string `name:"shutdown-timeout-seconds" env:"FELIX_SHUTDOWN_TIMEOUT_SECONDS" placeholder:"S" group:"server" help:"${FELIX_SHUTDOWN_TIMEOUT_SECONDS}"`
}

// serverConfig is everything the server can be told.
type serverConfig struct {
	// Addresses as given; "" is a listener that is off.
	httpAddr, kafkaAddr, adminAddr string
	// addressesUnread says that one of the first two is no address, and not off.
	addressesUnread                 bool
	kafkaAdvertised                 string
	kafkaAutoCreate                 bool
	defaultTenant, defaultNamespace string

	certFile, keyFile, clientCAFile string
	credentialsFile                 string
	// hosts are names that clients may call the listeners by, besides addresses.
	hosts    []string
	insecure bool

	// broker holds the storage settings and the broker's bounds.
	broker broker.Config
	// defaultDir says that nobody named the storage directory.
	defaultDir bool
	// fsyncUnchosen says that nobody chose the fsync mode, and that an acknowledgement
	// is given before the device has the record.
	fsyncUnchosen bool

	httpConnectionsMax, kafkaConnectionsMax, adminConnectionsMax int

	shutdownTimeout time.Duration
}

// offWord switches a listener off.
const offWord = "off"

// serverSetting is one of the server's variables.
type serverSetting struct {
	// name, byDefault and meaning are what help and documents show.
	name, byDefault, meaning string
	set                      func(c *serverConfig, text string) error
}

// serverSettings lists the server's variables in the order documents show them.
func serverSettings() []serverSetting {
	return []serverSetting{
		address("FELIX_HTTP_ADDR", "127.0.0.1:8080", "address of HTTP; off: no HTTP; port 0: any free one",
			func(c *serverConfig) *string { return &c.httpAddr }),
		address("FELIX_KAFKA_ADDR", "127.0.0.1:9092", "address of the Kafka protocol; off: no Kafka",
			func(c *serverConfig) *string { return &c.kafkaAddr }),
		address("FELIX_ADMIN_ADDR", "127.0.0.1:9644", "address of /metrics, /live, /ready and /debug/pprof; off: none of them",
			func(c *serverConfig) *string { return &c.adminAddr }),
		address("FELIX_KAFKA_ADVERTISED_ADDR", "", "address that Kafka clients are told to connect to; unset: the one they connected to",
			func(c *serverConfig) *string { return &c.kafkaAdvertised }),
		flag("FELIX_KAFKA_AUTO_CREATE", "true", "create a topic that a Kafka client names and that does not exist, durable with one shard",
			func(c *serverConfig) *bool { return &c.kafkaAutoCreate }),
		namePart("FELIX_DEFAULT_TENANT", "default", "tenant of a topic whose name has no dots",
			func(c *serverConfig) *string { return &c.defaultTenant }),
		namePart("FELIX_DEFAULT_NAMESPACE", "default", "namespace of a topic whose name has no dots",
			func(c *serverConfig) *string { return &c.defaultNamespace }),

		text("FELIX_TLS_CERT_FILE", "certificate chain, PEM; with it all listeners speak TLS",
			func(c *serverConfig) *string { return &c.certFile }),
		text("FELIX_TLS_KEY_FILE", "private key of the certificate, PEM",
			func(c *serverConfig) *string { return &c.keyFile }),
		text("FELIX_TLS_CLIENT_CA_FILE", "authorities, PEM, one of which a client's certificate has to come from; unset: clients need none",
			func(c *serverConfig) *string { return &c.clientCAFile }),
		text("FELIX_CREDENTIALS_FILE", "who may do what; unset: everybody everything",
			func(c *serverConfig) *string { return &c.credentialsFile }),
		hostNames("FELIX_HOSTS", "names, separated by commas, that clients may call the HTTP and admin listeners by while these ask nobody who they are; "+
			"localhost and addresses always may", func(c *serverConfig) *[]string { return &c.hosts }),
		flag("FELIX_INSECURE", "false", "let a listener be other than loopback without authentication",
			func(c *serverConfig) *bool { return &c.insecure }),

		number("FELIX_RING_RECORDS", broker.DefaultRingRecords, 1, 1<<24, "newest records of a shard kept in memory for subscriptions",
			func(c *serverConfig) *int { return &c.broker.RingRecords }),
		number("FELIX_RING_BYTES", int64(broker.DefaultRingBytes), 1, 1<<40, "bytes of them at most, per shard; the newest record is always kept",
			func(c *serverConfig) *int64 { return &c.broker.RingBytes }),
		number("FELIX_RING_BYTES_TOTAL", int64(broker.DefaultRingBytesTotal), 1, 1<<44, "the same over all shards; those that need more hold fewer records",
			func(c *serverConfig) *int64 { return &c.broker.RingBytesTotal }),
		number("FELIX_MEMORY_BYTES_TOTAL", int64(broker.DefaultMemoryBytesTotal), 1, 1<<44, "bytes that in-memory streams and their subscriptions hold together",
			func(c *serverConfig) *int64 { return &c.broker.MemoryBytesTotal }),
		number("FELIX_SUBSCRIBER_QUEUE_CAPACITY", broker.DefaultSubscriberQueue, 1, 1<<24, "records a subscription may be behind before it counts as full",
			func(c *serverConfig) *int { return &c.broker.SubscriberQueue }),
		number("FELIX_STREAMS_MAX", broker.DefaultStreamsMax, 1, 1<<24, "streams at most",
			func(c *serverConfig) *int { return &c.broker.StreamsMax }),
		number("FELIX_SHARDS_MAX", broker.DefaultShardsMax, 1, 1<<20, "shards of one stream at most",
			func(c *serverConfig) *int { return &c.broker.ShardsMax }),
		number("FELIX_SHARDS_TOTAL_MAX", broker.DefaultShardsTotalMax, 1, 1<<24, "shards of all streams at most",
			func(c *serverConfig) *int { return &c.broker.ShardsTotalMax }),
		number("FELIX_SUBSCRIPTIONS_MAX", broker.DefaultSubscriptionsMax, 1, 1<<24, "subscriptions open at once at most",
			func(c *serverConfig) *int { return &c.broker.SubscriptionsMax }),
		number("FELIX_BATCH_RECORDS_MAX", broker.DefaultBatchRecordsMax, 1, 1<<24, "records of one publish at most",
			func(c *serverConfig) *int { return &c.broker.BatchRecordsMax }),
		number("FELIX_BATCH_BYTES_MAX", int64(broker.DefaultBatchBytesMax), 1, 1<<30, "bytes of one publish at most",
			func(c *serverConfig) *int64 { return &c.broker.BatchBytesMax }),
		number("FELIX_HTTP_CONNECTIONS_MAX", httpapi.DefaultConnectionsMax, 1, 1<<20, "HTTP connections at most; more are closed at once",
			func(c *serverConfig) *int { return &c.httpConnectionsMax }),
		number("FELIX_KAFKA_CONNECTIONS_MAX", kafka.DefaultConnectionsMax, 1, 1<<20, "Kafka connections at most; more are closed at once",
			func(c *serverConfig) *int { return &c.kafkaConnectionsMax }),

		number("FELIX_ADMIN_CONNECTIONS_MAX", defaultAdminConnectionsMax, 1, 1<<16, "admin connections at most; one more closes the one that is silent for longest",
			func(c *serverConfig) *int { return &c.adminConnectionsMax }),

		seconds("FELIX_SHUTDOWN_TIMEOUT_SECONDS", 30, 1, 86_400, "seconds that an orderly end may take",
			func(c *serverConfig) *time.Duration { return &c.shutdownTimeout }),
	}
}

// serverVariables gives the settings the form of the storage's.
func serverVariables() []engine.Variable {
	var all []engine.Variable
	for _, s := range serverSettings() {
		all = append(all, engine.Variable{Name: s.name, Default: s.byDefault, Meaning: s.meaning})
	}
	return all
}

// judgeServer reads the server's own settings into c and lists what is wrong.
func judgeServer(c *serverConfig, settings map[string]string) (problems []string) {
	for _, s := range serverSettings() {
		value := strings.TrimSpace(settings[s.name])
		if value == "" {
			value = s.byDefault
		}
		if value == "" {
			continue
		}
		if err := s.set(c, value); err != nil {
			c.addressesUnread = c.addressesUnread || s.name == "FELIX_HTTP_ADDR" || s.name == "FELIX_KAFKA_ADDR"
			problems = append(problems, fmt.Sprintf("%s: %v", s.name, err))
		}
	}
	if strings.TrimSpace(settings["FELIX_SUBSCRIBER_QUEUE_CAPACITY"]) == "" {
		c.broker.SubscriberQueue = min(c.broker.SubscriberQueue, c.broker.RingRecords)
	}
	return append(problems, c.combinations()...)
}

// combinations lists settings that are readable by themselves and wrong together.
func (c *serverConfig) combinations() (problems []string) {
	if c.httpAddr == "" && c.kafkaAddr == "" && !c.addressesUnread {
		problems = append(problems, "FELIX_HTTP_ADDR and FELIX_KAFKA_ADDR: both are off, nobody could reach a stream; leave one on")
	}
	taken := make(map[string]string)
	for _, l := range []struct{ variable, addr string }{
		{"FELIX_HTTP_ADDR", c.httpAddr}, {"FELIX_KAFKA_ADDR", c.kafkaAddr}, {"FELIX_ADMIN_ADDR", c.adminAddr},
	} {
		_, port, err := net.SplitHostPort(l.addr)
		if err != nil || port == "0" {
			continue
		}
		if other := taken[l.addr]; other != "" {
			problems = append(problems, fmt.Sprintf("%s: %s is the address of %s too; give each its own port", l.variable, l.addr, other))
		}
		taken[l.addr] = l.variable
	}
	problems = append(problems, c.halfTLS()...)
	if queue, ring := c.broker.SubscriberQueue, c.broker.RingRecords; queue > ring && ring > 0 {
		problems = append(problems, fmt.Sprintf("FELIX_SUBSCRIBER_QUEUE_CAPACITY: %d is more than FELIX_RING_RECORDS, %d; a subscription's queue is the end of the ring", queue, ring))
	}
	return problems
}

// halfTLS lists what TLS settings lack of each other.
func (c *serverConfig) halfTLS() (problems []string) {
	if (c.certFile == "") != (c.keyFile == "") {
		problems = append(problems, "FELIX_TLS_CERT_FILE and FELIX_TLS_KEY_FILE: one is set without the other")
	}
	if c.clientCAFile != "" && c.certFile == "" {
		problems = append(problems, "FELIX_TLS_CLIENT_CA_FILE: needs FELIX_TLS_CERT_FILE, since a client shows its certificate in TLS only")
	}
	return problems
}

func address(name, byDefault, meaning string, at func(*serverConfig) *string) serverSetting {
	return serverSetting{name, byDefault, meaning, func(c *serverConfig, value string) error {
		if strings.EqualFold(value, offWord) && byDefault != "" {
			return nil
		}
		_, port, err := net.SplitHostPort(value)
		if err != nil {
			return fmt.Errorf("%q is no HOST:PORT such as %s", value, cmp.Or(byDefault, "felix.example:9092"))
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 && byDefault == "" {
			return fmt.Errorf("%q is no port, which is a number up to 65535", port)
		}
		*at(c) = value
		return nil
	}}
}

func namePart(name, byDefault, meaning string, at func(*serverConfig) *string) serverSetting {
	return serverSetting{name, byDefault, meaning, func(c *serverConfig, value string) error {
		*at(c) = value
		return broker.StreamName{Tenant: value, Namespace: value, Stream: value}.Validate()
	}}
}

func hostNames(name, meaning string, at func(*serverConfig) *[]string) serverSetting {
	return serverSetting{name, "", meaning, func(c *serverConfig, value string) error {
		for host := range strings.SplitSeq(value, ",") {
			host = strings.TrimSpace(host)
			if host == "" || strings.ContainsAny(host, "/:* ") {
				return fmt.Errorf("%q is no host name; give names alone, without scheme and port", host)
			}
			*at(c) = append(*at(c), host)
		}
		return nil
	}}
}

func text(name, meaning string, at func(*serverConfig) *string) serverSetting {
	return serverSetting{name, "", meaning, func(c *serverConfig, value string) error {
		*at(c) = value
		return nil
	}}
}

func flag(name, byDefault, meaning string, at func(*serverConfig) *bool) serverSetting {
	return serverSetting{name, byDefault, meaning, func(c *serverConfig, value string) error {
		yes, no := []string{"1", "true", "yes", "on"}, []string{"0", "false", "no", "off"}
		lower := strings.ToLower(value)
		if !slices.Contains(yes, lower) && !slices.Contains(no, lower) {
			return fmt.Errorf("%q is neither %s nor %s", value, strings.Join(yes, "/"), strings.Join(no, "/"))
		}
		*at(c) = slices.Contains(yes, lower)
		return nil
	}}
}

func number[T int | int64](name string, byDefault, low, high T, meaning string, at func(*serverConfig) *T) serverSetting {
	return serverSetting{name, fmt.Sprint(byDefault), meaning, func(c *serverConfig, value string) error {
		n, err := wholeNumber(value, int64(low), int64(high))
		*at(c) = T(n)
		return err
	}}
}

func seconds(name string, byDefault, low, high int64, meaning string, at func(*serverConfig) *time.Duration) serverSetting {
	return serverSetting{name, fmt.Sprint(byDefault), meaning, func(c *serverConfig, value string) error {
		n, err := wholeNumber(value, low, high)
		*at(c) = time.Duration(n) * time.Second
		return err
	}}
}

func wholeNumber(value string, low, high int64) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%q is no whole number from %d to %d", value, low, high)
	}
	return n, nil
}

// settingsError joins what the storage's settings and the server's own lack.
func settingsError(storage error, problems []string) error {
	var config *engine.ConfigError
	switch {
	case errors.As(storage, &config):
		return &engine.ConfigError{Problems: append(slices.Clone(config.Problems), problems...)}
	case storage != nil:
		return storage
	case len(problems) > 0:
		return &engine.ConfigError{Problems: problems}
	default:
		return nil
	}
}
