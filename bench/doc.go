// Package bench generates load and measures what it costs: a closed loop of
// publishers against a target, latency histograms, and, beside every result, what
// one durable write costs on the same device in the same minute. A rate without
// that number says little, because devices drift by a factor of two within
// minutes.
//
// It owns the payload rule that the tool's write and verify commands share, so
// that any record can be checked from its offset alone.
//
// It never judges a number: limits belong to whoever reads the report.
//
// # Invariants
//
//   - Closed loop: a publisher has one append outstanding; concurrency is the
//     number of publishers.
//
//   - Warm-up ends for every publisher before the measurement starts for any.
//
//   - Elapsed time ends with the last acknowledgement, before any final flush.
//
//   - Percentiles are nearest rank: the smallest recorded value that at least
//     that share of all values does not exceed.
//
//   - What a load asks for is bounded: payloads are made beforehand, and
//     histograms are shared beyond a number of publishers.
//
// Publishers share one atomic counter of records left. The one lock is that of a
// histogram, which up to 64 publishers have to themselves.
package bench
