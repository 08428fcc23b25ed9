package engine_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/recovery"
)

// publish makes n publishers append each records one after the other and returns
// how many flushes and dsync writes that took.
func publish(r *rig, publishers, each int) uint64 {
	r.Helper()
	syncs := func() uint64 {
		stats := r.store.Stats()
		count := uint64(0)
		for _, kind := range []device.Kind{device.WriteDsync, device.Flush} {
			count += stats.Queue.Ops[kind] + stats.Inline[kind]
		}
		return count
	}
	before := syncs()
	var all sync.WaitGroup
	for p := range publishers {
		all.Go(func() {
			for i := range each {
				if _, err := r.log.Append(r.ctx, engine.Record{Payload: fmt.Appendf(nil, "%d/%d", p, i)}); err != nil {
					r.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return syncs() - before
}

func TestConcurrentAppendsShareFlushes(t *testing.T) {
	onBoth(t, func(t *testing.T, backend func(*engine.Config)) {
		r := newRigIn(t, t.TempDir(), backend, quiet)
		serial := publish(r, 1, 64)
		concurrent := publish(r, 16, 4)
		t.Logf("64 appends: %d flushes one at a time, %d with 16 at a time", serial, concurrent)
		if serial != 64 {
			t.Errorf("64 appends one at a time took %d flushes", serial)
		}
		if 2*concurrent > serial {
			t.Errorf("16 at a time took %d flushes, more than half of %d", concurrent, serial)
		}
	})
}

func TestEverythingThatGathersBehindAWriteGoesOutInOne(t *testing.T) {
	disk, faults := withFaults(t)
	r := newRig(t, faults)
	held := hold(t, disk, faultdisk.WriteDsync, isLog, 1)
	var handles []engine.Pending
	for range 64 {
		handle, err := r.log.AppendAsync(r.ctx, engine.Record{Payload: []byte("x")})
		if err != nil {
			t.Fatal(err)
		}
		handles = append(handles, handle)
		<-held.Reached() // from the first on
	}
	disk.ClearLog()
	held.Release()
	for _, handle := range handles {
		if _, err := handle.Wait(r.ctx); err != nil {
			t.Fatal(err)
		}
	}
	if log := disk.Log(faultdisk.Writes | faultdisk.Flushes); len(log) != 1 {
		t.Fatalf("63 gathered appends took %v", log)
	}
}

// sums adds up what an observer is told.
type sums struct {
	records, bytes atomic.Int64
}

func (s *sums) Appended(records int, bytes int64, _ time.Duration) {
	s.records.Add(int64(records))
	s.bytes.Add(bytes)
}
func (*sums) Synced(uint64, time.Duration, error) {}
func (*sums) Read(int, int64, time.Duration)      {}
func (*sums) Recovered(recovery.Report)           {}

func TestAnObserverHearsOfEachAppendByItself(t *testing.T) {
	disk, faults := withFaults(t)
	observer := new(sums)
	r := newRig(t, faults, func(c *engine.Config) { c.Observer = observer })
	held := hold(t, disk, faultdisk.WriteDsync, isLog, 1)
	var handles []engine.Pending
	for i := range 10 {
		handle, err := r.log.AppendAsync(r.ctx, engine.Record{Payload: make([]byte, i)}, engine.Record{Payload: make([]byte, 1)})
		if err != nil {
			t.Fatal(err)
		}
		handles = append(handles, handle)
	}
	held.Release()
	for _, handle := range handles {
		if _, err := handle.Wait(r.ctx); err != nil {
			t.Fatal(err)
		}
	}
	if records, bytes := observer.records.Load(), observer.bytes.Load(); records != 20 || bytes != 55 {
		t.Errorf("the observer heard of %d records and %d bytes, appended were 20 and 55", records, bytes)
	}
	if stats := r.store.Stats(); stats.AppendRecords != 20 || stats.AppendBytes != 55 {
		t.Errorf("%+v", stats)
	}
}

// quiet has neither rolls nor a timer that writes durably.
func quiet(c *engine.Config) { c.SegmentBytes, c.MarkSyncInterval = 1<<20, 0 }

// Without a pause between two flushes a closed loop splits into two cohorts that
// take turns, and half of the publishers share a flush. With it nearly all do.
func TestGatheringLetsAClosedLoopShareOneFlush(t *testing.T) {
	const publishers, each = 64, 40
	onBoth(t, func(t *testing.T, backend func(*engine.Config)) {
		r := newRigIn(t, t.TempDir(), backend, quiet)
		publish(r, publishers, 2)
		syncs := publish(r, publishers, each)
		fanIn := float64(publishers*each) / float64(syncs)
		t.Logf("%d publishers: %.1f appends per flush", publishers, fanIn)
		if fanIn < publishers/4 {
			t.Errorf("%d publishers share a flush by %.1f only", publishers, fanIn)
		}
	})
}
