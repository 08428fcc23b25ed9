package engine_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"felix.local/felix/engine"
)

func TestALogBeginsAnewWhereItIsResetTo(t *testing.T) {
	eachMode(t, func(t *testing.T, choose func(*engine.Config)) {
		for _, base := range []uint64{0, 3, 18, 1000} {
			for _, background := range []int{100, 50} {
				follower := new(recorder)
				r := newRig(t, choose, smallSegments, func(c *engine.Config) { c.RolloverThresholdPercent = background })
				r.must(r.log.Close(r.ctx))
				var err error
				r.log, err = r.store.OpenLogWith(r.ctx, testKey(0), engine.LogOptions{Follower: follower})
				r.must(err)
				r.historyOf()
				r.accept(4, "a")
				r.must(r.log.ResetTo(r.ctx, base))
				if b, tail := r.log.BaseOffset(), r.log.TailOffset(); b != base || tail != base || follower.next.Load() != base {
					t.Errorf("reset to %d the log holds [%d, %d), a follower knows %d", base, b, tail, follower.next.Load())
				}
				r.wantGenerations()
				r.wantPromise(4, "a", false)
				r.must(r.log.RecordGeneration(r.ctx, 4, base))
				for range 9 {
					r.appendSizes(100)
				}
				r.reopen()
				if b, tail := r.log.BaseOffset(), r.log.TailOffset(); b != base || tail != base+9 {
					t.Errorf("after nine records and a restart it holds [%d, %d)", b, tail)
				}
				r.checkPayloads(func(uint64) int { return 100 })
				r.wantGenerations(epoch(4, base))
				r.wantPromise(4, "a", false)
				r.checkChain()
			}
		}
	})
}

func TestAnEmptyLogIsResetToAnotherBase(t *testing.T) {
	r := newRig(t)
	for _, base := range []uint64{50, 50, 7, 0} {
		r.must(r.log.ResetTo(r.ctx, base))
		r.reopen()
		r.must(r.log.RecordGeneration(r.ctx, 3, base))
		if b, tail := r.log.BaseOffset(), r.log.TailOffset(); b != base || tail != base {
			t.Errorf("reset to %d the log holds [%d, %d)", base, b, tail)
		}
	}
}

// A power loss in a reset leaves the beginning of what was held, rightly labelled,
// or an empty log at the old base or the new one; once it returned, the latter.
func TestAPowerLossInAResetLeavesTheOldBeginningOrTheNewBase(t *testing.T) {
	for _, base := range []uint64{0, 2, 10, 40} {
		for _, filled := range []bool{true, false} {
			t.Run(fmt.Sprintf("to %d, filled %v", base, filled), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newSimRig(t, smallSegments)
					old := uint64(0)
					if filled {
						r.historyOf()
						if _, err := r.log.TrimBefore(r.ctx, 5); err != nil {
							t.Fatal(err)
						}
						old = r.log.BaseOffset()
					}
					returned := false
					seen := make(map[string]int)
					r.eachImage(func() error {
						err := r.log.ResetTo(r.ctx, base)
						synctest.Wait() // for what goes on in the background, which looks at this too
						returned = true
						return err
					}, func(image *rig) {
						b, tail := image.log.BaseOffset(), image.log.TailOffset()
						generations := len(image.log.Generations())
						switch {
						case b == base && tail == base && generations == 0:
							seen["new"]++
						case returned:
							t.Errorf("after a reset to %d the log holds [%d, %d) and %d generations", base, b, tail, generations)
						case b == old:
							image.labelled()
							seen["old"]++
						default:
							t.Errorf("a power loss in a reset of a log from %d on to %d leaves [%d, %d) and %d generations", old, base, b, tail, generations)
						}
						// What is there can be used.
						image.appendSizes(100)
						image.nonePastTheTail()
					})
					if seen["new"] == 0 || seen["old"] == 0 && base != old {
						t.Error(seen)
					}
				})
			})
		}
	}
}

func TestAppendsWaitWhileALogIsReset(t *testing.T) {
	r := newRig(t, smallSegments)
	var publishers sync.WaitGroup
	for range 4 {
		publishers.Go(func() {
			for range 50 {
				if _, err := r.log.Append(r.ctx, engine.Record{Payload: make([]byte, 90)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for base := range uint64(20) {
		r.must(r.log.ResetTo(r.ctx, base*1000))
	}
	publishers.Wait()
	r.readAll()
	r.checkChain()
	r.reopen()
	r.readAll()
}
