package engine_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"felix.local/felix/engine"
)

// A goroutine that ends while it is locked to its thread takes the thread with it,
// and the kernel may cancel what that thread had submitted. Other packages of a
// program do that; nothing may be lost by it.
func TestThreadsThatDieUnderLoadLoseNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, backend func(*engine.Config)) {
		eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
			r := newRigIn(t, t.TempDir(), backend, mode, func(c *engine.Config) {
				c.SegmentBytes = 64 << 10
				c.FsyncInterval = 2e6
			})
			killThreads(r)
		})
	})
}

func killThreads(r *rig) {
	const shards, publishers = 4, 4
	each := 60
	if long() {
		each = 2000
	}
	logs := []*engine.Log{r.log}
	for i := 1; i < shards; i++ {
		l, err := r.store.OpenLog(r.ctx, testKey(i))
		if err != nil {
			r.Fatal(err)
		}
		logs = append(logs, l)
	}
	// Threads that die all the time, so that the loop's own is among them.
	var stop atomic.Bool
	var killers sync.WaitGroup
	var deaths atomic.Int64
	for range 2 {
		killers.Go(func() {
			for !stop.Load() {
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					runtime.LockOSThread() // and never unlocked: the thread ends here
					deaths.Add(1)
					runtime.Gosched()
				}()
				<-ended
			}
		})
	}
	acked := make([]sync.Map, shards) // offset → text
	var work sync.WaitGroup
	for i, l := range logs {
		for p := range publishers {
			work.Go(func() {
				for k := range each {
					text := fmt.Sprintf("%d/%d/%d", i, p, k)
					done := make(chan error)
					go func() {
						runtime.LockOSThread() // the publisher's thread dies after its append
						got, err := l.Append(r.ctx, engine.Record{Payload: []byte(text)})
						if err == nil {
							acked[i].Store(got.First, text)
						}
						done <- err
					}()
					if err := <-done; err != nil {
						r.Error(err)
						return
					}
				}
			})
		}
	}
	work.Wait()
	stop.Store(true)
	killers.Wait()
	stats := r.store.Stats().Queue
	r.Logf("%d threads died, besides %d of publishers; the ring repeated %d operations that were canceled, %d others",
		deaths.Load(), shards*publishers*each, stats.ResubmitCanceled, stats.ResubmitAgain)
	check := func() {
		for i, l := range logs {
			records := readAll(r, r.ctx, l)
			if len(records) != publishers*each {
				r.Errorf("log %d holds %d of %d records", i, len(records), publishers*each)
			}
			for _, record := range records {
				if want, _ := acked[i].Load(record.Offset); want != string(record.Payload) {
					r.Errorf("log %d offset %d holds %q, acknowledged was %q", i, record.Offset, record.Payload, want)
				}
			}
		}
	}
	check()
	r.reopen()
	logs[0] = r.log
	for i := 1; i < shards; i++ {
		l, err := r.store.OpenLog(r.ctx, testKey(i))
		if err != nil {
			r.Fatal(err)
		}
		logs[i] = l
	}
	check()
}
