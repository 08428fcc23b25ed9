package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"sync"

	"felix.local/felix/auth"
	"felix.local/felix/broker"
)

// Server answers HTTP requests with a broker. Its methods may be called from any
// goroutine.
type Server struct {
	cfg       Config
	broker    *broker.Broker
	http      *http.Server
	handler   http.Handler
	routes    []*route
	unknown   *route
	errors    map[reflect.Type]errorRow
	origins   http.CrossOriginProtection
	anonymous *auth.Principal
	door      door
	bodies    *budget
	pages     *budget
	buffers   sync.Pool // of *[]byte with bodyBufferBytes
	outputs   sync.Pool // of *output
	counters  counters

	// closing ends when Shutdown begins.
	closing      context.Context
	beginClosing context.CancelFunc
}

// headerSlack is how many bytes more than MaxHeaderBytes net/http takes.
const headerSlack = 4096

// New makes a server; Serve or Handler put it to use. The error is a *ConfigError.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg:       cfg,
		broker:    cfg.Broker,
		door:      door{max: int64(cfg.ConnectionsMax)},
		bodies:    newBudget("publishes under way", cfg.BufferedBytesMax, cfg.BufferedBytesClient),
		errors:    errorRows(),
		anonymous: auth.Anonymous(),
		pages:     newBudget("reads under way", cfg.PagesBytesMax, cfg.PagesBytesClient),
	}
	s.buffers.New = func() any { b := make([]byte, 0, bodyBufferBytes); return &b }
	s.outputs.New = func() any { return &output{buf: make([]byte, 0, outputBytes)} }
	s.closing, s.beginClosing = context.WithCancel(context.Background())
	s.handler = s.mux()
	s.http = &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: cfg.ReadHeaderTimeout,
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    cfg.HeaderBytesMax - headerSlack,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: cfg.StreamsPerConn, WriteByteTimeout: cfg.WriteTimeout},
		ConnState:         s.door.changed,
		ErrorLog:          slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelInfo),
	}
	return s, nil
}

// Handler serves all routes without the bounds on connections and headers, for a
// caller that has a http.Server of its own.
func (s *Server) Handler() http.Handler { return s.handler }

// Serve answers on a listener until Shutdown, and then returns nil. It may be called
// for several listeners. For TLS, and with it HTTP/2, pass a tls.NewListener whose
// configuration names the protocols h2 and http/1.1.
func (s *Server) Serve(listener net.Listener) error {
	err := s.http.Serve(guardedListener{Listener: listener, door: &s.door})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("http: serving %s: %w", listener.Addr(), err)
}

// Shutdown stops listening, ends subscriptions with a closing event, answers further
// requests 503 and waits for those under way. When ctx ends first it closes their
// connections, which gives up waiting for what they published, and says how many
// there were.
func (s *Server) Shutdown(ctx context.Context) error {
	s.beginClosing()
	err := s.http.Shutdown(ctx)
	if err == nil {
		return nil
	}
	active := s.counters.active.Load()
	closeErr := s.http.Close()
	return fmt.Errorf("http: shutting down with %d requests under way: %w", active, errors.Join(err, closeErr))
}
