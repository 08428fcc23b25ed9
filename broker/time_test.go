package broker_test

import (
	"sync"
	"testing"

	"pgregory.net/rapid"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

// firstNotBefore is the offset for a time as a search from the oldest on finds it.
func firstNotBefore(stamps []uint64, base, micros uint64) uint64 {
	for at := base; at < uint64(len(stamps)); at++ {
		if stamps[at] >= micros {
			return at
		}
	}
	return uint64(len(stamps))
}

func TestTheOffsetForATimeIsWhatALinearSearchFinds(t *testing.T) {
	for what, set := range map[string]func(*broker.Config){
		"durable": func(c *broker.Config) {
			unflushed(c)
			tinyRing(c)
			c.Engine.IOURing = engine.IOURingOff
		},
		"in memory": inMemory,
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, set)
			rapid.Check(t, func(t *rapid.T) {
				s, _, err := r.b.CreateStream(r.ctx, name("s"), broker.StreamConfig{Durable: r.cfg.Root != ""})
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := r.b.DeleteStream(r.ctx, name("s")); err != nil {
						t.Fatal(err)
					}
				}()
				var stamps []uint64
				now := rapid.Uint64Range(1, 100).Draw(t, "first")
				for range rapid.IntRange(0, 12).Draw(t, "publishes") {
					batch := make([]broker.Message, rapid.IntRange(1, 9).Draw(t, "records"))
					for i := range batch {
						now += rapid.SampledFrom([]uint64{0, 0, 0, 1, 2, 50}).Draw(t, "step")
						batch[i].TimestampMicros = now
						stamps = append(stamps, now)
					}
					if _, err := s.Publish(r.ctx, broker.Explicit(0), batch...); err != nil {
						t.Fatal(err)
					}
				}
				base := rapid.Uint64Range(0, uint64(len(stamps))).Draw(t, "base")
				if _, err := s.DeleteRecords(r.ctx, 0, base); err != nil {
					t.Fatal(err)
				}
				for _, micros := range []uint64{0, 1, now - min(now, 1), now, now + 1, rapid.Uint64Range(0, now+60).Draw(t, "time")} {
					got, err := s.Resolve(r.ctx, 0, broker.AtTime(micros))
					if want := firstNotBefore(stamps, base, micros); err != nil || got != want {
						t.Fatalf("time %d of %v from %d on: %d, %v; want %d", micros, stamps, base, got, err, want)
					}
				}
			})
		})
	}
}

// Timestamps that fall make the question ambiguous, not the answer wrong: it is a
// record that is not older, and whose predecessor is.
func TestWithTimestampsThatFallTheOffsetIsStillOneWhereTheTimeIsCrossed(t *testing.T) {
	r := newRig(t, inMemory)
	s := r.create(name("s"), broker.StreamConfig{})
	stamps := []uint64{50, 10, 60, 20, 70, 30, 80, 5, 90, 1}
	for _, stamp := range stamps {
		if _, err := s.Publish(r.ctx, broker.Explicit(0), broker.Message{TimestampMicros: stamp}); err != nil {
			t.Fatal(err)
		}
	}
	for micros := range uint64(100) {
		at, err := s.Resolve(r.ctx, 0, broker.AtTime(micros))
		if err != nil {
			t.Fatal(err)
		}
		if at < uint64(len(stamps)) && stamps[at] < micros || at > 0 && stamps[at-1] >= micros {
			t.Errorf("time %d: offset %d of %v", micros, at, stamps)
		}
	}
}

// The records that the search looks at go away under it.
func TestASearchForATimeSurvivesWhatIsTrimmedUnderIt(t *testing.T) {
	for what, set := range map[string]func(*broker.Config){"durable": unflushed, "in memory": inMemory} {
		t.Run(what, func(t *testing.T) {
			const total = 2000
			r := newRig(t, set, func(c *broker.Config) { c.RingRecords = 64 })
			if r.cfg.Root == "" {
				r.cfg.RingRecords = total
				r.reopen()
			}
			s := r.create(name("s"), broker.StreamConfig{Durable: r.cfg.Root != ""})
			for at := uint64(0); at < total; at += 50 {
				batch := make([]broker.Message, 50)
				for i := range batch {
					batch[i] = broker.Message{Value: []byte(numbered(at + uint64(i))), TimestampMicros: 1000 + at + uint64(i)}
				}
				if _, err := s.Publish(r.ctx, broker.Explicit(0), batch...); err != nil {
					t.Fatal(err)
				}
			}
			var wait sync.WaitGroup
			done := make(chan struct{})
			wait.Go(func() {
				defer close(done)
				for offset := uint64(7); offset < total; offset += 13 {
					if _, err := s.DeleteRecords(r.ctx, 0, offset); err != nil {
						t.Error(err)
						return
					}
				}
			})
			for searched := 0; ; searched++ {
				select {
				case <-done:
					wait.Wait()
					t.Logf("%d searches", searched)
					return
				default:
				}
				micros := 1000 + uint64(searched*31%total)
				before := r.info(s, 0).Base
				at, err := s.Resolve(r.ctx, 0, broker.AtTime(micros))
				after := r.info(s, 0).Base
				if low, high := max(before, micros-1000), max(after, micros-1000); err != nil || at < low || at > high {
					t.Errorf("time %d: %d, %v; want one of [%d, %d]", micros, at, err, low, high)
				}
			}
		})
	}
}
