package engine_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// fewTicks is long enough for the timer of marks to come several times.
const fewTicks = time.Second

// wantIdleMark waits a few ticks and compares durable.mark with what is durable.
func (r *flushRig) wantIdleMark() {
	r.Helper()
	time.Sleep(fewTicks)
	synctest.Wait()
	b, err := os.ReadFile(filepath.Join(r.log.Dir(), recovery.MarkName))
	if err != nil {
		r.Fatal(err)
	}
	d := r.active()
	want := recovery.Mark{Segment: d.ID, Synced: d.Size - r.log.UnsyncedBytes()}
	if mark, ok := recovery.DecodeMark(b); !ok || mark != want {
		r.Errorf("the mark of an idle log is %+v, want %+v", mark, want)
	}
}

// putUntilHeld appends until something that goes on beside appends is held.
func (r *flushRig) putUntilHeld(held *faultdisk.Injected) error {
	return r.putUntil(func() bool {
		synctest.Wait()
		return held.Hits() > 0
	})
}

// A log whose mark cannot be written when its turn comes has another turn, also
// when nothing is appended any more.
func TestTheMarkOfAnIdleLogIsItsDurablePosition(t *testing.T) {
	marks := named(recovery.MarkName)
	for name, c := range map[string]struct {
		background bool
		busy       func(r *flushRig) (end func() error)
	}{
		"a mark was being written": {true, func(r *flushRig) func() error {
			// The one that a background seal makes durable.
			held := hold(r, r.disk, faultdisk.WriteDsync, marks, 1)
			if err := r.putUntilHeld(held); err != nil {
				r.Fatal(err)
			}
			err := r.put()
			return func() error { held.Release(); return err }
		}},
		"a lazy mark was being written": {false, func(r *flushRig) func() error {
			held := hold(r, r.disk, faultdisk.Write, marks, 1)
			err := r.put()
			time.Sleep(fewTicks)
			return func() error { held.Release(); return err }
		}},
		"a call waited for the log to itself": {true, func(r *flushRig) func() error {
			// It changes nothing, and the preparation that it waits for ends
			// without a word.
			held := hold(r, r.disk, faultdisk.Create, isLog, 1)
			if err := r.putUntilHeld(held); err != nil {
				r.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- r.log.Truncate(r.ctx, r.log.TailOffset()) }()
			return func() error { held.Release(); return <-done }
		}},
		"a background seal could not write it": {true, func(r *flushRig) func() error {
			seal := hold(r, r.disk, faultdisk.Flush, named(segment.IndexName(r.active().ID)), 1)
			if err := r.putUntil(func() bool { return r.store.Stats().RollsBackground > 0 }); err != nil {
				r.Fatal(err)
			}
			time.Sleep(fewTicks)
			r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Path: marks, Errno: syscall.EIO})
			return func() error { seal.Release(); return nil }
		}},
		"a roll could not write it": {false, func(r *flushRig) func() error {
			r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.WriteDsync, Path: marks, Errno: syscall.EIO})
			rolls := r.store.Stats().Rolls
			err := r.putUntil(func() bool { return r.store.Stats().Rolls > rolls })
			return func() error { return err }
		}},
		"a rewind flushed": {false, func(r *flushRig) func() error {
			time.Sleep(fewTicks)
			if err := r.put(); err != nil {
				return func() error { return err }
			}
			time.Sleep(fewTicks)
			r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Path: isLog, Errno: syscall.ENOSPC})
			return func() error { errorAs[*engine.FullError](r, r.put()); return nil }
		}},
		"a roll sealed and could not go on": {false, func(r *flushRig) func() error {
			if err := r.put(); err != nil {
				return func() error { return err }
			}
			time.Sleep(fewTicks)
			r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Create, Path: isLog, Errno: syscall.EMFILE})
			return func() error {
				_, err := r.log.Seal(r.ctx)
				errorAs[*engine.LogError](r, err)
				return nil
			}
		}},
		"the timer could not write it": {false, func(r *flushRig) func() error {
			r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes | faultdisk.Open, Path: marks, Errno: syscall.ENOSPC, Times: 3})
			err := r.put()
			return func() error { return err }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, mode := range []engine.FsyncMode{engine.FsyncOnCommit, engine.FsyncPeriodic, engine.FsyncNone} {
				synctest.Test(t, func(t *testing.T) {
					r := newFlushRig(t, mode, c.background)
					if err := r.put(); err != nil {
						t.Fatal(err)
					}
					end := c.busy(r)
					time.Sleep(fewTicks) // the timer passes by
					synctest.Wait()
					if err := end(); err != nil {
						t.Error(err)
					}
					r.wantIdleMark()
				})
			}
		})
	}
}
