// Package bench generates load and measures what it costs: a closed or an open loop
// of publishers against logs, a stream or a server, latency histograms, pairs of
// settings compared with an interval, and, beside every result, what one durable
// write costs on the same device in the same minute. A rate without that number
// says little, because devices drift by a factor of two within minutes.
//
//	Plan ─ points × sides × rounds ─► Trial ─ open, measure the device, Load,
//	       measure the device, close, open again, read back ─► Measurement
//
// It owns the payload rule that the tool's write and verify commands share, so
// that any record can be checked from its offset alone, and the rule of the payloads
// of a load, which tell who appended them and when.
//
// It never judges a number: limits belong to whoever reads the report (and to
// bench/guard). Pages are made by bench/report.
//
// # Invariants
//
//   - Closed loop: a publisher has one append outstanding; concurrency is the
//     number of publishers.
//
//   - Open loop: what is due does not depend on what was done, and a latency counts
//     from when its append was due. What was due and not begun when the time was up
//     is counted, and its latency too.
//
//   - Warm-up ends for every publisher before the measurement starts for any.
//
//   - Elapsed time ends with the last acknowledgement, before any final flush.
//
//   - Percentiles are nearest rank: the smallest recorded value that at least
//     that share of all values does not exceed.
//
//   - Unless told otherwise, what was acknowledged is read back after the system was
//     closed and opened again: every record at its offset, byte for byte, and no
//     other.
//
//   - The sides of a pair run one right after the other, each in an empty directory,
//     and take turns in going first.
//
//   - What a load asks for is bounded: payloads are made beforehand, histograms are
//     shared beyond a number of publishers, and what is remembered for verifying has
//     a limit.
//
// Publishers of a closed loop share one atomic counter of records left, those of an
// open loop one channel of what is due. The one lock is that of a histogram, which up
// to 8 publishers have to themselves.
package bench
