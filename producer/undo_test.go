package producer

import (
	"fmt"
	"testing"

	"felix.local/felix/segment"
)

// TestAppendsUnderWayAreUndoneExactly plays a log with a few appends always under
// way, of which the oldest succeeds or, with all behind it, fails.
func TestAppendsUnderWayAreUndoneExactly(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			r := newRig(false, 30, 3)
			f := newTraffic(seed, 40)
			var underWay []held
			for range 2000 {
				underWay = append(underWay, held{r.state.Checkpoint(), r.model.tail})
				for range 1 + f.random.IntN(3) {
					f.step(r)
				}
				switch {
				case f.random.IntN(6) == 0:
					at := f.random.IntN(len(underWay))
					r.state.Rollback(underWay[at].cp)
					r.model.cut(underWay[at].tail)
					underWay = underWay[:at]
					r.check(t)
				case len(underWay) > 4:
					r.state.Forget(underWay[0].cp)
					underWay = underWay[1:]
				case f.random.IntN(20) == 0:
					oldest := underWay[0].tail
					r.prune(oldest - min(oldest, uint64(f.random.IntN(60))))
				}
				if n := cap(r.state.journal.steps); n > 128 {
					t.Fatalf("the journal has room for %d steps", n)
				}
			}
			r.check(t)
		})
	}
}

func TestAnEndedCheckpointCannotBeReturnedTo(t *testing.T) {
	var s State
	first, second := s.Checkpoint(), s.Checkpoint()
	s.Rollback(first)
	mustPanic(t, func() { s.Rollback(first) })
	mustPanic(t, func() { s.Rollback(second) })
	third, fourth := s.Checkpoint(), s.Checkpoint()
	s.Forget(third)
	s.Forget(third)
	s.Forget(first)
	mustPanic(t, func() { s.Rollback(third) })
	s.Rollback(fourth)
	checkInvariants(t, &s)
}

func TestForgettingACheckpointForgetsTheOlderOnes(t *testing.T) {
	r := newRig(false, ProducersMax, BatchesMax)
	first := r.state.Checkpoint()
	r.batch(1, 0, 1, 0, 1)
	second := r.state.Checkpoint()
	r.batch(1, 1, 1, 0, 1)
	third := r.state.Checkpoint()
	r.batch(1, 2, 1, 0, 1)
	r.state.Forget(second)
	mustPanic(t, func() { r.state.Rollback(first) })
	r.state.Rollback(third)
	r.model.cut(2)
	r.check(t)
}

// Each is something that pruning meets of what is undone afterwards.
func TestWhatWasPrunedStaysPrunedAfterARollback(t *testing.T) {
	for name, play := range map[string]func(r *rig){
		"a batch that had left its full window": func(r *rig) { r.batch(1, 2, 1, 0, 1) },
		"a producer that had been evicted":      func(r *rig) { r.batch(4, 0, 1, 0, 1); r.batch(5, 0, 1, 0, 1) },
		"a window that a gap had cleared":       func(r *rig) { r.batch(2, 9, 1, 0, 1) },
		"the producer before in the order":      func(r *rig) { r.batch(3, 1, 1, 0, 1); r.batch(2, 1, 1, 0, 1) },
		"a batch that was open":                 func(r *rig) { r.plain() },
		"nothing":                               func(*rig) {},
	} {
		for base := range uint64(8) {
			t.Run(fmt.Sprintf("%s, base %d", name, base), func(t *testing.T) {
				r := newRig(false, 4, 2)
				r.batch(1, 0, 1, 0, 1) // offset 0
				r.batch(1, 1, 1, 0, 1)
				r.batch(2, 0, 1, 0, 1)
				r.batch(3, 0, 2, 0, 2) // offsets 3 and 4
				r.batch(6, 0, 3, 0, 2) // offsets 5 and 6
				cp := r.state.Checkpoint()
				play(r)
				r.prune(base)
				r.check(t)
				r.state.Rollback(cp)
				r.model.cut(7)
				r.check(t)
				r.batch(6, 0, 3, 2, 3)
				r.batch(1, 2, 1, 0, 1)
				r.check(t)
			})
		}
	}
}

// Retention never gets there; if it does, the answer is that of the log.
func TestPruningPastACheckpointLeavesAStateThatWorks(t *testing.T) {
	for base := range uint64(10) {
		r := newRig(false, 2, 2)
		r.batch(1, 0, 1, 0, 1)
		cp := r.state.Checkpoint()
		r.batch(1, 1, 1, 0, 1)
		r.batch(1, 2, 1, 0, 1)
		r.batch(2, 0, 1, 0, 1)
		r.batch(3, 0, 1, 0, 1)
		r.batch(1, 5, 1, 0, 1)
		r.prune(base)
		r.check(t)
		r.state.Rollback(cp)
		r.model.cut(1)
		r.check(t)
	}
}

func TestARollbackGivesBackTheOffsets(t *testing.T) {
	var s State
	s.Observe(0, segment.Mark{}, nil)
	cp := s.Checkpoint()
	s.Observe(1, segment.Mark{}, nil)
	s.Settle(9)
	s.Rollback(cp)
	s.Observe(1, Marks(1, 0, 1)(0), nil)
	if got := s.Classify(1, 0); got.Verdict != Held || got.First != 1 {
		t.Fatalf("%+v", got)
	}
}
