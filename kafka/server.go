package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"felix.local/felix/internal/budget"
)

// Server speaks the Kafka protocol on the listeners it is given.
type Server struct {
	cfg       Config
	apis      map[int16]*api
	buffers   *buffers
	inflater  *inflater
	requests  *budget.Bytes
	responses *budget.Bytes
	// overdraft has room for the request that may go above the bound of requests.
	overdraft chan struct{}
	sessions  *sessions
	// remembered are the last batches of idempotent producers.
	remembered *remembered
	stats      counters
	rules      []rule
	calls      sync.Pool // of *produceCall

	// publishing ends when Shutdown's patience does.
	publishing context.Context
	giveUp     context.CancelFunc
	stopping   chan struct{}
	running    sync.WaitGroup

	// creating makes the look before a creation and the creation one step, for
	// this front door.
	creating sync.Mutex

	mu struct {
		sync.Mutex
		stopped   bool
		listeners map[net.Listener]struct{}
		conns     map[*conn]struct{}
	}
}

// New makes a server; Serve starts it. The error is a *ConfigError.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, apis: make(map[int16]*api), buffers: new(buffers),
		requests: budget.NewBytes(cfg.RequestMemory), responses: budget.NewBytes(cfg.ResponseMemory),
		sessions:   newSessions(cfg.FetchSessionsMax, cfg.FetchSessionPartitionsMax),
		remembered: newRemembered(cfg.ProducersMax),
		stopping:   make(chan struct{}), overdraft: make(chan struct{}, 1), rules: rules(),
	}
	s.inflater = newInflater(cfg.InflatedBytesMax, inflateSlots(), s.buffers)
	s.publishing, s.giveUp = context.WithCancel(context.Background())
	s.mu.listeners = make(map[net.Listener]struct{})
	s.mu.conns = make(map[*conn]struct{})
	for _, a := range supported() {
		s.apis[a.key] = &a
	}
	return s, nil
}

// ErrServerClosed is what Serve gives after Shutdown.
var ErrServerClosed = errors.New("kafka: server closed")

// Serve answers the connections of l, which it closes, until Shutdown or a failure
// of l. Several listeners may be served at once. For TLS, l is a TLS listener.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	if !s.addListener(l) {
		return ErrServerClosed
	}
	defer s.removeListener(l)
	var pause time.Duration
	for {
		c, err := l.Accept()
		if err == nil {
			pause = 0
			s.accept(c)
			continue
		}
		if s.isStopping() {
			return ErrServerClosed
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("kafka: accepting connections on %s: %w", l.Addr(), err)
		}
		// Out of file descriptors, mostly: connections that end make room again.
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		s.cfg.Logger.Warn("kafka: a connection could not be accepted", "addr", l.Addr().String(), "error", err, "pause", pause)
		select {
		case <-time.After(pause):
		case <-s.stopping:
		}
	}
}

func (s *Server) accept(nc net.Conn) {
	s.mu.Lock()
	full := len(s.mu.conns) >= s.cfg.ConnectionsMax
	if s.mu.stopped || full {
		s.mu.Unlock()
		if full {
			s.stats.connectionsRefused.Add(1)
		}
		nc.Close()
		return
	}
	c := newConn(s, nc)
	s.mu.conns[c] = struct{}{}
	s.running.Add(1)
	s.mu.Unlock()
	s.stats.connectionsAccepted.Add(1)
	go func() {
		defer s.running.Done()
		c.serve()
		s.mu.Lock()
		delete(s.mu.conns, c)
		s.mu.Unlock()
	}()
}

// Shutdown stops accepting connections and reading requests, ends waiting fetches
// with what they have, lets produce requests that were read finish and be answered,
// and closes every connection. When ctx ends first, it closes them at once and gives
// ctx's error; what was under way may then be stored without being acknowledged.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.mu.stopped {
		s.mu.stopped = true
		close(s.stopping)
	}
	for l := range s.mu.listeners {
		l.Close()
	}
	for c := range s.mu.conns {
		c.stop()
	}
	s.mu.Unlock()

	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		s.giveUp()
		return nil
	case <-ctx.Done():
	}
	s.giveUp()
	s.mu.Lock()
	open := len(s.mu.conns)
	for c := range s.mu.conns {
		c.nc.Close()
	}
	s.mu.Unlock()
	<-done
	return fmt.Errorf("kafka: %d connections were closed with requests under way: %w", open, ctx.Err())
}

func (s *Server) addListener(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.stopped {
		return false
	}
	s.mu.listeners[l] = struct{}{}
	return true
}

func (s *Server) removeListener(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.listeners, l)
}

func (s *Server) isStopping() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return false
	}
}
