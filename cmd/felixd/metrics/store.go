package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"felix.local/felix/device"
	"felix.local/felix/engine"
)

const (
	namespace = "felix"
	subsystem = "storage"
)

// total is a counter or gauge read from the store's statistics.
type total struct {
	name, help string
	sort       prometheus.ValueType
	value      func(engine.StoreStats) float64
}

func counter(name, help string, value func(engine.StoreStats) uint64) total {
	return total{name, help, prometheus.CounterValue, func(s engine.StoreStats) float64 { return float64(value(s)) }}
}

func gauge[N int | int64 | uint64](name, help string, value func(engine.StoreStats) N) total {
	return total{name, help, prometheus.GaugeValue, func(s engine.StoreStats) float64 { return float64(value(s)) }}
}

// totals lists what is exported without labels.
func totals() []total {
	type S = engine.StoreStats
	return []total{
		counter("append_total", "Append calls acknowledged.", func(s S) uint64 { return s.Appends }),
		counter("append_records_total", "Records acknowledged.", func(s S) uint64 { return s.AppendRecords }),
		counter("append_bytes_total", "Payload bytes acknowledged.", func(s S) uint64 { return s.AppendBytes }),
		counter("sync_total", "Flushes and durable writes of segments.", func(s S) uint64 { return s.Syncs }),
		counter("sync_failures_total", "Flushes and durable writes that failed and poisoned a log.", func(s S) uint64 { return s.SyncFailures }),
		counter("full_total", "Appends refused or undone for want of space.", func(s S) uint64 { return s.Full }),
		counter("index_write_failures_total", "Index writes that failed; the index is rebuilt at open.", func(s S) uint64 { return s.IndexWriteFailures }),
		counter("producer_snapshot_failures_total", "Snapshots of producers that could not be written; the next open takes longer.", func(s S) uint64 { return s.ProducerSnapshotFailures }),
		counter("producer_state_rebuilt_total", "Opens that read sealed segments for want of a usable snapshot of producers.", func(s S) uint64 { return s.ProducerStateRebuilt }),
		counter("mark_write_failures_total", "Writes of durable.mark that failed between flushes.", func(s S) uint64 { return s.MarkWriteFailures }),
		counter("replica_write_failures_total", "Writes of replica behind a commit offset that failed; a later one makes up for it.", func(s S) uint64 { return s.ReplicaWriteFailures }),
		counter("epochs_unusable_total", "Opens of a log whose history of generations could not be used and counts as empty.", func(s S) uint64 { return s.EpochsUnusable }),
		counter("segment_roll_total", "Segments rolled, inline or in the background.", func(s S) uint64 { return s.Rolls }),
		counter("segment_roll_background_total", "Segments rolled in the background.", func(s S) uint64 { return s.RollsBackground }),
		counter("segment_roll_failed_total", "Background rolls that failed.", func(s S) uint64 { return s.RollsFailed }),
		counter("segment_roll_discarded_total", "Prepared segments thrown away unused.", func(s S) uint64 { return s.RollsDiscarded }),
		counter("segment_reserve_failed_total", "Preallocations that failed after a segment's first.", func(s S) uint64 { return s.ReserveFailures }),
		counter("journal_frames_total", "Frames written to the commit journal.", func(s S) uint64 { return s.JournalFrames }),
		counter("journal_entries_total", "Batches of logs in those frames; near one a frame means that logs do not share flushes.", func(s S) uint64 { return s.JournalEntries }),
		counter("journal_bytes_total", "Bytes of those frames.", func(s S) uint64 { return s.JournalBytes }),
		counter("journal_checkpoints_total", "Passes that brought segments up to the commit journal.", func(s S) uint64 { return s.JournalCheckpoints }),
		counter("journal_full_total", "Frames that found no free file of the commit journal.", func(s S) uint64 { return s.JournalFull }),
		counter("journal_bypassed_total", "Batches committed in their segments because the commit journal had no free file or was moved away.", func(s S) uint64 { return s.JournalBypassed }),
		counter("journal_replayed_total", "Entries of the commit journal that were brought to their segments at open.", func(s S) uint64 { return s.JournalReplayed }),
		counter("retention_segments_deleted_total", "Segments deleted by retention.", func(s S) uint64 { return s.RetentionSegments }),
		counter("retention_bytes_reclaimed_total", "Bytes of segments deleted by retention.", func(s S) uint64 { return s.RetentionBytes }),
		counter("retention_failures_total", "Retention passes that failed.", func(s S) uint64 { return s.RetentionFailures }),
		counter("read_records_total", "Records returned by range reads.", func(s S) uint64 { return s.ReadRecords }),
		counter("read_bytes_total", "Payload bytes returned by range reads.", func(s S) uint64 { return s.ReadBytes }),
		counter("recovery_truncated_bytes", "Bytes cut from torn tails at open.", func(s S) uint64 { return s.RecoveryTruncatedBytes }),
		counter("recovery_truncated_below_mark_total", "Cuts at open below the position known to be durable.", func(s S) uint64 { return s.RecoveryTruncatedBelowMark }),
		counter("recovery_abandoned_rolls_total", "Unfinished rolls removed at open.", func(s S) uint64 { return s.RecoveryAbandonedRolls }),
		counter("recovery_index_rebuilds_total", "Indexes rebuilt at open.", func(s S) uint64 { return s.RecoveryIndexRebuilds }),

		gauge("unsynced_bytes", "Bytes a power loss would take right now.", func(s S) int64 { return s.UnsyncedBytes }),
		gauge("journal_lag_bytes", "Durable bytes that the commit journal holds and segments do not yet.", func(s S) int64 { return s.JournalLagBytes }),
		gauge("segment_count", "Segments of all open logs.", func(s S) int { return s.Segments }),
		gauge("open_sealed_segments", "Sealed segments open for reading.", func(s S) int { return s.OpenSealedSegments }),
		gauge("open_writers", "Active segments open for writing.", func(s S) int { return s.OpenWriters }),
		gauge("retention_base_offset", "Oldest offset held by the log that retention looked at last.", func(s S) uint64 { return s.BaseOffset }),
		gauge("open_logs", "Logs open.", func(s S) int { return s.Logs }),
		gauge("poisoned_logs", "Logs that accept no append until the store is opened again.", func(s S) int { return s.PoisonedLogs }),
		gauge("staged_bytes", "Staging memory reserved by appends.", func(s S) int64 { return s.StagedBytes }),
		gauge("staged_mapped_bytes", "Staging memory mapped.", func(s S) int64 { return s.StagedMappedBytes }),
		gauge("free_bytes", "Bytes free on the data filesystem, as of the last look.", func(s S) int64 { return s.FreeBytes }),
		gauge("free_inodes", "Inodes free on the data filesystem, as of the last look; -1 where they are not counted.", func(s S) int64 { return s.FreeInodes }),
		gauge("full", "1 while appends are refused because free space is below the guard.", func(s S) int { return boolean(s.SpaceLow) }),

		gauge("ops_in_flight", "Operations handed to the kernel or a worker.", func(s S) int { return s.Queue.InFlight }),
		gauge("ops_queued", "Operations waiting for a place in flight.", func(s S) int { return s.Queue.Queued }),
		gauge("ops_in_flight_max", "Bound on operations in flight.", func(s S) int { return s.Queue.InFlightMax }),
		{"oldest_op_age_seconds", "Age of the oldest unfinished operation.", prometheus.GaugeValue, func(s S) float64 { return s.OldestOpAge().Seconds() }},
		counter("ring_enters_total", "Calls of io_uring_enter.", func(s S) uint64 { return s.Queue.Enters }),
		counter("ring_entries_total", "Submission entries those calls took.", func(s S) uint64 { return s.Queue.EnterOps }),
		{"ring_ops_per_enter", "Submission entries per call of io_uring_enter since start.", prometheus.GaugeValue, opsPerEnter},
		counter("backend_wakeups_total", "Times a producer woke a backend waiting in the kernel.", func(s S) uint64 { return s.Queue.Wakeups }),
		gauge("backend_lost", "1 when the backend broke and outcomes are unknown.", func(s S) int { return boolean(s.Queue.Lost != nil) }),
	}
}

func opsPerEnter(s engine.StoreStats) float64 {
	if s.Queue.Enters == 0 {
		return 0
	}
	return float64(s.Queue.EnterOps) / float64(s.Queue.Enters)
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// The metrics with labels.
const (
	backendInfo   = "backend_info"
	opsTotal      = "ops_total"
	opErrorsTotal = "op_errors_total"
	resubmits     = "op_resubmits_total"
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, subsystem, name), help, labels, nil)
}

// storeCollector reads the attached store once per scrape, so that all values of
// one scrape are of one moment.
type storeCollector struct{ metrics *Metrics }

// Describe sends nothing but the fixed descriptions.
func (c *storeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, t := range totals() {
		ch <- describe(t.name, t.help)
	}
	ch <- backendDesc()
	ch <- opsDesc()
	ch <- opErrorsDesc()
	ch <- resubmitsDesc()
}

func backendDesc() *prometheus.Desc {
	return describe(backendInfo, "The I/O backend; reason says why this one.", "backend", "driver", "reason")
}

func opsDesc() *prometheus.Desc {
	return describe(opsTotal, "Disk operations completed, by kind and by route (ring, pool, inline).", "kind", "route")
}

func opErrorsDesc() *prometheus.Desc {
	return describe(opErrorsTotal, "Disk operations of the backend that failed, by kind.", "kind")
}

func resubmitsDesc() *prometheus.Desc {
	return describe(resubmits, "Transfers the backend issued again, by cause.", "cause")
}

// Collect exports the store, or zeros without one.
func (c *storeCollector) Collect(ch chan<- prometheus.Metric) {
	var stats engine.StoreStats
	var backend engine.Backend
	if source := c.metrics.source.Load(); source != nil {
		stats, backend = (*source).Stats(), (*source).Backend()
	}
	for _, t := range totals() {
		ch <- prometheus.MustNewConstMetric(describe(t.name, t.help), t.sort, t.value(stats))
	}
	ch <- prometheus.MustNewConstMetric(backendDesc(), prometheus.GaugeValue, 1, backend.Name, backend.Driver, backend.Reason)
	for kind := range device.KindCount {
		for route := range device.RouteCount {
			n := uint64(0)
			switch {
			case route == device.RouteInline:
				n = stats.Inline[kind]
			case route.String() == stats.Queue.Backend:
				n = stats.Queue.Ops[kind]
			}
			ch <- prometheus.MustNewConstMetric(opsDesc(), prometheus.CounterValue, float64(n), kind.String(), route.String())
		}
		ch <- prometheus.MustNewConstMetric(opErrorsDesc(), prometheus.CounterValue, float64(stats.Queue.Errors[kind]), kind.String())
	}
	for cause, n := range map[string]uint64{
		"short": stats.Queue.ResubmitShort, "again": stats.Queue.ResubmitAgain, "canceled": stats.Queue.ResubmitCanceled,
	} {
		ch <- prometheus.MustNewConstMetric(resubmitsDesc(), prometheus.CounterValue, float64(n), cause)
	}
}
