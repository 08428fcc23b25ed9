package metrics

import "github.com/prometheus/client_golang/prometheus"

// sourced is a metric without labels that is read from statistics of type S.
type sourced[S any] struct {
	name, help string
	sort       prometheus.ValueType
	value      func(S) float64
}

func counterOf[S any](name, help string, value func(S) float64) sourced[S] {
	return sourced[S]{name, help, prometheus.CounterValue, value}
}

func gaugeOf[S any](name, help string, value func(S) float64) sourced[S] {
	return sourced[S]{name, help, prometheus.GaugeValue, value}
}

func (t sourced[S]) desc() *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", t.name), t.help, nil, nil)
}

func describeAll[S any](ch chan<- *prometheus.Desc, all []sourced[S]) {
	for _, t := range all {
		ch <- t.desc()
	}
}

func collectAll[S any](ch chan<- prometheus.Metric, all []sourced[S], stats S) {
	for _, t := range all {
		ch <- prometheus.MustNewConstMetric(t.desc(), t.sort, t.value(stats))
	}
}
