package engine

import (
	"felix.local/felix/device"
	"felix.local/felix/producer"
	"felix.local/felix/sidecar"
)

// ProducersName is the file in a shard's directory that holds a snapshot of what
// is known of producers.
const ProducersName = "producers"

// snapshotVersion is what snapshots are written at.
func snapshotVersion(digests bool) uint16 {
	if digests {
		return producer.SnapshotV2
	}
	return producer.SnapshotV1
}

// viewForRollLocked is what a roll that is being staged has to save: at the staged
// tail, which its segment begins at, the state is that of the records below and of no
// others, and at no other moment.
//
// Of the rolls that are staged only the newest has one, so that a log with segments
// smaller than what it stages does not hold a view for each: its snapshot takes the
// place of theirs anyhow.
func (l *Log) viewForRollLocked() *producer.View {
	for _, b := range l.mu.staged {
		b.producers = nil
	}
	if !l.mu.produced.known {
		return new(producer.State).View()
	}
	return l.mu.produced.state.View()
}

// writeProducers replaces the snapshot. It is written without a flush, and also when
// it knows nobody; an open that found none would read every sealed segment to learn
// that.
//
// A failure costs a longer open and nothing else.
func (l *Log) writeProducers(p producersAsOf) {
	snapshot := p.view.AppendTo(nil, p.offset, snapshotVersion(l.cfg.ProducerDigests))
	err := sidecar.Replace(l.store.fs, l.store.queue, l.dir, ProducersName, snapshot, l.cfg.FileMode, false)
	if device.ClassOf(err) == device.ClassOutcomeUnknown {
		l.store.backendLost(err)
	}
	if err != nil {
		l.store.counters.producersWriteFailures.Add(1)
		l.store.logger.Warn("the snapshot of producers could not be written; the next open takes longer", "log", l.label, "error", err)
	}
}
