package producer

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"

	"felix.local/felix/segment"
)

// testingT is what testing.T and rapid.T have in common.
type testingT interface {
	Helper()
	Fatalf(format string, args ...any)
}

// rig is a state and the model that it has to agree with.
type rig struct {
	state *State
	model model
}

func newRig(digests bool, producersMax, batchesMax int) *rig {
	return &rig{
		state: newBounded(Options{Digests: digests}, producersMax, batchesMax),
		model: model{digests: digests, producersMax: producersMax, batchesMax: batchesMax},
	}
}

func (r *rig) observe(mark segment.Mark, payload []byte) {
	offset := r.model.observe(mark, payload)
	r.state.Observe(offset, mark, payload)
}

// batch observes the records [from, to) of a batch of n.
func (r *rig) batch(producer, sequence uint64, n, from, to uint32) {
	mark := Marks(producer, sequence, n)
	for i := from; i < to; i++ {
		r.observe(mark(i), fmt.Appendf(nil, "%d/%d/%d", producer, sequence, i))
	}
}

func (r *rig) plain() { r.observe(segment.Mark{}, []byte("plain")) }

// leaveOut is records that carry no mark and are not observed.
func (r *rig) leaveOut(n uint64) {
	r.model.tail += n
	r.state.Settle(r.model.tail)
}

func (r *rig) prune(base uint64) {
	r.model.prune(base)
	r.state.Prune(base)
}

// check compares everything that can be seen.
func (r *rig) check(t testingT) {
	t.Helper()
	checkAgainst(t, r.state, r.model.state(), r.model.tail)
}

func checkAgainst(t testingT, s *State, want *modelState, tail uint64) {
	t.Helper()
	checkInvariants(t, s)
	for _, version := range []uint16{SnapshotV1, SnapshotV2} {
		a, b := want.snapshot(tail, version), s.AppendTo(nil, tail, version)
		if !bytes.Equal(a, b) {
			t.Fatalf("snapshots of version %d differ\nwant\n%sgot\n%s", version, hex.Dump(a), hex.Dump(b))
		}
	}
	if s.Len() != len(want.batches) {
		t.Fatalf("%d producers, want %d", s.Len(), len(want.batches))
	}
	for _, id := range append(want.producers(), 1<<40) {
		last, known := want.last[id]
		next, ok := s.NextSequence(id)
		if ok != known || ok && next != last+1 {
			t.Fatalf("next sequence of %d is %d, %v; want the one after %d, %v", id, next, ok, last, known)
		}
		checkClass(t, s, want, id, last-min(last, uint64(len(want.batches[id]))+2), last+3)
	}
	if o := want.open; o != nil {
		checkClass(t, s, want, o.producer, o.sequence, o.sequence+1)
	}
}

// checkClass compares the answers for sequences from to to.
func checkClass(t testingT, s *State, want *modelState, id, from, to uint64) {
	t.Helper()
	for sequence := from; sequence <= to; sequence++ {
		if a, b := want.classify(id, sequence), s.Classify(id, sequence); a != b {
			t.Fatalf("producer %d sequence %d is %+v, want %+v", id, sequence, b, a)
		}
	}
}

// checkInvariants looks inside.
func checkInvariants(t testingT, s *State) {
	t.Helper()
	n, end := 0, uint64(0)
	var older *window
	for w := s.order.oldest; w != nil; older, w = w, w.newer {
		n++
		if s.windows[w.id] != w || !w.linked || w.older != older {
			t.Fatalf("producer %d is not linked as it has to be", w.id)
		}
		if w.n < 1 || w.n > s.maxBatches() || len(w.ring) > s.maxBatches() {
			t.Fatalf("producer %d has %d batches in room for %d", w.id, w.n, len(w.ring))
		}
		if newest := w.newest().end(); newest <= end {
			t.Fatalf("producer %d ends at %d, the one before it at %d", w.id, newest, end)
		} else {
			end = newest
		}
	}
	if n != len(s.windows) || s.order.newest != older || n > s.maxProducers() {
		t.Fatalf("%d producers in the order, %d in the map", n, len(s.windows))
	}
	for _, u := range s.journal.steps[len(s.journal.steps):cap(s.journal.steps)] {
		if u != (undo{}) {
			t.Fatalf("a step that is over keeps producer %d", u.w.id)
		}
	}
	if len(s.journal.points) == 0 && (len(s.journal.steps) != 0 || s.journal.base != 0) {
		t.Fatalf("without a checkpoint %d steps are kept", len(s.journal.steps))
	}
}

// traffic makes the next records of a log with many producers, most of which
// behave.
type traffic struct {
	random    *rand.Rand
	producers int
	sequences map[uint64]uint64
}

func newTraffic(seed uint64, producers int) *traffic {
	return &traffic{random: rand.New(rand.NewPCG(seed, 0)), producers: producers, sequences: map[uint64]uint64{}}
}

// step observes one batch, or something that is none.
func (f *traffic) step(r *rig) {
	id := uint64(f.random.IntN(f.producers)) * 0x9e3779b97f4a7c15
	n := 1 + uint32(f.random.IntN(4))
	sequence := f.sequences[id]
	switch f.random.IntN(20) {
	case 0:
		r.plain()
	case 1: // records without the one that opens them
		r.batch(id, sequence, n+1, 1, n+1)
	case 2: // abandoned
		r.batch(id, sequence, n+1, 0, n)
		r.batch(id, sequence, n+1, 0, n+1)
		f.sequences[id]++
	case 3: // sent again, from some sequence before
		f.sequences[id] -= min(sequence, uint64(f.random.IntN(4)))
	case 4: // a gap
		f.sequences[id] += uint64(f.random.IntN(3))
	case 5:
		r.observe(segment.Mark{Kind: segment.GenerationStart}, segment.GenerationStartPayload(sequence))
	case 6:
		r.leaveOut(1 + uint64(f.random.IntN(3)))
	case 7: // left open
		r.batch(id, sequence, n+3, 0, n)
		f.sequences[id]++
	default:
		r.batch(id, sequence, n, 0, n)
		f.sequences[id]++
	}
}
