package engine

import (
	"time"

	"felix.local/felix/device"
	"felix.local/felix/recovery"
)

// Observer is told of events as they happen, for histograms; totals are in
// StoreStats. Methods are called by appenders, readers and timers, at once and
// from many goroutines; they must return quickly and must not call the log:
// with the commit journal one that dawdles keeps every log from its next commit.
type Observer interface {
	// Appended reports one append that was acknowledged: its records, its
	// payload bytes and the time from call to acknowledgement.
	Appended(records int, bytes int64, took time.Duration)
	// Synced reports one flush or dsync write of a log: how many appends became
	// durable with it (the fan-in of a group commit), how long the device took,
	// and the error that poisoned the log, if it failed.
	Synced(appends uint64, took time.Duration, err error)
	// Read reports one range read.
	Read(records int, bytes int64, took time.Duration)
	// Recovered reports one log that was opened.
	Recovered(report recovery.Report)
}

type noObserver struct{}

func (noObserver) Appended(int, int64, time.Duration)  {}
func (noObserver) Synced(uint64, time.Duration, error) {}
func (noObserver) Read(int, int64, time.Duration)      {}
func (noObserver) Recovered(recovery.Report)           {}

// StoreStats are a store's totals (which only rise) and gauges.
type StoreStats struct {
	// Appends counts acknowledged append calls; AppendRecords and AppendBytes
	// what they held (payload bytes).
	Appends, AppendRecords, AppendBytes uint64
	// Syncs counts flushes and dsync writes of segments, SyncFailures those
	// that failed and poisoned a log.
	Syncs, SyncFailures uint64
	// Full counts appends refused or undone for want of space.
	Full uint64
	// IndexWriteFailures counts index writes that failed; the index is rebuilt
	// when the log is opened.
	IndexWriteFailures uint64
	// MarkWriteFailures counts lazy writes of durable.mark that failed.
	MarkWriteFailures uint64
	// ProducerSnapshotFailures counts snapshots of producers that could not be
	// written, and ProducerStateRebuilt the opens that read sealed segments because
	// there was none they could use.
	ProducerSnapshotFailures, ProducerStateRebuilt uint64
	// Rolls counts rolls of either kind; RollsBackground, RollsFailed and
	// RollsDiscarded the background rolls that were installed, that failed, and
	// whose prepared segment was thrown away.
	Rolls, RollsBackground, RollsFailed, RollsDiscarded uint64
	// ReserveFailures counts preallocations that failed after a segment's first.
	ReserveFailures uint64
	// JournalFrames, JournalEntries and JournalBytes count what was written to the commit
	// journal, JournalCheckpoints the passes that brought segments up to it, JournalFull
	// and JournalBypassed the frames that found no free file and the batches that were
	// committed in their segments for it. JournalReplayed counts the entries that opening
	// the store brought to their segments.
	JournalFrames, JournalEntries, JournalBytes uint64
	JournalCheckpoints, JournalReplayed         uint64
	JournalFull, JournalBypassed                uint64
	// JournalLagBytes is what the journal holds and segments do not yet, over all logs.
	JournalLagBytes int64
	// RetentionSegments, RetentionBytes and RetentionFailures count what
	// retention deleted and the passes that failed.
	RetentionSegments, RetentionBytes, RetentionFailures uint64
	// ReadRecords and ReadBytes count what range reads returned.
	ReadRecords, ReadBytes uint64
	// Recovery counts, over all logs opened.
	RecoveryTruncatedBytes, RecoveryAbandonedRolls, RecoveryIndexRebuilds uint64
	RecoveryTruncatedBelowMark                                            uint64
	// EpochsUnusable counts logs that were opened with an unusable history of
	// generations, ReplicaWriteFailures writes behind a commit offset that failed.
	EpochsUnusable, ReplicaWriteFailures uint64
	// Inline counts operations that ran on a goroutine of the caller instead of
	// the queue, by kind.
	Inline [device.KindCount]uint64
	// InlineOldestAge is how long the oldest of them has been under way.
	InlineOldestAge time.Duration

	// UnsyncedBytes is what a power loss would take right now, over all logs.
	UnsyncedBytes int64
	// Logs, Segments, OpenSealedSegments and OpenWriters count what is open.
	Logs, Segments, OpenSealedSegments, OpenWriters int
	// PoisonedLogs counts logs that accept no append.
	PoisonedLogs int
	// BaseOffset is the oldest offset held by the log retention looked at last.
	BaseOffset uint64
	// StagedBytes is staging memory reserved now, StagedMappedBytes what is mapped.
	StagedBytes, StagedMappedBytes int64
	// FreeBytes and FreeInodes are the filesystem's, as of the last look;
	// SpaceLow says that appends are refused.
	FreeBytes, FreeInodes int64
	SpaceLow              bool

	// Queue is the backend's own account.
	Queue device.QueueStats
}

// OldestOpAge is how long the oldest unfinished operation has been under way, in
// the queue or inline; 0 when there is none. It grows while the device hangs.
func (s StoreStats) OldestOpAge() time.Duration { return max(s.Queue.OldestAge, s.InlineOldestAge) }
