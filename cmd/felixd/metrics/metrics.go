package metrics

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"felix.local/felix/engine"
	"felix.local/felix/recovery"
)

// Source is what a store says of itself.
type Source interface {
	Stats() engine.StoreStats
	Backend() engine.Backend
}

// Metrics is a registry with everything a store exports, and the store's
// observer. Pass it as engine.Config.Observer, then Attach the opened store.
type Metrics struct {
	registry *prometheus.Registry
	source   atomic.Pointer[Source]
	broker   atomic.Pointer[BrokerSource]
	http     atomic.Pointer[HTTPSource]
	kafka    atomic.Pointer[KafkaSource]

	appendBatch, appendDuration prometheus.Histogram
	syncDuration, syncBatch     prometheus.Histogram
	readDuration                prometheus.Histogram
	recoveryDuration            prometheus.Histogram
	httpDuration                *prometheus.HistogramVec
}

var _ engine.Observer = (*Metrics)(nil)

// New makes a registry without a store.
func New() *Metrics {
	// Durations: 10 µs, the page cache, to 10 s, a device in trouble.
	durations := prometheus.ExponentialBucketsRange(10e-6, 10, 25)
	counts := prometheus.ExponentialBuckets(1, 2, 14) // 1 to 8192
	m := &Metrics{
		registry:         prometheus.NewRegistry(),
		appendBatch:      histogram("append_batch_records", "Records in one append.", counts),
		appendDuration:   histogram("append_duration_seconds", "Time from an append's call to its acknowledgement.", durations),
		syncDuration:     histogram("sync_duration_seconds", "Time of one flush or durable write of a segment.", durations),
		syncBatch:        histogram("sync_batch_appends", "Appends that one flush or durable write made durable; near 1 under load means no group commit.", counts),
		readDuration:     histogram("read_duration_seconds", "Time of one range read.", durations),
		recoveryDuration: histogram("recovery_duration_seconds", "Time to recover one log at open.", prometheus.ExponentialBucketsRange(100e-6, 1000, 22)),
		httpDuration:     newHTTPDuration(durations),
	}
	m.registry.MustRegister(
		m.appendBatch, m.appendDuration, m.syncDuration, m.syncBatch, m.readDuration, m.recoveryDuration,
		m.httpDuration, &storeCollector{m}, &brokerCollector{m}, &httpCollector{m}, &kafkaCollector{m},
	)
	return m
}

// histogram has classic buckets for any server and native ones, about 10 %
// apart, for those that take them.
func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160,
		NativeHistogramMinResetDuration: time.Hour,
	})
}

// Attach makes s the store whose totals are exported. A later store replaces it.
func (m *Metrics) Attach(s Source) { m.source.Store(&s) }

// Detach forgets the store, which is about to be closed, and the broker; their
// totals read 0.
func (m *Metrics) Detach() {
	m.source.Store(nil)
	m.broker.Store(nil)
}

// AddProcess exports the Go runtime and the process too.
func (m *Metrics) AddProcess() {
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

// Gatherer gives the registry to a server that has others.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// Appended implements engine.Observer.
func (m *Metrics) Appended(records int, _ int64, took time.Duration) {
	m.appendBatch.Observe(float64(records))
	m.appendDuration.Observe(took.Seconds())
}

// Synced implements engine.Observer.
func (m *Metrics) Synced(appends uint64, took time.Duration, err error) {
	m.syncDuration.Observe(took.Seconds())
	if err == nil {
		m.syncBatch.Observe(float64(appends))
	}
}

// Read implements engine.Observer.
func (m *Metrics) Read(_ int, _ int64, took time.Duration) { m.readDuration.Observe(took.Seconds()) }

// Recovered implements engine.Observer.
func (m *Metrics) Recovered(report recovery.Report) {
	m.recoveryDuration.Observe(report.Duration.Seconds())
}
