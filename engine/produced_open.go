package engine

import (
	"context"
	"fmt"

	"felix.local/felix/producer"
	"felix.local/felix/segment"
	"felix.local/felix/sidecar"
)

// producersAtOpen gathers what is known of producers while a log is recovered: the
// snapshot, which is read first, and what the marks of the newest segments add to
// it, which recovery reads whole in any case.
type producersAtOpen struct {
	// file is what was read; it is there, but not usable, when snapshot says nothing.
	there    bool
	file     []byte
	problem  error // why the file says nothing
	snapshot producerSnapshot
	walks    map[uint64]*producersWalk
}

// producerSnapshot is a state as of an offset; the zero value is that of a log
// before its first record.
type producerSnapshot struct {
	bytes []byte // nil for none
	asOf  uint64
}

// producersWalk is what the marks of one segment make of the snapshot, or of
// nothing.
type producersWalk struct {
	state *producer.State
	known bool
	// continued: the walk began with the snapshot, as of the segment's base.
	continued bool
	// midway: the first marked record continues a batch that began before the walk,
	// and stands where it began.
	midway bool
}

// producerOptions: digests are kept in memory in any case, so that a sequence that
// is used again for other records is noticed.
func producerOptions() producer.Options { return producer.Options{Digests: true} }

// readProducers reads the snapshot in a shard's directory. One that cannot be read
// is one that is of no use.
func (s *Store) readProducers(dir string) *producersAtOpen {
	a := &producersAtOpen{walks: make(map[uint64]*producersWalk)}
	a.file, a.problem = sidecar.Read(s.fs, dir, ProducersName, producer.SnapshotBytesMax)
	a.there = a.file != nil || a.problem != nil
	if a.problem != nil || a.file == nil {
		return a
	}
	var asOf uint64
	if _, asOf, a.problem = producer.Decode(a.file, producerOptions()); a.problem == nil {
		a.snapshot = producerSnapshot{bytes: a.file, asOf: asOf}
	}
	return a
}

// noProducers is what is known of a log without records.
func noProducers() *producersWalk { return &producersWalk{state: producer.New(producerOptions())} }

// state gives the state of a snapshot, which was decoded before, and whether it
// knows anybody.
func (p producerSnapshot) state() (*producer.State, bool) {
	if p.bytes == nil {
		return noProducers().state, false
	}
	state, _, err := producer.Decode(p.bytes, producerOptions())
	if err != nil {
		panic("engine: a snapshot of producers does not decode a second time: " + err.Error())
	}
	nobody := producer.New(producer.Options{}).AppendTo(nil, 0, producer.SnapshotV1)
	return state, len(p.bytes) > len(nobody)
}

// fits says whether a snapshot describes a log of these segments: the records
// below asOf are those that it was taken of. A snapshot is taken when a segment
// begins, so as_of is the base of one of them; or it is the tail, when that
// segment was lost with the records it had. Anything else is damage, which the
// checksum does not cover.
func (p producerSnapshot) fits(segments []segment.Descriptor) bool {
	tail := segments[len(segments)-1].NextOffset
	if p.bytes == nil || !producer.Usable(p.asOf, segments[0].BaseOffset, tail) {
		return false
	}
	for _, d := range segments {
		if d.BaseOffset == p.asOf {
			return true
		}
	}
	return p.asOf == tail
}

// marked is recovery's Policy.Marked.
func (a *producersAtOpen) marked(id, base uint64) func(segment.Record) {
	w := noProducers()
	if a.snapshot.bytes != nil && a.snapshot.asOf == base {
		w.continued = true
		w.state, w.known = a.snapshot.state()
	}
	a.walks[id] = w
	return func(r segment.Record) {
		w.known = true
		w.state.Observe(r.Offset, r.Mark, r.Payload)
	}
}

// loadProducers makes the state of a log that was just recovered.
//
// A snapshot that is not usable is deleted first, and durably: the log may grow
// past its as_of again, and then it would be taken for one of records that
// replaced those it describes.
func (l *Log) loadProducers(a *producersAtOpen) error {
	segments := l.Segments()
	if a.there && !a.snapshot.fits(segments) {
		l.store.logger.Warn("the snapshot of producers is not usable and is removed", "log", l.label, "cause", a.why(segments))
		if err := sidecar.Remove(l.store.fs, l.store.queue, l.dir, ProducersName); err != nil {
			return err
		}
		a.snapshot = producerSnapshot{}
	}
	w, err := l.producersAfter(a, segments)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w.state.Settle(l.mu.active.next)
	w.state.Prune(l.baseLocked())
	l.mu.produced.replace(w)
	return nil
}

func (a *producersAtOpen) why(segments []segment.Descriptor) string {
	if a.problem != nil {
		return a.problem.Error()
	}
	return fmt.Sprintf("as of offset %d, which is not where a segment of the log [%d, %d) begins",
		a.snapshot.asOf, segments[0].BaseOffset, segments[len(segments)-1].NextOffset)
}

// producersAfter continues the snapshot to the tail. When it is current, all that
// is missing are the marks of the active segment, and recovery has read those.
func (l *Log) producersAfter(a *producersAtOpen, segments []segment.Descriptor) (*producersWalk, error) {
	newest := len(segments) - 1
	active, sealed := segments[newest], toReplay(a.snapshot, segments[:newest])
	w := a.walks[active.ID]
	if w != nil && len(sealed) == 0 && w.continued == (a.snapshot.bytes != nil) {
		return w, nil
	}
	if len(sealed) > 0 {
		l.store.counters.producersRebuilt.Add(1)
		l.store.logger.Info("what is known of producers is read from the log", "log", l.label,
			"segments", len(sealed)+1, "from", sealed[0].BaseOffset)
	}
	return l.replayProducers(context.Background(), a.snapshot, segments) // an open that got here ends
}

// toReplay are the segments with records past a snapshot that may hold marks.
func toReplay(p producerSnapshot, segments []segment.Descriptor) []segment.Descriptor {
	var out []segment.Descriptor
	for _, d := range segments {
		if d.NextOffset > p.asOf && d.Version >= segment.RequiredVersion(segment.BatchOpen) {
			out = append(out, d)
		}
	}
	return out
}
