package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"felix.local/felix/cmd/felixd/metrics"
)

// metricsFlags offer Prometheus metrics while a command runs.
type metricsFlags struct {
	MetricsAddr        string `name:"metrics-addr" placeholder:"HOST:PORT" help:"serve Prometheus metrics at /metrics while running"`
	MetricsAllowRemote bool   `name:"metrics-allow-remote" help:"let --metrics-addr be other than loopback; there is no authentication"`
}

// serve starts the server; without an address it returns nil and a stop that
// does nothing.
func (f *metricsFlags) serve(a *app) (*metrics.Metrics, func() error, error) {
	if f.MetricsAddr == "" {
		return nil, func() error { return nil }, nil
	}
	listener, err := net.Listen("tcp", f.MetricsAddr)
	if err != nil {
		return nil, nil, err
	}
	if bound, ok := listener.Addr().(*net.TCPAddr); !f.MetricsAllowRemote && (!ok || !bound.IP.IsLoopback()) {
		return nil, nil, errors.Join(
			usage("metrics-addr %s is not loopback; add --metrics-allow-remote if others may read the metrics", listener.Addr()),
			listener.Close())
	}
	exporter := metrics.New()
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", exporter.Handler())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintf(a.stderr, "felixd: metrics at http://%s/metrics\n", listener.Addr())
	stop := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), time.Second)
		defer cancel()
		err := server.Shutdown(ctx)
		if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
			err = errors.Join(err, serveErr)
		}
		return err
	}
	return exporter, stop, nil
}
