package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"

	"felix.local/felix/auth"
	"felix.local/felix/broker"
	"felix.local/felix/cmd/felixd/metrics"
	"felix.local/felix/kafka"
)

// server is felixd serve without flags and signals.
//
// It is started in this order, and stopped in the opposite one:
//
//	credentials, TLS, all listeners bound: what is wrong there is known at once
//	descriptors      shared between segments and connections
//	admin            /live answers, /ready says that the streams are being opened
//	broker           recovery
//	HTTP and Kafka   connections that came meanwhile waited to be accepted
type server struct {
	config serverConfig
	out    *output
	// warnings take what nobody asked for and somebody should know, a line each.
	warnings io.Writer
	// unheard says that standard output took something no longer.
	unheard  bool
	logger   *slog.Logger
	exporter *metrics.Metrics
	// credentials are nil when everybody may do everything.
	credentials *auth.Credentials
	ready       readiness
	broker      *broker.Broker
	// http, kafka and admin are nil when off.
	http, kafka, admin *door
	// failed has the error of each door that ended by itself.
	failed chan error
}

// door is one listener and who serves it.
type door struct {
	what     string
	listener net.Listener
	serve    func(net.Listener) error
	shutdown func(context.Context) error
	// ended is closed when serve returned.
	ended chan struct{}
}

func newServer(config serverConfig, out *output, warnings io.Writer, logger *slog.Logger) *server {
	exporter := metrics.New()
	exporter.AddProcess()
	build := thisBuild()
	exporter.AddBuild(metrics.Build{Version: build.Version, Revision: build.Revision, Go: build.Go})
	return &server{config: config, out: out, warnings: warnings, logger: logger, exporter: exporter, failed: make(chan error, 3)}
}

// say prints an event. Output that takes nothing must not end a server that works, so
// that is warned about once.
func (s *server) say(e event) {
	if err := s.out.emit(e); err != nil && !s.unheard {
		s.unheard = true
		s.warn("standard output takes nothing, and the server goes on without: %v", err)
	}
}

func (s *server) warn(format string, args ...any) {
	fmt.Fprintf(s.warnings, "felixd: warning: "+format+"\n", args...)
}

// start returns once everything serves. When it fails, nothing is left running.
func (s *server) start(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, s.abandon())
		}
	}()
	if err := s.config.shareDescriptors(descriptorLimit()); err != nil {
		return err
	}
	s.logger.Info("descriptors are shared", "segments", s.config.broker.Engine.OpenFilesMax,
		"http_connections", s.config.httpConnectionsMax, "kafka_connections", s.config.kafkaConnectionsMax, "admin_connections", s.config.adminConnectionsMax)
	credentials, tlsConfig, err := s.config.secure(s.logger)
	if err != nil {
		return err
	}
	s.credentials = credentials
	if err := s.bind(); err != nil {
		return err
	}
	s.warnOfFsync()
	s.warnOfExposure()
	s.serveAdmin(tlsConfig)
	if root := s.config.broker.Root; root != "" {
		s.say(openingEvent{Dir: root, Default: s.config.defaultDir, Fsync: fsyncText(s.config.broker.Engine, root)})
	}
	s.config.broker.Engine.Observer = s.exporter
	if s.broker, err = broker.Open(ctx, s.config.broker); err != nil {
		return err
	}
	s.exporter.AttachBroker(s.broker)
	s.ready.broker.Store(s.broker)
	if store := s.broker.Store(); store != nil {
		s.exporter.Attach(store)
	}
	if err := s.openDoors(tlsConfig); err != nil {
		return err
	}
	s.ready.set(phaseServing)
	s.announce()
	return nil
}

// bind binds all listeners, or says which cannot be.
func (s *server) bind() error {
	var failed error
	for _, l := range []struct {
		what, variable, addr string
		door                 **door
	}{
		{"http", "FELIX_HTTP_ADDR", s.config.httpAddr, &s.http},
		{"kafka", "FELIX_KAFKA_ADDR", s.config.kafkaAddr, &s.kafka},
		{"admin", "FELIX_ADMIN_ADDR", s.config.adminAddr, &s.admin},
	} {
		if l.addr == "" {
			continue
		}
		listener, err := net.Listen("tcp", l.addr)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s cannot be served: %w; %s", l.what, err, unboundAdvice(err, l.variable)))
			continue
		}
		*l.door = &door{what: l.what, listener: listener}
		// A host name may mean another address by now than when it was judged.
		failed = errors.Join(failed, auth.CheckListener(l.what, listener.Addr().String(), s.config.authenticates(), s.config.insecure))
	}
	return failed
}

// unboundAdvice says what to do about an address that cannot be had.
func unboundAdvice(err error, variable string) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Sprintf("change %s, or stop what has the address", variable)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Sprintf("no interface of this host has that address: give %s one that has, or 0.0.0.0 for all of them", variable)
	case errors.Is(err, syscall.EACCES):
		return fmt.Sprintf("ports below 1024 are for the privileged: give %s a higher one, or the process CAP_NET_BIND_SERVICE", variable)
	default:
		return "change " + variable
	}
}

// serveAdmin starts the admin listener.
func (s *server) serveAdmin(tlsConfig *tls.Config) {
	if s.admin == nil {
		return
	}
	entrance := newTurnstile(s.admin.listener, s.config.adminConnectionsMax)
	entry := guard{credentials: s.credentials, bound: entrance.Addr(), names: s.names(s.config.adminAddr)}
	admin := newAdminServer(adminHandler(&s.ready, s.exporter.Handler(), entry), entrance, s.logger)
	s.admin.listener = encrypted(entrance, tlsConfig, "h2", "http/1.1")
	s.run(s.admin, admin.Serve, admin.Shutdown)
}

// run starts a door. One that ends without having been asked to is a failure.
func (s *server) run(d *door, serve func(net.Listener) error, shutdown func(context.Context) error) {
	d.serve, d.shutdown, d.ended = serve, shutdown, make(chan struct{})
	go func() {
		defer close(d.ended)
		if err := d.serve(d.listener); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, kafka.ErrServerClosed) {
			s.failed <- fmt.Errorf("%s is served no longer: %w", d.what, err)
		}
	}()
}

// boundAddr is the address that a door has, "" when it is off.
func (d *door) boundAddr() string {
	if d == nil {
		return ""
	}
	return d.listener.Addr().String()
}

// announce says what serves where.
func (s *server) announce() {
	backend := storageEvent{Dir: s.config.broker.Root, Default: s.config.defaultDir, Fsync: fsyncText(s.config.broker.Engine, s.config.broker.Root)}
	if store := s.broker.Store(); store != nil {
		chosen := store.Backend()
		backend.Backend, backend.Reason, backend.Remedy = backendName(chosen), chosen.Reason, chosen.Remedy
		backend.Journal, backend.JournalReason = store.Journal().State, store.Journal().Reason
	}
	health := s.broker.Health()
	counts := streamsEvent{Unavailable: len(health.Unavailable)}
	for _, stream := range s.broker.Streams() {
		counts.Streams++
		counts.Shards += len(stream.Shards)
		if stream.Config.Durable {
			counts.Durable++
		}
	}
	events := []event{backend, counts}
	for _, u := range unavailableReports(health.Unavailable) {
		events = append(events, unavailableEvent{u})
	}
	for _, d := range []*door{s.http, s.kafka, s.admin} {
		if d != nil {
			events = append(events, listeningEvent{What: d.what, Addr: d.boundAddr(), TLS: s.config.certFile != "", Auth: s.authText()})
		}
	}
	events = append(events, readyEvent{HTTP: s.http.boundAddr(), Kafka: s.kafka.boundAddr(), Admin: s.admin.boundAddr()})
	for _, e := range events {
		s.say(e)
	}
}

func (s *server) authText() string {
	var ways []string
	if s.credentials != nil {
		ways = append(ways, "credentials")
	}
	if s.config.clientCAFile != "" {
		ways = append(ways, "certificate")
	}
	if len(ways) == 0 {
		return "none"
	}
	return strings.Join(ways, "+")
}

// reload reads the credentials again; when they cannot be used, those in effect
// stay. Certificates need no signal.
func (s *server) reload() {
	e := reloadedEvent{OK: true, File: s.config.credentialsFile}
	if s.credentials != nil {
		if err := s.credentials.Reload(); err != nil {
			e.OK, e.Problem = false, oneLine(err)
		}
		e.Principals = s.credentials.Stats().Principals
	}
	s.say(e)
}
