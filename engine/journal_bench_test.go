package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"felix.local/felix/engine"
)

// BenchmarkCommit is a closed loop of one publisher per log under on_commit, 128
// bytes each, with and without the commit journal, on the disk of the temporary
// directory.
func BenchmarkCommit(b *testing.B) {
	for _, mode := range []engine.JournalMode{engine.JournalOff, engine.JournalRequire} {
		for _, logs := range []int{1, 16, 64, 256} {
			b.Run(fmt.Sprintf("journal=%v/logs=%d", mode, logs), func(b *testing.B) {
				r := newRigIn(b, b.TempDir(), func(c *engine.Config) {
					c.Journal, c.JournalBytes, c.SegmentBytes = mode, engine.DefaultJournalBytes, engine.DefaultSegmentBytes
					c.IOURing, c.NowMicros = engine.IOURingAuto, nil
				})
				var left atomic.Int64
				left.Store(int64(b.N))
				var all sync.WaitGroup
				b.ReportAllocs()
				b.ResetTimer()
				for _, l := range r.openShards(logs) {
					all.Go(func() {
						record := engine.Record{Payload: payload(0, 128)}
						for left.Add(-1) >= 0 {
							if _, err := l.Append(context.Background(), record); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				all.Wait()
				b.StopTimer()
				if frames := r.store.Stats().JournalFrames; frames > 0 {
					b.ReportMetric(float64(b.N)/float64(frames), "appends/frame")
				}
			})
		}
	}
}
