package producer

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
)

// What a view says is what the state said when it was taken, whatever the state goes
// through meanwhile, and while somebody reads the view beside it.
func TestAViewStaysWhatTheStateWas(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			r := newRig(false, 30, 3)
			f := newTraffic(seed, 40)
			type taken struct {
				view *View
				asOf uint64
				want []byte
			}
			var views []taken
			var readers sync.WaitGroup
			defer readers.Wait()
			for range 300 {
				before := held{r.state.Checkpoint(), r.model.tail}
				for range 1 + f.random.IntN(8) {
					f.step(r)
				}
				if f.random.IntN(3) == 0 {
					r.state.Rollback(before.cp)
					r.model.cut(before.tail)
				} else {
					r.state.Forget(before.cp)
				}
				if f.random.IntN(4) == 0 {
					r.prune(r.model.tail - min(r.model.tail, uint64(f.random.IntN(90))))
				}
				v := taken{r.state.View(), r.model.tail, r.model.state().snapshot(r.model.tail, SnapshotV2)}
				views = append(views, v)
				readers.Go(func() {
					if !bytes.Equal(v.view.AppendTo(nil, v.asOf, SnapshotV2), v.want) {
						t.Errorf("the view as of %d is not what the state was", v.asOf)
					}
				})
			}
			r.check(t)
			for _, v := range views {
				if !bytes.Equal(v.view.AppendTo(nil, v.asOf, SnapshotV2), v.want) {
					t.Errorf("the view as of %d is not what the state was, in the end", v.asOf)
				}
			}
		})
	}
}

// A producer's batches are copied once for a view, however many come after it.
func TestWhatAViewReadsIsCopiedOnce(t *testing.T) {
	s, tail := full()
	v := s.View()
	tail = observeRound(s, tail, BatchesMax+1)
	if n := testing.AllocsPerRun(100, func() { tail = observeRound(s, tail, 1) }); n != 0 {
		t.Errorf("%v allocations for batches of producers that were copied", n)
	}
	if got := len(v.producers); got != ProducersMax {
		t.Errorf("the view has %d producers", got)
	}
}

// observeRound has the next batch of 16 producers observed, n times.
func observeRound(s *State, tail uint64, n int) uint64 {
	for range n {
		for id := range uint64(16) {
			next, _ := s.NextSequence(id)
			s.Observe(tail, Marks(id, next, 1)(0), nil)
			tail++
		}
	}
	return tail
}

// BenchmarkView is what a log's lock is held for when a state at all bounds is to be
// saved, and BenchmarkSnapshot what it is held for to encode it there.
func BenchmarkView(b *testing.B) {
	s, _ := full()
	for b.Loop() {
		s.View()
	}
}

// BenchmarkObserveBehindAView is a batch of a producer whose batches a view reads,
// one of all producers after the other, with a view of its own for each round.
func BenchmarkObserveBehindAView(b *testing.B) {
	s, tail := full()
	id := uint64(0)
	for b.Loop() {
		if id %= ProducersMax; id == 0 {
			b.StopTimer()
			s.View()
			b.StartTimer()
		}
		next, _ := s.NextSequence(id)
		s.Observe(tail, Marks(id, next, 1)(0), nil)
		tail++
		id++
	}
}
