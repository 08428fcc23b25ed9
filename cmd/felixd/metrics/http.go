package metrics

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"felix.local/felix/httpapi"
)

// HTTPSource is what the HTTP front door says of itself.
type HTTPSource interface{ Stats() httpapi.Stats }

// AttachHTTP makes h the front door whose totals are exported.
func (m *Metrics) AttachHTTP(h HTTPSource) {
	for _, route := range h.Stats().Requests {
		if timed(route.Route) {
			m.httpDuration.WithLabelValues(route.Route) // it is there before the first request
		}
	}
	m.http.Store(&h)
}

// timed says that a route's duration says something. That of a subscription is up
// to the client, and paths that match no route have nothing in common.
func timed(route string) bool { return route != "subscribe" && route != "unknown" }

var _ httpapi.Observer = (*Metrics)(nil)

// Request implements httpapi.Observer.
func (m *Metrics) Request(route string, _ int, took time.Duration) {
	if timed(route) {
		m.httpDuration.WithLabelValues(route).Observe(took.Seconds())
	}
}

func newHTTPDuration(buckets []float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "felix_http_request_duration_seconds", Help: "Time of a request that is no subscription, by route.", Buckets: buckets,
	}, []string{"route"})
}

type httpStats = httpapi.Stats

// httpTotals lists what is exported of the HTTP front door without labels.
func httpTotals() []sourced[httpStats] {
	return []sourced[httpStats]{
		gaugeOf("http_connections", "HTTP connections open.", func(s httpStats) float64 { return float64(s.Connections) }),
		gaugeOf("http_subscriptions", "Subscriptions over HTTP open.", func(s httpStats) float64 { return float64(s.Subscriptions) }),
		gaugeOf("http_requests_active", "HTTP requests under way, subscriptions included.", func(s httpStats) float64 { return float64(s.RequestsActive) }),
		gaugeOf("http_buffered_bytes", "Bytes held by publishes under way.", func(s httpStats) float64 { return float64(s.BufferedBytes) }),
		gaugeOf("http_page_bytes", "Bytes held by range reads under way.", func(s httpStats) float64 { return float64(s.PageBytes) }),
		counterOf("http_connections_accepted_total", "HTTP connections accepted.", func(s httpStats) float64 { return float64(s.ConnectionsAccepted) }),
		counterOf("http_connections_refused_total", "HTTP connections closed at once, over the bound.", func(s httpStats) float64 { return float64(s.ConnectionsRefused) }),
		counterOf("http_received_bytes_total", "Bytes of request bodies.", func(s httpStats) float64 { return float64(s.BytesIn) }),
		counterOf("http_sent_bytes_total", "Bytes of answers.", func(s httpStats) float64 { return float64(s.BytesOut) }),
		counterOf("http_slow_readers_total", "Answers cut since the client took nothing.", func(s httpStats) float64 { return float64(s.SlowReaders) }),
		counterOf("http_panics_total", "Requests that ended in a defect.", func(s httpStats) float64 { return float64(s.Panics) }),
	}
}

func httpRequestsDesc() *prometheus.Desc {
	return prometheus.NewDesc("felix_http_requests_total", "HTTP requests ended, by route and class of status; class none is a client that left first.",
		[]string{"route", "class"}, nil)
}

// httpCollector reads the attached front door once per scrape.
type httpCollector struct{ metrics *Metrics }

// Describe sends nothing but the fixed descriptions.
func (c *httpCollector) Describe(ch chan<- *prometheus.Desc) {
	describeAll(ch, httpTotals())
	ch <- httpRequestsDesc()
}

// Collect exports the front door, or zeros without one.
func (c *httpCollector) Collect(ch chan<- prometheus.Metric) {
	var stats httpStats
	if source := c.metrics.http.Load(); source != nil {
		stats = (*source).Stats()
	}
	collectAll(ch, httpTotals(), stats)
	for _, route := range stats.Requests {
		for class, n := range route.ByClass {
			label := "none"
			if class > 0 {
				label = fmt.Sprintf("%dxx", class)
			}
			ch <- prometheus.MustNewConstMetric(httpRequestsDesc(), prometheus.CounterValue, float64(n), route.Route, label)
		}
	}
}
