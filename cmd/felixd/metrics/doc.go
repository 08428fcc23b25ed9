// Package metrics exports a store to Prometheus.
//
// It owns the names, the help texts and the histogram buckets. Totals and gauges
// are read from engine.StoreStats once per scrape; histograms are filled by
// events, for which Metrics is the store's engine.Observer.
//
// It never counts anything the engine counts already, and keeps no state but its
// histograms.
//
// # Invariants
//
//   - Every name is exported exactly once, attached store or not.
//   - Observer methods do not block: they fill histograms and return.
//
// The attached store is an atomic pointer; there are no locks.
package metrics
