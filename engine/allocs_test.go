package engine_test

import (
	"runtime"
	"sync"
	"testing"

	"felix.local/felix/engine"
)

// allocationRig has no timer that allocates beside what is counted and no roll.
func allocationRig(t testing.TB, change ...func(*engine.Config)) *rig {
	t.Helper()
	change = append([]func(*engine.Config){func(c *engine.Config) {
		c.SegmentBytes = 1 << 30
		c.IndexSpacingBytes = 1 << 20
		c.FsyncInterval = 1 << 40
		c.MarkSyncInterval = 0
	}}, change...)
	return newRig(t, change...)
}

func TestALoneAppendMakesAtMostTwoAllocations(t *testing.T) {
	skipUnderRace(t)
	onBoth(t, func(t *testing.T, backend func(*engine.Config)) {
		eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
			r := allocationRig(t, backend, mode)
			body := make([]byte, 128)
			n := testing.AllocsPerRun(3000, func() { r.append(engine.Record{Payload: body}) })
			t.Logf("%.2f allocations per append", n)
			if n > 2 {
				t.Errorf("%.2f allocations per append, want at most 2", n)
			}
		})
	})
}

func TestManyPublishersMakeAtMostOneAllocationPerAppend(t *testing.T) {
	skipUnderRace(t)
	onBoth(t, func(t *testing.T, backend func(*engine.Config)) {
		eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
			r := allocationRig(t, backend, mode)
			const publishers, each = 64, 200
			allocationsOf(r, publishers, 20)
			n := float64(allocationsOf(r, publishers, each)) / (publishers * each)
			t.Logf("%.2f allocations per append", n)
			// The runtime and the timers allocate a little beside the appends.
			if n > 1.05 {
				t.Errorf("%.2f allocations per append with %d publishers, want at most 1", n, publishers)
			}
		})
	})
}

// allocationsOf counts what the process allocates while publishers append; their
// own start is not counted.
func allocationsOf(r *rig, publishers, each int) uint64 {
	r.Helper()
	var started, done sync.WaitGroup
	begin := make(chan struct{})
	started.Add(publishers)
	for range publishers {
		done.Go(func() {
			body := make([]byte, 128)
			started.Done()
			<-begin
			for range each {
				if _, err := r.log.Append(r.ctx, engine.Record{Payload: body}); err != nil {
					r.Error(err)
					return
				}
			}
		})
	}
	started.Wait()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	close(begin)
	done.Wait()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

// skipUnderRace skips what cannot be counted while the race detector allocates.
func skipUnderRace(t testing.TB) {
	t.Helper()
	if raceDetector {
		t.Skip("the race detector allocates by itself")
	}
}

func BenchmarkLoneAppend(b *testing.B) {
	for _, mode := range []engine.FsyncMode{engine.FsyncNone, engine.FsyncOnCommit} {
		b.Run(mode.String(), func(b *testing.B) {
			r := allocationRig(b, func(c *engine.Config) { c.FsyncMode = mode })
			body := make([]byte, 128)
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				r.append(engine.Record{Payload: body})
			}
		})
	}
}

// BenchmarkFollowedAppend is BenchmarkLoneAppend with a follower that looks at
// every record.
func BenchmarkFollowedAppend(b *testing.B) {
	for _, mode := range []engine.FsyncMode{engine.FsyncNone, engine.FsyncOnCommit} {
		b.Run(mode.String(), func(b *testing.B) {
			r := allocationRig(b, func(c *engine.Config) { c.FsyncMode = mode })
			l, err := r.store.OpenLogWith(r.ctx, testKey(1), engine.LogOptions{Follower: &counting{}})
			if err != nil {
				b.Fatal(err)
			}
			r.log = l
			body := make([]byte, 128)
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				r.append(engine.Record{Payload: body})
			}
		})
	}
}
