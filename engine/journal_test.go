package engine_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/journal"
	"felix.local/felix/recovery"
)

// journaled makes a store with a journal that commits all it can in it.
func journaled(cfg *engine.Config) {
	cfg.Journal, cfg.JournalBytes = engine.JournalRequire, 1<<20
	cfg.SegmentBytes = 1 << 20
}

// openShards opens n logs of the store.
func (r *rig) openShards(n int) []*engine.Log {
	r.Helper()
	logs := []*engine.Log{r.log}
	for i := 1; i < n; i++ {
		l, err := r.store.OpenLog(r.ctx, testKey(i))
		if err != nil {
			r.Fatal(err)
		}
		logs = append(logs, l)
	}
	return logs
}

// appendEach appends n records of so many bytes, one at a time.
func appendEach(ctx context.Context, l *engine.Log, n, size int) error {
	for range n {
		if _, err := l.Append(ctx, engine.Record{Payload: payload(l.TailOffset(), size)}); err != nil {
			return err
		}
	}
	return nil
}

// wantHeld reads a log from base to tail, which must be n.
func (r *rig) wantHeld(l *engine.Log, n uint64, size int) {
	r.Helper()
	if tail := l.TailOffset(); tail != n {
		r.Errorf("%s ends at %d, want %d", l.Label(), tail, n)
	}
	for next := l.BaseOffset(); next < n; {
		records, err := l.ReadRange(r.ctx, next, 1<<20)
		if err != nil || len(records) == 0 {
			r.Fatalf("%s at %d of %d: %d records, %v", l.Label(), next, n, len(records), err)
		}
		for _, record := range records {
			if record.Offset != next || string(record.Payload) != string(payload(next, size)) {
				r.Fatalf("%s: record %d reads back as %d, %.40q", l.Label(), next, record.Offset, record.Payload)
			}
			next++
		}
	}
}

// Appends of many logs share frames; every one is read back at once, and after an
// orderly stop the directory is a plain one.
func TestLogsCommitThroughTheJournal(t *testing.T) {
	r := newRig(t, journaled, func(cfg *engine.Config) { cfg.JournalBytes = 8 << 20 })
	logs := r.openShards(16)
	const each, size = 50, 200
	var all sync.WaitGroup
	for _, l := range logs {
		all.Go(func() {
			for i := range each {
				if err := appendEach(r.ctx, l, 1, size); err != nil {
					t.Error(err)
					return
				}
				if i%10 == 9 {
					r.wantHeld(l, uint64(i+1), size)
				}
			}
		})
	}
	all.Wait()
	stats := r.store.Stats()
	if stats.JournalEntries == 0 || stats.JournalFrames == 0 || stats.JournalEntries < stats.JournalFrames {
		t.Errorf("%d entries in %d frames", stats.JournalEntries, stats.JournalFrames)
	}
	if stats.JournalLagBytes == 0 {
		t.Error("nothing lags behind the journal")
	}
	if n := stats.UnsyncedBytes; n != 0 {
		t.Errorf("a power loss would take %d bytes", n)
	}
	r.reopen(func(cfg *engine.Config) { cfg.Journal = engine.JournalOff })
	for _, l := range r.openShards(16) {
		r.wantHeld(l, each, size)
		if rep := l.Recovery(); rep.TruncatedBytes != 0 {
			t.Errorf("%s: %+v", l.Label(), rep)
		}
	}
}

// The journal's files are used again and again, with rolls, large batches and
// retention between.
func TestTheJournalGoesRoundItsFiles(t *testing.T) {
	r := newRig(t, journaled, func(cfg *engine.Config) { cfg.SegmentBytes = 256 << 10 })
	logs := r.openShards(4)
	const each, size = 400, 3000
	var all sync.WaitGroup
	for i, l := range logs {
		all.Go(func() {
			for n := range each {
				if err := appendEach(r.ctx, l, 1, size); err != nil {
					t.Error(err)
					return
				}
				if i == 0 && n%100 == 99 {
					if _, err := l.TrimBefore(r.ctx, uint64(n-50)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	stats := r.store.Stats()
	if int64(stats.JournalBytes) < 2*r.cfg.JournalBytes {
		t.Errorf("only %d bytes of frames in a journal of %d", stats.JournalBytes, r.cfg.JournalBytes)
	}
	for i, l := range logs {
		r.wantHeld(l, each, size)
		if err := l.Truncate(r.ctx, uint64(each-10-i)); err != nil {
			t.Fatal(err)
		}
	}
	r.reopen()
	for i, l := range r.openShards(4) {
		r.wantHeld(l, uint64(each-10-i), size)
	}
}

// An orderly stop leaves a journal that holds nothing.
func TestAnOrderlyStopLeavesTheJournalEmpty(t *testing.T) {
	r := newRig(t, journaled)
	if err := appendEach(r.ctx, r.log, 10, 100); err != nil {
		t.Fatal(err)
	}
	r.close()
	c, err := journal.DecodeCurrent(content(t, filepath.Join(r.root, journal.DirName), journal.CurrentName))
	if err != nil || !c.Empty {
		t.Errorf("%+v, %v", c, err)
	}
	r.open()
	r.wantHeld(r.log, 10, 100)
}

// What is written while appends wait at the gate goes to the segment, behind what lags,
// and appends go on where it ends.
func TestAGenerationStartsBesideTheJournal(t *testing.T) {
	r, _ := newJournalRig(t)
	for generation := uint64(1); generation <= 3; generation++ {
		if err := appendEach(r.ctx, r.log, 2, 100); err != nil {
			t.Fatal(err)
		}
		r.wantStart(generation, 3*generation-1, true)
		if tail, durable := r.log.TailOffset(), r.log.DurableOffset(); tail != 3*generation || durable != tail {
			t.Errorf("generation %d: the log ends at %d, durable at %d", generation, tail, durable)
		}
	}
	for _, reopened := range []bool{false, true} {
		if reopened {
			r.reopen()
		}
		records, err := r.log.ReadRange(r.ctx, 0, 1<<20)
		if err != nil || len(records) != 6 {
			t.Fatalf("reopened %v: %d records, %v", reopened, len(records), err)
		}
		for i, record := range records {
			if want := uint64(i/2*3 + i%2); record.Offset != want || string(record.Payload) != string(payload(want, 100)) {
				t.Errorf("reopened %v: record %d is at %d", reopened, i, record.Offset)
			}
		}
	}
}

// hangsWhereBlocksEnd has the first segment of a log refuse more blocks, and hang in
// the flush that follows on that.
func hangsWhereBlocksEnd(disk *faultdisk.Disk) (held *faultdisk.Injected) {
	disk.Inject(faultdisk.Fault{Kinds: faultdisk.Allocate, Errno: syscall.ENOSPC, Path: inShard(0), Times: faultdisk.Forever})
	return disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Path: inShard(0), Stall: true})
}

// Giving blocks back waits for the segment; an appender with a context does not.
func TestAnAppenderGivesUpOnASegmentThatGivesBlocksBack(t *testing.T) {
	r, disk := newJournalRig(t)
	if err := appendEach(r.ctx, r.log, 1, 1000); err != nil {
		t.Fatal(err)
	}
	held := hangsWhereBlocksEnd(disk)
	defer held.Release()
	ctx, cancel := context.WithCancel(r.ctx)
	ended := make(chan error)
	go func() {
		for {
			if _, err := r.log.Append(ctx, engine.Record{Payload: payload(0, 1000)}); err != nil {
				ended <- err
				return
			}
		}
	}()
	<-held.Reached()
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("an append goes on after its context ended")
		held.Release()
		<-ended
	}
}

// stageAfterSync stages one more append whenever a batch was made durable, before the
// log is done with that.
type stageAfterSync struct {
	stage atomic.Pointer[func()]
}

func (o *stageAfterSync) Synced(uint64, time.Duration, error) {
	if stage := o.stage.Load(); stage != nil {
		(*stage)()
	}
}
func (*stageAfterSync) Appended(int, int64, time.Duration) {}
func (*stageAfterSync) Read(int, int64, time.Duration)     {}
func (*stageAfterSync) Recovered(recovery.Report)          {}

// The leader of the journal goes on for a log, and waits for none of its segments.
func TestASegmentThatHangsStopsNoOtherLogOfTheJournal(t *testing.T) {
	o := &stageAfterSync{}
	r, disk := newJournalRig(t, func(c *engine.Config) { c.Observer = o })
	logs := r.openShards(2)
	for _, l := range logs {
		if err := appendEach(r.ctx, l, 1, 1000); err != nil {
			t.Fatal(err)
		}
	}
	held := hangsWhereBlocksEnd(disk)
	defer held.Release()
	stage := func() {
		go func() { _, _ = logs[0].AppendAsync(r.ctx, engine.Record{Payload: payload(0, 1000)}) }()
		time.Sleep(2 * time.Millisecond) // it is staged, then
	}
	o.stage.Store(&stage)
	if _, err := logs[0].Append(r.ctx, engine.Record{Payload: payload(1, 1000)}); err != nil {
		t.Fatal(err)
	}
	<-held.Reached()
	o.stage.Store(nil)
	ctx, cancel := context.WithTimeout(r.ctx, 10*time.Second)
	defer cancel()
	if _, err := logs[1].Append(ctx, engine.Record{Payload: payload(1, 1000)}); err != nil {
		t.Error("a log waits for the segment of another:", err)
	}
}

// An appender of a log that has the store to itself, which nothing can call back,
// writes its frames itself; the journal goes on with a leader when another log comes.
func TestALoneAppenderWritesItsFramesItself(t *testing.T) {
	// In one file of the journal: a frame that says which others are free is no append's.
	r, _ := newJournalRig(t, func(c *engine.Config) { c.JournalBytes = 8 << 20 })
	logs := r.openShards(2)
	appended := uint64(0)
	for range 200 {
		if _, err := logs[0].Append(context.Background(), engine.Record{Payload: payload(appended, 100)}); err != nil {
			t.Fatal(err)
		}
		appended++
	}
	before := r.store.Stats()
	for range 100 {
		if _, err := logs[0].Append(context.Background(), engine.Record{Payload: payload(appended, 100)}); err != nil {
			t.Fatal(err)
		}
		appended++
	}
	after := r.store.Stats()
	if frames := after.JournalFrames - before.JournalFrames; frames != 100 {
		t.Errorf("%d frames for 100 appends, one after the other", frames)
	}
	var all sync.WaitGroup
	for _, l := range logs {
		all.Go(func() {
			for range 100 {
				if _, err := l.Append(context.Background(), engine.Record{Payload: payload(l.TailOffset(), 100)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	r.wantHeld(logs[0], appended+100, 100)
	r.wantHeld(logs[1], 100, 100)
}
