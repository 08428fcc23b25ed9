package engine_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/fallback"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/journal"
)

// isFrame matches the data files of a journal.
func isFrame(path string) bool {
	_, ok := journal.ParseFileName(filepath.Base(path))
	return ok
}

// inShard matches the segments of one shard.
func inShard(shard int) func(path string) bool {
	name := testKey(shard).DirName()
	return func(path string) bool { return isLog(path) && strings.Contains(path, name) }
}

// newJournalRig is a store with a journal on a disk that fails when told to.
func newJournalRig(t testing.TB, change ...func(*engine.Config)) (*rig, *faultdisk.Disk) {
	disk := faultdisk.New(device.OS(), fallback.Open(fallback.Options{}), faultdisk.Options{})
	t.Cleanup(func() { _ = disk.Queue().Close() })
	return newRig(t, append([]func(*engine.Config){journaled, func(c *engine.Config) {
		c.FS, c.Queue = disk.FS(), disk.Queue()
	}}, change...)...), disk
}

// A frame that could not be written poisons every log: nobody knows what of it is on
// the device. What was acknowledged before is there after the next start.
func TestAFrameThatFailsPoisonsEveryLog(t *testing.T) {
	r, disk := newJournalRig(t)
	logs := r.openShards(3)
	for _, l := range logs {
		if err := appendEach(r.ctx, l, 5, 100); err != nil {
			t.Fatal(err)
		}
	}
	disk.Inject(faultdisk.Fault{Kinds: faultdisk.WriteDsync, Path: isFrame, Errno: syscall.EIO})
	if err := appendEach(r.ctx, logs[0], 1, 100); !errors.Is(err, engine.ErrPoisoned) || !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	for _, l := range logs[1:] {
		if err := appendEach(r.ctx, l, 1, 100); !errors.Is(err, engine.ErrPoisoned) {
			t.Errorf("%s: %v", l.Label(), err)
		}
		r.wantHeld(l, 5, 100)
	}
	if err := r.store.Close(r.ctx); !errors.Is(err, engine.ErrPoisoned) {
		t.Error(err)
	}
	r.open()
	for _, l := range r.openShards(3) {
		r.wantHeld(l, 5, 100)
	}
}

// Bytes that lag were acknowledged. When the segment cannot take them the log is
// poisoned, its records are read from memory, other logs go on, and the next start
// brings them to the segment.
func TestLaggingBytesThatCannotBeWrittenStayReadable(t *testing.T) {
	for name, fault := range map[string]faultdisk.Fault{
		"write, input or output": {Kinds: faultdisk.Write, Errno: syscall.EIO},
		"write, no space":        {Kinds: faultdisk.Write, Errno: syscall.ENOSPC, Lands: faultdisk.Half},
		"flush":                  {Kinds: faultdisk.Flush, Errno: syscall.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			r, disk := newJournalRig(t)
			logs := r.openShards(2)
			for _, l := range logs {
				if err := appendEach(r.ctx, l, 20, 100); err != nil {
					t.Fatal(err)
				}
			}
			fault.Path = inShard(0)
			disk.Inject(fault)
			r.store.Checkpoint()
			if err := appendEach(r.ctx, logs[0], 1, 100); !errors.Is(err, engine.ErrPoisoned) {
				t.Fatal("an append behind bytes that are lost:", err)
			}
			r.wantHeld(logs[0], 20, 100)
			if err := appendEach(r.ctx, logs[1], 20, 100); err != nil {
				t.Fatal(err)
			}
			if err := r.store.Close(r.ctx); !errors.Is(err, engine.ErrPoisoned) {
				t.Error(err)
			}
			r.open()
			logs = r.openShards(2)
			r.wantHeld(logs[0], 20, 100)
			r.wantHeld(logs[1], 40, 100)
			if n := r.store.Stats().JournalReplayed; n == 0 {
				t.Error("nothing was replayed")
			}
		})
	}
}

// While the segments of one log hang no file of the journal comes free: the others
// commit in their segments, and nothing waits. What hangs is readable.
func TestAJournalWithEveryFilePinnedHoldsNobodyUp(t *testing.T) {
	r, disk := newJournalRig(t, func(c *engine.Config) { c.JournalBytes = engine.JournalBytesMin })
	logs := r.openShards(3)
	if err := appendEach(r.ctx, logs[0], 20, 100); err != nil {
		t.Fatal(err)
	}
	held := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Path: inShard(0), Stall: true})
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.store.Checkpoint()
	}()
	<-held.Reached()
	const each = 200
	for _, l := range logs[1:] {
		if err := appendEach(r.ctx, l, each, 1500); err != nil {
			t.Fatal(err)
		}
	}
	stats := r.store.Stats()
	if stats.JournalFull == 0 || stats.JournalBypassed == 0 {
		t.Errorf("the journal was never full: %+v", stats)
	}
	r.wantHeld(logs[0], 20, 100)
	held.Release()
	<-done
	r.store.Checkpoint()
	before := r.store.Stats().JournalEntries
	for _, l := range logs {
		if err := appendEach(r.ctx, l, 1, 1500); err != nil {
			t.Fatal(err)
		}
	}
	if after := r.store.Stats().JournalEntries; after == before {
		t.Error("the journal is not used again")
	}
	r.reopen()
	for _, l := range r.openShards(3)[1:] {
		r.wantHeld(l, each+1, 1500)
	}
}

// Readers find every record, whether its bytes wait, are under way to the segment or
// are there.
func TestRecordsThatLagAreReadFromMemory(t *testing.T) {
	r, disk := newJournalRig(t)
	if err := appendEach(r.ctx, r.log, 10, 300); err != nil {
		t.Fatal(err)
	}
	r.wantHeld(r.log, 10, 300)
	held := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Write, Path: inShard(0), Stall: true})
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.store.Checkpoint()
	}()
	<-held.Reached()
	r.wantHeld(r.log, 10, 300)
	if err := appendEach(r.ctx, r.log, 10, 300); err != nil {
		t.Fatal(err)
	}
	r.wantHeld(r.log, 20, 300)
	held.Release()
	<-done
	r.wantHeld(r.log, 20, 300)
	r.store.Checkpoint()
	r.wantHeld(r.log, 20, 300)
	if n := r.store.Stats().JournalLagBytes; n != 0 {
		t.Errorf("%d bytes lag after a checkpoint", n)
	}
}

// A batch that the journal does not take is written to its segment, behind all that
// lags.
func TestALargeBatchGoesToItsSegmentBehindWhatLags(t *testing.T) {
	r, disk := newJournalRig(t)
	if err := appendEach(r.ctx, r.log, 10, 100); err != nil {
		t.Fatal(err)
	}
	disk.ClearLog()
	if _, err := r.log.Append(r.ctx, engine.Record{Payload: payload(10, 100_000)}); err != nil {
		t.Fatal(err)
	}
	var kinds []faultdisk.Kinds
	for _, e := range disk.Log(faultdisk.Write | faultdisk.WriteDsync | faultdisk.Flush) {
		if isLog(e.Path) {
			kinds = append(kinds, e.Kind)
		}
	}
	if want := []faultdisk.Kinds{faultdisk.Write, faultdisk.Flush, faultdisk.WriteDsync}; !slices.Equal(kinds, want) {
		t.Errorf("the segment saw %v, want a write, a flush and a dsync write", kinds)
	}
	records, err := r.log.ReadRange(r.ctx, 10, 1<<20)
	if err != nil || len(records) != 1 || string(records[0].Payload) != string(payload(10, 100_000)) {
		t.Errorf("%d records, %v", len(records), err)
	}
}
