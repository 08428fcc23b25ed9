package engine_test

import (
	"errors"
	"io/fs"
	"sync/atomic"
	"syscall"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
)

// stoppingFS lets every operation succeed, and says of itself when it has stopped: as a
// kernel does whose filesystem goes down while a flush is under way.
type stoppingFS struct {
	device.FS
	stopped *atomic.Bool
}

type stoppingFile struct {
	device.File
	stopped *atomic.Bool
}

func (f stoppingFS) OpenFile(path string, mode device.OpenMode, perm fs.FileMode) (device.File, error) {
	file, err := f.FS.OpenFile(path, mode, perm)
	if err != nil {
		return nil, err
	}
	return stoppingFile{file, f.stopped}, nil
}

func (f stoppingFile) Unwrap() device.File { return f.File }

func (f stoppingFile) TakesWrites() error {
	if f.stopped.Load() {
		return device.NewError("look for writes", f.Name(), -1, syscall.EROFS)
	}
	return nil
}

// A flush that succeeded proves nothing once its filesystem has stopped: nothing is
// acknowledged over it, and the log is poisoned.
func TestAFlushOnAFilesystemThatStoppedAcknowledgesNothing(t *testing.T) {
	for name, change := range map[string]func(*engine.Config){
		"on_commit":              func(c *engine.Config) { c.Journal = engine.JournalOff },
		"on_commit with journal": journaled,
		"periodic":               func(c *engine.Config) { c.FsyncMode = engine.FsyncPeriodic },
	} {
		t.Run(name, func(t *testing.T) {
			var stopped atomic.Bool
			r := newRigIn(t, t.TempDir(), change, func(c *engine.Config) {
				c.SegmentBytes = 1 << 20
				c.FS = stoppingFS{device.OS(), &stopped}
			})
			r.appendSizes(100)
			durable := r.log.DurableOffset()
			stopped.Store(true)
			_, err := r.log.Append(r.ctx, engine.Record{Payload: payload(1, 100)})
			if r.cfg.FsyncMode != engine.FsyncOnCommit {
				if err != nil {
					t.Fatal(err) // it promises no more than the page cache
				}
				err = r.log.Sync(r.ctx)
			}
			errorAs[*engine.PoisonedError](t, err)
			if got := r.log.DurableOffset(); got > max(durable, 1) {
				t.Errorf("%d records are said to be durable, before it stopped were %d", got, durable)
			}
		})
	}
}

// A truncation that was flushed over a filesystem that stopped may not have happened.
func TestATruncationOnAFilesystemThatStoppedDoesNotSucceed(t *testing.T) {
	var stopped atomic.Bool
	r := newRigIn(t, t.TempDir(), func(c *engine.Config) {
		c.SegmentBytes, c.Journal = 1<<20, engine.JournalOff
		c.FS = stoppingFS{device.OS(), &stopped}
	})
	for range 3 {
		r.appendSizes(100)
	}
	stopped.Store(true)
	errorAs[*engine.PoisonedError](t, r.log.Truncate(r.ctx, 1))
}

// What was rolled away is flushed before what is active, and is asked for by itself: the
// second flush never comes here.
func TestTheFlushOfARetiredSegmentIsNotBelievedWhenTheFilesystemStopped(t *testing.T) {
	r, _ := heldSeal(t, engine.FsyncPeriodic, 0)
	before := r.log.DurableOffset()
	r.disk.StopTakingWrites(syscall.EROFS)
	errorAs[*engine.PoisonedError](t, r.log.Sync(r.ctx))
	if got := r.log.DurableOffset(); got != before {
		t.Errorf("durable went from %d to %d", before, got)
	}
}

// A deletion that was flushed over a filesystem that stopped may not have happened, and
// a log that was opened there may not hold what recovery found.
func TestNothingIsDeletedOrOpenedOnAFilesystemThatStopped(t *testing.T) {
	var stopped atomic.Bool
	r := newRigIn(t, t.TempDir(), func(c *engine.Config) {
		c.Journal = engine.JournalOff
		c.FS = stoppingFS{device.OS(), &stopped}
	})
	r.appendSizes(100)
	stopped.Store(true)
	if err := r.store.DeleteLog(r.ctx, testKey(0)); !errors.Is(err, syscall.EROFS) {
		t.Error("a deletion:", err)
	}
	if _, err := r.store.OpenLog(r.ctx, testKey(1)); !errors.Is(err, syscall.EROFS) {
		t.Error("an opening:", err)
	}
	stopped.Store(false)
	r.delete(0)
}
