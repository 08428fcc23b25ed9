package engine

import (
	"sync/atomic"

	"felix.local/felix/device"
)

// counters are the totals of a store, bumped without a lock.
type counters struct {
	appends, appendRecords, appendBytes                  atomic.Uint64
	syncs, syncFailures, full                            atomic.Uint64
	indexWriteFailures, markWriteFailures                atomic.Uint64
	producersWriteFailures, producersRebuilt             atomic.Uint64
	rolls, rollsBackground, rollsFailed, rollsDiscarded  atomic.Uint64
	reserveFailures                                      atomic.Uint64
	journalFrames, journalEntries, journalBytes          atomic.Uint64
	journalCheckpoints, journalReplayed                  atomic.Uint64
	journalFull, journalBypassed                         atomic.Uint64
	epochsUnusable, replicaWriteFailures                 atomic.Uint64
	retentionSegments, retentionBytes, retentionFailures atomic.Uint64
	readRecords, readBytes                               atomic.Uint64
	recoveryTruncated, recoveryAbandoned                 atomic.Uint64
	recoveryIndexRebuilds, recoveryBelowMark             atomic.Uint64
	inline                                               [device.KindCount]atomic.Uint64
	retentionBase                                        atomic.Uint64
}

// Stats returns the store's totals and gauges. Gauges over all logs take each
// log's lock in turn; call it for a scrape, not per append.
func (s *Store) Stats() StoreStats {
	c := &s.counters
	out := StoreStats{
		Appends: c.appends.Load(), AppendRecords: c.appendRecords.Load(), AppendBytes: c.appendBytes.Load(),
		Syncs: c.syncs.Load(), SyncFailures: c.syncFailures.Load(), Full: c.full.Load(),
		IndexWriteFailures: c.indexWriteFailures.Load(), MarkWriteFailures: c.markWriteFailures.Load(),
		ProducerSnapshotFailures: c.producersWriteFailures.Load(), ProducerStateRebuilt: c.producersRebuilt.Load(),
		Rolls: c.rolls.Load(), RollsBackground: c.rollsBackground.Load(),
		RollsFailed: c.rollsFailed.Load(), RollsDiscarded: c.rollsDiscarded.Load(),
		ReserveFailures: c.reserveFailures.Load(),
		JournalFrames:   c.journalFrames.Load(), JournalEntries: c.journalEntries.Load(), JournalBytes: c.journalBytes.Load(),
		JournalCheckpoints: c.journalCheckpoints.Load(), JournalReplayed: c.journalReplayed.Load(),
		JournalFull: c.journalFull.Load(), JournalBypassed: c.journalBypassed.Load(),
		JournalLagBytes:   s.journal.lagBytes.Load(),
		RetentionSegments: c.retentionSegments.Load(), RetentionBytes: c.retentionBytes.Load(),
		RetentionFailures: c.retentionFailures.Load(),
		ReadRecords:       c.readRecords.Load(), ReadBytes: c.readBytes.Load(),
		RecoveryTruncatedBytes: c.recoveryTruncated.Load(), RecoveryAbandonedRolls: c.recoveryAbandoned.Load(),
		RecoveryIndexRebuilds: c.recoveryIndexRebuilds.Load(), RecoveryTruncatedBelowMark: c.recoveryBelowMark.Load(),
		EpochsUnusable: c.epochsUnusable.Load(), ReplicaWriteFailures: c.replicaWriteFailures.Load(),
		BaseOffset:         c.retentionBase.Load(),
		OpenSealedSegments: s.sealed.open(),
		OpenWriters:        s.writers.open(),
		StagedBytes:        s.staging.Used(),
		InlineOldestAge:    s.inlinePlaces.oldestAge(),
		Queue:              s.queue.Stats(),
	}
	for kind := range c.inline {
		out.Inline[kind] = c.inline[kind].Load()
	}
	_, out.StagedMappedBytes = s.arena.Usage()
	out.FreeBytes, out.FreeInodes, out.SpaceLow = s.space.state()
	logs := s.logs()
	out.Logs = len(logs)
	for _, l := range logs {
		l.mu.Lock()
		out.UnsyncedBytes += l.unsyncedBytesLocked()
		out.Segments += len(l.mu.sealed) + 1
		if l.mu.retired != nil {
			out.Segments++
		}
		if l.mu.poison != nil {
			out.PoisonedLogs++
		}
		l.mu.Unlock()
	}
	return out
}
