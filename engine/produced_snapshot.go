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

// snapshot gives the bytes of the file as of asOf, the staged tail: this is the one
// moment at which the state is that of the records below it and no others. nil
// stands for the snapshot of a log that knows no producers.
func (p *produced) snapshot(asOf uint64, digests bool) []byte {
	if !p.known {
		return nil
	}
	return p.state.AppendTo(nil, asOf, snapshotVersion(digests))
}

// saveProducers writes the snapshot that a roll took, once the retired segment is
// sealed: it never tells of records that a power loss can take. It is written
// without a flush, and also when it knows nobody; an open that found none would
// read every sealed segment to learn that.
//
// A failure costs a longer open and nothing else.
func (l *Log) saveProducers(asOf uint64, snapshot []byte) {
	if snapshot == nil {
		snapshot = producer.New(producer.Options{}).AppendTo(nil, asOf, snapshotVersion(l.cfg.ProducerDigests))
	}
	err := sidecar.Replace(l.store.fs, l.store.queue, l.dir, ProducersName, snapshot, l.cfg.FileMode, false)
	if device.ClassOf(err) == device.ClassOutcomeUnknown {
		l.store.backendLost(err)
	}
	if err != nil {
		l.store.counters.producersWriteFailures.Add(1)
		l.store.logger.Warn("the snapshot of producers could not be written; the next open takes longer", "log", l.label, "error", err)
	}
}
