package main

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"felix.local/felix/broker"
)

const (
	// adminRequestsMax bounds the metrics and profiles that are answered at once.
	adminRequestsMax = 32
	// defaultAdminConnectionsMax is the default of FELIX_ADMIN_CONNECTIONS_MAX.
	defaultAdminConnectionsMax = 64
	// unavailableShown bounds the shards that /ready lists and the start reports.
	unavailableShown = 1000
	// adminHeaderTimeout and adminIdleTimeout end connections that say nothing.
	adminHeaderTimeout = 5 * time.Second
	adminIdleTimeout   = time.Minute
	// adminWriteTimeout ends an answer nobody reads; package pprof adds the time that a
	// profile was asked to take.
	adminWriteTimeout = 30 * time.Second
)

// phase is how far the server is between its start and its end.
type phase int32

const (
	phaseOpening phase = iota
	phaseServing
	phaseStopping
)

// readiness answers /ready.
type readiness struct {
	phase  atomic.Int32
	broker atomic.Pointer[broker.Broker]
}

func (r *readiness) set(p phase) { r.phase.Store(int32(p)) }

// readyReport is what /ready answers.
type readyReport struct {
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
	// UnavailableCount counts the shards that do not serve, Unavailable lists the
	// first of them.
	UnavailableCount int                 `json:"unavailable_count"`
	Unavailable      []unavailableReport `json:"unavailable"`
}

// unavailableReport is one shard that does not serve; Shard -1 is a whole stream.
type unavailableReport struct {
	Stream string `json:"stream"`
	Shard  int    `json:"shard"`
	State  string `json:"state"`
	Reason string `json:"reason"`
}

func unavailableReports(shards []broker.UnavailableShard) []unavailableReport {
	reports := make([]unavailableReport, 0, min(len(shards), unavailableShown))
	for _, s := range shards[:min(len(shards), unavailableShown)] {
		reports = append(reports, unavailableReport{Stream: s.Stream.String(), Shard: s.Shard, State: s.State.String(), Reason: s.Reason})
	}
	return reports
}

func (r *readiness) report() readyReport {
	report := readyReport{Unavailable: []unavailableReport{}}
	b := r.broker.Load()
	if b != nil {
		health := b.Health()
		report.Ready, report.Reason = health.Ready, health.Reason
		report.UnavailableCount, report.Unavailable = len(health.Unavailable), unavailableReports(health.Unavailable)
	}
	switch phase(r.phase.Load()) {
	case phaseOpening:
		report.Ready, report.Reason = false, "the streams are being opened"
	case phaseStopping:
		report.Ready, report.Reason = false, "the server is stopping"
	}
	return report
}

// serve answers /ready. What does not serve is listed for those who are known without
// the work of a verification, which others may be waiting for: the reasons name streams
// and files.
func (r *readiness) serve(g guard) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		report := r.report()
		if !g.recalls(request) {
			report.Unavailable = []unavailableReport{}
		}
		status := http.StatusOK
		if !report.Ready {
			status = http.StatusServiceUnavailable
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(report) // whoever asked went away
	}
}

// adminHandler serves health to everybody, metrics to those who are known, and
// profiles, which hold what is in memory, to administrators. Health waits for nobody:
// neither for a place among the other requests nor for a verification.
func adminHandler(ready *readiness, metrics http.Handler, g guard) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{\"live\":true}\n"))
	})
	mux.HandleFunc("GET /ready", ready.serve(g))
	places := make(places, adminRequestsMax)
	mux.Handle("GET /metrics", g.known(places.bounded(metrics)))
	for path, handler := range map[string]http.HandlerFunc{
		"GET /debug/pprof/": pprof.Index, "GET /debug/pprof/cmdline": pprof.Cmdline, "GET /debug/pprof/profile": pprof.Profile,
		"GET /debug/pprof/symbol": pprof.Symbol, "POST /debug/pprof/symbol": pprof.Symbol, "GET /debug/pprof/trace": pprof.Trace,
	} {
		mux.Handle(path, g.administrators(places.bounded(handler)))
	}
	return g.called(mux)
}

// places are what requests that cost something take turns at.
type places chan struct{}

// bounded refuses requests for which no place is left, at once.
func (places places) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests at once; try again", http.StatusServiceUnavailable)
		}
	})
}

// newAdminServer serves what comes through the turnstile. What package http has to say
// is about clients that broke off.
func newAdminServer(handler http.Handler, t *turnstile, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: adminHeaderTimeout, ReadTimeout: adminHeaderTimeout,
		IdleTimeout: adminIdleTimeout, WriteTimeout: adminWriteTimeout, MaxHeaderBytes: 16 << 10,
		ConnState: t.changed, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}
