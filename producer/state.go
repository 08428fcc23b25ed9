package producer

import (
	"fmt"
	"math"

	"felix.local/felix/segment"
)

// How much is remembered. Both are part of the format: copies of a log have to
// forget alike.
const (
	// BatchesMax is how many of its newest batches a producer keeps.
	BatchesMax = 64
	// ProducersMax is how many producers a log keeps.
	ProducersMax = 4096
)

// Options of a State; the zero value is safe.
type Options struct {
	// Digests has the digest of every batch computed from its payloads, at the
	// price of a CRC-64 over them. Only snapshots of version 2 keep it. Default:
	// off, and every digest of a batch observed is unknown.
	Digests bool
}

// openBatch is the batch at the tail that waits for records.
type openBatch struct {
	waiting            bool
	producer, sequence uint64
	first              uint64
	digest             Digest
	len, held          uint32
}

// end is the offset of the record that would continue it.
func (o openBatch) end() uint64 { return o.first + uint64(o.held) }

// State is what a log knows about its producers. The zero value is the state of
// an empty log, without digests. See the package for who protects it; it must not be copied.
type State struct {
	options                  Options
	producersMax, batchesMax int // 0 stands for the constants

	// next is one past the last offset observed.
	next    uint64
	open    openBatch
	windows map[uint64]*window
	order   order
	journal journal
}

// New gives the state of an empty log.
func New(o Options) *State { return &State{options: o} }

// newBounded is New with other bounds.
func newBounded(o Options, producersMax, batchesMax int) *State {
	return &State{options: o, producersMax: producersMax, batchesMax: batchesMax}
}

func (s *State) maxProducers() int {
	if s.producersMax == 0 {
		return ProducersMax
	}
	return s.producersMax
}

func (s *State) maxBatches() int {
	if s.batchesMax == 0 {
		return BatchesMax
	}
	return s.batchesMax
}

// Len is the number of producers with a batch in the log.
func (s *State) Len() int { return len(s.windows) }

// Observe takes in the record at offset. The payload is looked at only with
// Options.Digests, and not kept. Records come in ascending order; an offset that
// is below one observed before is a bug of the caller and panics. Offsets may be
// left out where no marked record can be.
//
// A batch opened with a length of 0 counts as one of 1.
func (s *State) Observe(offset uint64, mark segment.Mark, payload []byte) {
	if offset < s.next {
		panic(fmt.Sprintf("producer: offset %d observed, the state holds everything below %d", offset, s.next))
	}
	s.next = offset + 1
	switch mark.Kind {
	case segment.BatchOpen:
		s.open = openBatch{
			waiting: true, producer: mark.Producer, sequence: mark.Sequence,
			first: offset, len: mark.Len, digest: Digest{Known: true},
		}
		s.hold(payload)
	case segment.BatchContinue:
		if s.open.waiting && s.open.end() == offset {
			s.hold(payload)
		} else {
			// The record that opened its batch is not in this log.
			s.open = openBatch{}
		}
	default:
		if s.open.waiting {
			s.open = openBatch{}
		}
	}
}

// hold adds a record to the open batch and completes it with its last.
func (s *State) hold(payload []byte) {
	o := &s.open
	o.held++
	if s.options.Digests {
		o.digest = o.digest.With(payload)
	} else {
		o.digest = Digest{}
	}
	if o.held >= o.len {
		s.complete(o.producer, o.sequence, batch{first: o.first, len: o.held, digest: o.digest})
		s.open = openBatch{}
	}
}

// complete remembers a batch that the log holds all of. A sequence that does not
// follow the producer's last makes what was known of it worthless: the window
// has no gaps, and answers by counting back from the last.
func (s *State) complete(producer, sequence uint64, b batch) {
	w := s.windows[producer]
	if w != nil && (w.last == math.MaxUint64 || sequence != w.last+1) {
		s.forget(w)
		w = nil
	}
	if w == nil {
		w = &window{known: known{id: producer, last: sequence}}
		w.push(b, s.maxBatches())
		s.link(s.order.newest, w)
		s.journal.added(w)
		if len(s.windows) > s.maxProducers() {
			s.forget(s.order.oldest)
		}
		return
	}
	step := undo{kind: undoExtended, w: w, prev: w.older, last: w.last}
	step.dropped, step.full = w.push(b, s.maxBatches())
	w.last = sequence
	s.order.remove(w)
	s.order.insertAfter(s.order.newest, w)
	s.journal.note(step)
}

// link makes w known, behind prev in the order.
func (s *State) link(prev, w *window) {
	if s.windows == nil {
		s.windows = make(map[uint64]*window)
	}
	s.windows[w.id] = w
	s.order.insertAfter(prev, w)
}

// unlink is the opposite of link.
func (s *State) unlink(w *window) {
	delete(s.windows, w.id)
	s.order.remove(w)
}

// forget drops a producer, which can be undone.
func (s *State) forget(w *window) {
	s.journal.note(undo{kind: undoForgotten, w: w, prev: w.older})
	s.unlink(w)
}

// Settle says that the log ends at tail: a batch that waits for a record below it
// was abandoned. Call it after the records of a log were observed, if any could
// have been left out.
func (s *State) Settle(tail uint64) {
	if s.open.waiting && s.open.end() < tail {
		s.open = openBatch{}
	}
	s.next = max(s.next, tail)
}

// Prune forgets what begins below base, the oldest offset the log still has, and
// the producers with nothing left. It holds for good: rolling back to a
// checkpoint from before does not bring anything below base back.
func (s *State) Prune(base uint64) {
	s.journal.pruned(base)
	if s.open.waiting && s.open.first < base {
		s.open = openBatch{}
	}
	for w := s.order.oldest; w != nil; {
		newer := w.newer
		w.prune(base)
		if w.n == 0 {
			s.unlink(w)
		}
		w = newer
	}
}
