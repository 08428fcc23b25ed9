package metrics

import "github.com/prometheus/client_golang/prometheus"

// Build says which program a process runs.
type Build struct{ Version, Revision, Go string }

// AddBuild exports the program: its value is 1, and the labels say which.
func (m *Metrics) AddBuild(b Build) {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "1; the labels say which felixd runs and what built it.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "go": b.Go},
	})
	info.Set(1)
	m.registry.MustRegister(info)
}
