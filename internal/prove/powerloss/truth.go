package powerloss

import (
	"slices"

	"felix.local/felix/engine"
)

// truth is what was done to one shard, and what that promises. workload.mu guards
// it.
type truth struct {
	log *engine.Log
	// start is the offset that the log was made at.
	start uint64
	// want holds the payloads by offset, those under way included. What is in it
	// stays: images share it.
	want [][]byte
	// acked is one past the last offset acknowledged, durable one past the last
	// that a call which returned made durable.
	acked, durable uint64
	// bases are the beginnings of the segments seen, ascending. baseDurable is one
	// that the log has durably got to.
	bases       []uint64
	baseDurable uint64
	// cut is the offset of a truncation that is under way.
	cut *uint64
}

// expectation is what an image has to hold of a shard.
type expectation struct {
	// start is the offset that the log was made at.
	start uint64
	// want are the payloads by offset; more than that cannot be there.
	want [][]byte
	// held is one past the last offset that must be there, durable one past the
	// last that must be there if the power goes before the log is open.
	held, durable uint64
	// baseMin and baseMax bound where the log begins.
	baseMin, baseMax uint64
	// emptied is where an empty log may begin instead, because of a truncation.
	emptied *uint64
}

// promise gives what must survive a power loss now.
func (t *truth) promise(mode engine.FsyncMode) expectation {
	// Under on_commit a reader gets what is durable before its appender is told.
	e := expectation{held: max(t.durable, t.log.DurableOffset())}
	if mode == engine.FsyncOnCommit {
		e.held = max(e.held, t.acked)
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
	e.start, e.want = t.start, t.want
	e.baseMax = max(e.baseMin, t.log.BaseOffset())
	if t.cut != nil {
		e.held = min(e.held, *t.cut)
		if *t.cut <= e.baseMax {
			e.emptied = t.cut
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
