package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"felix.local/felix/kafka"
)

// KafkaSource is what the Kafka front door says of itself.
type KafkaSource interface{ Stats() kafka.Stats }

// AttachKafka makes k the front door whose totals are exported.
func (m *Metrics) AttachKafka(k KafkaSource) { m.kafka.Store(&k) }

type kafkaStats = kafka.Stats

// kafkaTotals lists what is exported of the Kafka front door without labels.
func kafkaTotals() []sourced[kafkaStats] {
	return []sourced[kafkaStats]{
		gaugeOf("kafka_connections", "Kafka connections open.", func(s kafkaStats) float64 { return float64(s.Connections) }),
		gaugeOf("kafka_fetch_sessions", "Incremental fetch sessions open.", func(s kafkaStats) float64 { return float64(s.FetchSessions) }),
		gaugeOf("kafka_request_memory_bytes", "Bytes held by requests under way.", func(s kafkaStats) float64 { return float64(s.RequestMemory) }),
		gaugeOf("kafka_response_memory_bytes", "Bytes held by fetched records.", func(s kafkaStats) float64 { return float64(s.ResponseMemory) }),
		counterOf("kafka_connections_accepted_total", "Kafka connections accepted.", func(s kafkaStats) float64 { return float64(s.ConnectionsAccepted) }),
		counterOf("kafka_connections_refused_total", "Kafka connections closed at once, over the bound.", func(s kafkaStats) float64 { return float64(s.ConnectionsRefused) }),
		counterOf("kafka_requests_refused_total", "Kafka requests that ended their connection: malformed, too large, unsupported, or before authentication.", func(s kafkaStats) float64 { return float64(s.RequestsRefused) }),
		counterOf("kafka_authentication_failures_total", "Kafka clients whose credentials were refused.", func(s kafkaStats) float64 { return float64(s.AuthenticationFailures) }),
		counterOf("kafka_produced_records_total", "Records produced.", func(s kafkaStats) float64 { return float64(s.ProducedRecords) }),
		counterOf("kafka_produced_bytes_total", "Bytes of record batches produced, as they came.", func(s kafkaStats) float64 { return float64(s.ProducedBytes) }),
		counterOf("kafka_produce_failures_total", "Partitions of produce requests that failed.", func(s kafkaStats) float64 { return float64(s.ProduceFailures) }),
		counterOf("kafka_fetched_records_total", "Records fetched.", func(s kafkaStats) float64 { return float64(s.FetchedRecords) }),
		counterOf("kafka_fetched_bytes_total", "Bytes of record batches fetched.", func(s kafkaStats) float64 { return float64(s.FetchedBytes) }),
		counterOf("kafka_fetch_sessions_evicted_total", "Fetch sessions that gave way to others.", func(s kafkaStats) float64 { return float64(s.FetchSessionsEvicted) }),
	}
}

func kafkaRequestsDesc() *prometheus.Desc {
	return prometheus.NewDesc("felix_kafka_requests_total", "Kafka requests answered, by API.", []string{"api"}, nil)
}

// kafkaCollector reads the attached front door once per scrape.
type kafkaCollector struct{ metrics *Metrics }

// Describe sends nothing but the fixed descriptions.
func (c *kafkaCollector) Describe(ch chan<- *prometheus.Desc) {
	describeAll(ch, kafkaTotals())
	ch <- kafkaRequestsDesc()
}

// Collect exports the front door, or zeros without one.
func (c *kafkaCollector) Collect(ch chan<- prometheus.Metric) {
	var stats kafkaStats
	if source := c.metrics.kafka.Load(); source != nil {
		stats = (*source).Stats()
	}
	collectAll(ch, kafkaTotals(), stats)
	for api, n := range stats.Requests {
		ch <- prometheus.MustNewConstMetric(kafkaRequestsDesc(), prometheus.CounterValue, float64(n), api)
	}
}
