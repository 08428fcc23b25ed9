package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Row is one line of a report: what ran, on what, and what it measured.
type Row struct {
	Label   string `json:"label"`
	Fsync   string `json:"fsync"`
	Backend string `json:"backend"`
	// Logs is the number of logs the publishers were spread over.
	Logs             int     `json:"logs"`
	Records          int64   `json:"records"`
	Batch            int     `json:"batch"`
	PayloadBytes     int     `json:"payload_bytes"`
	Concurrency      int     `json:"concurrency"`
	Seconds          float64 `json:"seconds"`
	RecordsPerSecond float64 `json:"records_per_second"`
	Appends          int64   `json:"appends"`
	LatencyMicros    Latency `json:"latency_us"`
	// DeviceDsyncMicros is one durable write of a growing file by the calling
	// thread, DeviceOverwriteMicros one past the page cache over written blocks;
	// both measured right before and after the run, 0 where not to be had.
	DeviceDsyncMicros     int64 `json:"device_dsync_us"`
	DeviceOverwriteMicros int64 `json:"device_overwrite_us"`
	// DeviceSequentialMicros is a plain write of as many bytes as an append has
	// payload (at most 1 MiB), at the end of a file, and an fdatasync.
	DeviceSequentialMicros int64 `json:"device_sequential_us"`

	// RateAsked is the appends per second of an open loop; 0 is a closed loop.
	// Unserved counts those that were due and not begun when the time was up.
	RateAsked float64 `json:"rate_asked"`
	Unserved  int64   `json:"unserved"`
	// CPUMicrosPerAppend is processor time of the process, the load itself and the
	// kernel's workers included. It and what follows is 0 where the store is in
	// another process.
	CPUMicrosPerAppend float64 `json:"cpu_us_per_append"`
	// RecordsPerWrite is the fan-in of group commit; FlushesPerAppend counts dsync
	// writes and flushes; OpsPerEnter is 0 on the pool.
	RecordsPerWrite  float64 `json:"records_per_write"`
	FlushesPerAppend float64 `json:"flushes_per_append"`
	OpsPerEnter      float64 `json:"ops_per_enter"`
	// OpsPerAppend counts operations of any kind, through the queue and inline.
	OpsPerAppend float64 `json:"ops_per_append"`
	// VerifiedRecords were read back afterwards, those of the warm-up among them,
	// and are what was acknowledged; 0 when that was not asked for.
	VerifiedRecords int64 `json:"verified_records"`
}

// addWork puts in what the work cost.
func (r *Row) addWork(w Work, of Result, ours bool) {
	if !ours {
		return
	}
	if of.Appends > 0 {
		r.CPUMicrosPerAppend = float64(of.CPU.Nanoseconds()) / 1e3 / float64(of.Appends)
	}
	r.RecordsPerWrite = ratio(w.Records, w.Writes)
	r.FlushesPerAppend = ratio(w.Flushes, w.Appends)
	r.OpsPerEnter = ratio(w.EnterOps, w.Enters)
	r.OpsPerAppend = ratio(w.Ops, w.Appends)
}

// Row puts a result in a report. floors are the measurements around it.
func (r Result) Row(label, fsync, backend string, logs int, floors ...Floor) Row {
	row := Row{
		Label: label, Fsync: fsync, Backend: backend, Logs: logs,
		Records: r.Records, Batch: r.Load.Batch, PayloadBytes: r.Load.PayloadBytes,
		Concurrency: r.Load.Concurrency, Seconds: r.Elapsed.Seconds(),
		RecordsPerSecond: r.RecordsPerSecond(), Appends: r.Appends, LatencyMicros: r.Latency,
		RateAsked: r.Load.Rate, Unserved: r.Unserved,
	}
	for _, f := range floors {
		row.DeviceDsyncMicros += f.Inline.Microseconds() / int64(len(floors))
		row.DeviceOverwriteMicros += f.DirectOverwrite.Microseconds() / int64(len(floors))
		row.DeviceSequentialMicros += f.Sequential.Microseconds() / int64(len(floors))
	}
	return row
}

// Markdown renders rows as a table.
func Markdown(rows []Row) string {
	var b strings.Builder
	b.WriteString("| fsync | backend | logs | batch | publishers | records/s | p50 µs | p90 µs | p99 µs | p99.9 µs | max µs | device dsync µs | device overwrite µs |\n")
	b.WriteString("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %.0f | %d | %d | %d | %d | %d | %d | %d |\n",
			r.Fsync, r.Backend, r.Logs, r.Batch, r.Concurrency, r.RecordsPerSecond,
			r.LatencyMicros.P50, r.LatencyMicros.P90, r.LatencyMicros.P99, r.LatencyMicros.P999, r.LatencyMicros.Max,
			r.DeviceDsyncMicros, r.DeviceOverwriteMicros)
	}
	return b.String()
}

// Median returns, for rows of the same sort from several rounds, the one in the
// middle by rate. Rows are of the same sort when all but the measurements agree;
// the order of first appearance is kept.
func Median(rows []Row) []Row {
	groups := make(map[Row][]Row)
	var order []Row
	for _, r := range rows {
		key := Row{
			Label: r.Label, Fsync: r.Fsync, Backend: r.Backend, Logs: r.Logs,
			Batch: r.Batch, PayloadBytes: r.PayloadBytes, Concurrency: r.Concurrency, RateAsked: r.RateAsked,
		}
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], r)
	}
	medians := make([]Row, 0, len(order))
	for _, key := range order {
		group := groups[key]
		slices.SortFunc(group, func(a, b Row) int { return cmp.Compare(a.RecordsPerSecond, b.RecordsPerSecond) })
		medians = append(medians, group[len(group)/2])
	}
	return medians
}
