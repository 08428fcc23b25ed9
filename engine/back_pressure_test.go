package engine_test

import (
	"fmt"
	"sync"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/fallback"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/uring"
)

// Every bound at its least: one record's bytes of staging memory for all logs,
// one worker or one slot, segments that roll all the time. Whoever waited for
// something that the one it waits for needs would hang here.
func TestNobodyWaitsInACircleAtTheSmallestBounds(t *testing.T) {
	queues := map[string]func(t *testing.T) device.Queue{
		"pool": func(*testing.T) device.Queue { return fallback.Open(fallback.Options{Workers: 1}) },
		"ring": func(t *testing.T) device.Queue {
			needRing(t)
			ring, err := uring.Open(uring.Options{Entries: 2})
			if err != nil {
				t.Fatal(err)
			}
			return ring
		},
	}
	for name, open := range queues {
		t.Run(name, func(t *testing.T) {
			eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
				queue := open(t)
				t.Cleanup(func() {
					if err := queue.Close(); err != nil {
						t.Error(err)
					}
				})
				r := newRig(t, mode, func(c *engine.Config) {
					c.Queue = queue
					c.StagedBytesMax, c.StagedBytesPerLogMax = 64, 64
					c.SegmentBytes = 1000
					c.RolloverThresholdPercent = 60
					c.FsyncInterval = 1e6
				})
				squeeze(r)
			})
		})
	}
}

func squeeze(r *rig) {
	other, err := r.store.OpenLog(r.ctx, testKey(1))
	if err != nil {
		r.Fatal(err)
	}
	logs := []*engine.Log{r.log, other}
	const publishers, each = 64, 6
	stop := make(chan struct{})
	var work, upkeep sync.WaitGroup
	for i, l := range logs {
		upkeep.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				_, sealErr := l.Seal(r.ctx)
				_, readErr := l.ReadRange(r.ctx, 0, 1000)
				for _, err := range []error{sealErr, readErr, l.Sync(r.ctx)} {
					if err != nil {
						r.Errorf("log %d: %v", i, err)
						return
					}
				}
			}
		})
	}
	for p := range publishers {
		work.Go(func() {
			for i := range each {
				// Some appends are larger than all of the staging memory.
				size := 20 + (p*each+i)%7*100
				if _, err := logs[p%2].Append(r.ctx, engine.Record{Payload: make([]byte, size)}); err != nil {
					r.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
	close(stop)
	upkeep.Wait()
	for _, l := range logs {
		if n := len(readAll(r, r.ctx, l)); n != publishers*each/2 {
			r.Errorf("%d of %d records", n, publishers*each/2)
		}
	}
	if staged := r.store.Stats().StagedBytes; staged != 0 {
		r.Errorf("%d staging bytes are still reserved", staged)
	}
}

func TestAnAppendAboveTheStagingBoundIsAdmittedAlone(t *testing.T) {
	disk, faults := withFaults(t)
	r := newRig(t, faults, func(c *engine.Config) { c.StagedBytesMax, c.StagedBytesPerLogMax = 1000, 1000 })
	held := hold(t, disk, faultdisk.WriteDsync, isLog, 1)
	small, err := r.log.AppendAsync(r.ctx, engine.Record{Payload: payload(0, 10)})
	if err != nil {
		t.Fatal(err)
	}
	<-held.Reached()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := r.log.Append(r.ctx, engine.Record{Payload: make([]byte, 100_000)}); err != nil {
				t.Error(err)
			}
			if staged := r.store.Stats().StagedBytes; staged > 1000 {
				t.Errorf("%d bytes are reserved of 1000", staged)
			}
		})
	}
	held.Release()
	if _, err := small.Wait(r.ctx); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if n := len(r.readAll()); n != 5 {
		t.Fatalf("%d records", n)
	}
}

func TestStagingMemoryStaysNearItsBound(t *testing.T) {
	r := newRig(t, func(c *engine.Config) {
		c.StagedBytesMax, c.StagedBytesPerLogMax = 256<<10, 64<<10
		c.SegmentBytes = 1 << 30
	})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if _, err := r.log.Append(r.ctx, engine.Record{Payload: make([]byte, 10_000)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	// A batch that grows holds its old and its new buffer for a moment, each rounded up.
	if mapped := r.store.Stats().StagedMappedBytes; mapped > 8<<20 {
		t.Errorf("%s of staging memory for a bound of 64 KiB per log", fmt.Sprint(mapped))
	}
}
