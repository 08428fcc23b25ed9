package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/segment"
)

// One directory is written by the ring and the pool in turns, another by the pool
// alone; in the end every file is the same, with its mode.
func TestC232RingAndPoolLeaveTheSameBytes(t *testing.T) {
	needRing(t)
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
		t.Run("inline rolls", func(t *testing.T) {
			sameBytes(t, func(r *rig, sitting uint64) {
				random := rand.New(rand.NewPCG(seed, sitting))
				for range 40 {
					batch := make([]int, 1+random.IntN(3))
					for i := range batch {
						batch[i] = random.IntN(900)
					}
					r.appendSizes(batch...)
				}
				if sitting == 3 {
					if err := r.log.Truncate(r.ctx, r.log.TailOffset()-5); err != nil {
						t.Fatal(err)
					}
				}
				if sitting == 4 {
					if _, err := r.log.Seal(r.ctx); err != nil {
						t.Fatal(err)
					}
				}
			}, mode)
		})
		// A background roll happens at the next append after its preparation, which
		// is a matter of time. Here the threshold is passed only by the record that
		// fills the segment, so that the next one rolls whether or not the
		// preparation is through, and boundaries do not depend on time.
		t.Run("background rolls", func(t *testing.T) {
			const size = 200
			sameBytes(t, func(r *rig, _ uint64) {
				rolls := r.store.Stats().RollsBackground
				for range 30 {
					r.appendSizes(size)
				}
				if r.store.Stats().RollsBackground == rolls {
					t.Error("no roll was in the background")
				}
			}, mode, func(c *engine.Config) {
				c.SegmentBytes = segment.HeaderSize + 5*(segment.RecordHeaderSize+size)
				c.RolloverThresholdPercent = 90
				c.MaxOvershootPercent = 0
			})
		})
	})
}

func sameBytes(t *testing.T, write func(r *rig, sitting uint64), change ...func(*engine.Config)) {
	t.Helper()
	const restarts = 6
	run := func(mode func(sitting int) engine.IOURingMode) map[string]string {
		choose := func(sitting int) func(*engine.Config) {
			return func(c *engine.Config) { c.IOURing = mode(sitting) }
		}
		r := newRigIn(t, t.TempDir(), append(change, choose(0))...)
		for sitting := range restarts {
			if want := backendName(mode(sitting)); r.store.Backend().Name != want {
				t.Fatalf("sitting %d runs on the %s", sitting, r.store.Backend().Name)
			}
			write(r, uint64(sitting))
			r.reopen(choose(sitting + 1))
		}
		r.close()
		return snapshot(t, r.root)
	}
	pool := run(func(int) engine.IOURingMode { return engine.IOURingOff })
	both := run(func(sitting int) engine.IOURingMode {
		if sitting%2 == 0 {
			return engine.IOURingRequire
		}
		return engine.IOURingOff
	})
	if len(pool) < 20 {
		t.Fatalf("only %d files to compare", len(pool))
	}
	sameFiles(t, pool, both)
}

func TestReopeningAndClosingChangesNoByte(t *testing.T) {
	onBoth(t, func(t *testing.T, backend func(*engine.Config)) {
		eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
			for _, threshold := range []int{100, 60} {
				t.Run(fmt.Sprintf("threshold %d", threshold), func(t *testing.T) {
					r := newRigIn(t, t.TempDir(), backend, mode, func(c *engine.Config) { c.RolloverThresholdPercent = threshold })
					for i := range 60 {
						r.appendSizes(i * 10)
					}
					r.close()
					want := snapshot(t, r.root)
					for range 2 {
						r.open()
						r.close()
						sameFiles(t, want, snapshot(t, r.root))
					}
				})
			}
		})
	})
}
