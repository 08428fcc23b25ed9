package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"felix.local/felix/broker"
)

// BrokerSource is what a broker says of itself.
type BrokerSource interface {
	Stats() broker.Stats
	Health() broker.Health
}

// AttachBroker makes b the broker whose totals are exported.
func (m *Metrics) AttachBroker(b BrokerSource) { m.broker.Store(&b) }

// brokerTotals lists what is exported of a broker without labels.
func brokerTotals() []sourced[broker.Stats] {
	type S = broker.Stats
	return []sourced[broker.Stats]{
		counterOf("sub_queue_dropped_total", "Records of in-memory streams that full subscriptions missed.", func(s S) float64 { return float64(s.DroppedRecords) }),
		counterOf("publish_duplicates_total", "Publishes of idempotent producers that were stored already and answered again.", func(s S) float64 { return float64(s.Duplicates) }),
		counterOf("broker_published_records_total", "Records of acknowledged publishes.", func(s S) float64 { return float64(s.PublishedRecords) }),
		counterOf("broker_published_bytes_total", "Bytes of acknowledged publishes.", func(s S) float64 { return float64(s.PublishedBytes) }),
		counterOf("broker_delivered_records_total", "Records handed to subscriptions.", func(s S) float64 { return float64(s.DeliveredRecords) }),
		counterOf("broker_delivered_bytes_total", "Bytes handed to subscriptions.", func(s S) float64 { return float64(s.DeliveredBytes) }),
		counterOf("broker_publishes_blocked_total", "Publishes held back by a full subscription that asked for it.", func(s S) float64 { return float64(s.Blocked) }),
		gaugeOf("broker_streams", "Streams registered.", func(s S) float64 { return float64(s.Streams) }),
		gaugeOf("broker_shards", "Shards of all streams.", func(s S) float64 { return float64(s.Shards) }),
		gaugeOf("broker_subscriptions", "Subscriptions open.", func(s S) float64 { return float64(s.Subscriptions) }),
		gaugeOf("broker_streams_unreadable", "Streams whose definition cannot be read.", func(s S) float64 { return float64(s.UnreadableStreams) }),
	}
}

func publishesDesc() *prometheus.Desc {
	return prometheus.NewDesc("felix_publish_requests_total", "Publishes, by outcome (acknowledged, failed).", []string{"outcome"}, nil)
}

func pagesDesc() *prometheus.Desc {
	return prometheus.NewDesc("felix_broker_pages_total", "Pages read for subscriptions and range reads, by where they came from (ring, disk).", []string{"source"}, nil)
}

func unavailableDesc() *prometheus.Desc {
	return prometheus.NewDesc("felix_broker_shards_unavailable", "Shards that do not serve, by state (refused, poisoned).", []string{"state"}, nil)
}

func readyDesc() *prometheus.Desc {
	return prometheus.NewDesc("felix_broker_ready", "1 when streams are served.", nil, nil)
}

// brokerCollector reads the attached broker once per scrape.
type brokerCollector struct{ metrics *Metrics }

// Describe sends nothing but the fixed descriptions.
func (c *brokerCollector) Describe(ch chan<- *prometheus.Desc) {
	describeAll(ch, brokerTotals())
	ch <- publishesDesc()
	ch <- pagesDesc()
	ch <- unavailableDesc()
	ch <- readyDesc()
}

// Collect exports the broker, or zeros without one.
func (c *brokerCollector) Collect(ch chan<- prometheus.Metric) {
	var stats broker.Stats
	ready := false
	if source := c.metrics.broker.Load(); source != nil {
		stats, ready = (*source).Stats(), (*source).Health().Ready
	}
	collectAll(ch, brokerTotals(), stats)
	labelled := func(desc *prometheus.Desc, sort prometheus.ValueType, values map[string]float64) {
		for label, value := range values {
			ch <- prometheus.MustNewConstMetric(desc, sort, value, label)
		}
	}
	labelled(publishesDesc(), prometheus.CounterValue, map[string]float64{
		"acknowledged": float64(stats.Publishes), "failed": float64(stats.PublishFailures),
	})
	labelled(pagesDesc(), prometheus.CounterValue, map[string]float64{
		"ring": float64(stats.RingReads), "disk": float64(stats.DiskReads),
	})
	labelled(unavailableDesc(), prometheus.GaugeValue, map[string]float64{
		broker.StateRefused.String(): float64(stats.RefusedShards), broker.StatePoisoned.String(): float64(stats.PoisonedShards),
	})
	ch <- prometheus.MustNewConstMetric(readyDesc(), prometheus.GaugeValue, float64(boolean(ready)))
}
