package powerloss

import (
	"slices"

	"felix.local/felix/engine"
	"felix.local/felix/segment"
)

// truth is what was done to one shard, and what that promises. workload.mu guards
// it.
type truth struct {
	log *engine.Log
	// start is the offset that the log was made at.
	start uint64
	// want holds the payloads by offset, those under way included as far as their
	// offsets are known. What is in it stays: images share it. submitted is one
	// past the last offset that an append may have got.
	want      [][]byte
	submitted uint64
	// read is one past the last offset that a reader got, got the records that are
	// to be compared at the next rest.
	read uint64
	got  []segment.Record
	// acked is one past the last offset acknowledged, durable one past the last
	// that a call which returned made durable.
	acked, durable uint64
	// bases are the beginnings of the segments seen, ascending. baseDurable is one
	// that the log has durably got to.
	bases       []uint64
	baseDurable uint64
	// cut is the offset of a truncation that is under way. anew is where the log
	// begins, empty, once what is under way is done.
	cut, anew *uint64
	// standing is what the log knows beside its records; nil where that is nothing.
	standing *standing
	// between says that log has been closed and its successor is not known yet.
	between bool
}

// newTruth is that of a shard to be made.
func newTruth(start uint64) *truth {
	return &truth{
		start: start, want: make([][]byte, start), submitted: start,
		acked: start, durable: start, read: start, baseDurable: start,
	}
}

// opened notes a new life of the shard.
func (t *truth) opened(l *engine.Log) {
	t.log, t.between = l, false
	t.segments()
}

// closed notes that a life ended well, which makes everything durable.
func (t *truth) closed() {
	t.durable, t.baseDurable, t.between = t.acked, t.log.BaseOffset(), true
	t.standing.closed()
}

// expectation is what an image has to hold of a shard.
type expectation struct {
	// start is the offset that the log was made at.
	start uint64
	// want are the payloads by offset; no more than written can be there.
	want    [][]byte
	written uint64
	// held is one past the last offset that must be there, durable one past the
	// last that must be there if the power goes before the log is open. vouched is
	// one past the last that was acknowledged or read, which a storage id that
	// stays vouches for.
	held, durable, vouched uint64
	// baseMin and baseMax bound where the log begins.
	baseMin, baseMax uint64
	// emptied is where an empty log may begin instead, because of a truncation, a
	// reset or a deletion.
	emptied *uint64
	// standing is what the log may know beside its records.
	standing *standingExpectation
}

// promise gives what must survive a power loss now.
func (t *truth) promise(mode engine.FsyncMode) expectation {
	e := expectation{held: t.durable, vouched: max(t.acked, t.read), standing: t.standing.expect()}
	if t.log == nil {
		return e
	}
	// Under on_commit a reader gets what is durable before its appender is told.
	e.held = max(e.held, t.log.DurableOffset())
	if mode == engine.FsyncOnCommit {
		e.held = max(e.held, e.vouched)
	}
	// A removal is durable before the next one begins, so that only the segment
	// before the first can be back.
	base := t.log.BaseOffset()
	e.baseMin = base
	for _, known := range t.bases {
		if known < base {
			e.baseMin = known
		}
	}
	e.baseMin = max(e.baseMin, t.baseDurable)
	return e
}

// complete adds to a promise what may be there, read after the crash.
func (t *truth) complete(e *expectation) {
	e.start, e.want, e.written = t.start, t.want, t.submitted
	t.standing.complete(e.standing)
	if e.baseMax = t.start; t.log != nil {
		e.baseMax = max(e.baseMin, t.log.BaseOffset())
	}
	if t.between {
		// The next life's retention may have begun; the newest segment stays.
		e.baseMax = max(e.baseMax, t.bases[len(t.bases)-1])
	}
	if t.cut != nil {
		e.held, e.vouched = min(e.held, *t.cut), min(e.vouched, *t.cut)
		if *t.cut <= e.baseMax {
			e.emptied = t.cut
		}
	}
	if t.anew != nil {
		e.emptied = t.anew
		if t.cut != nil { // what is left of the records begins where they did
			e.baseMin, e.baseMax = *t.cut, *t.cut
			e.standing.begins(*t.cut, *t.anew)
		} else {
			e.standing.deletes()
		}
	}
	e.durable = e.held
}

// segments notes which segments there are.
func (t *truth) segments() {
	for _, d := range t.log.Segments() {
		if at, known := slices.BinarySearch(t.bases, d.BaseOffset); !known {
			t.bases = slices.Insert(t.bases, at, d.BaseOffset)
		}
	}
}
