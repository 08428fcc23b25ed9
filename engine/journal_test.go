package engine_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"felix.local/felix/engine"
	"felix.local/felix/journal"
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
