package engine_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// stage is a step of opening or appending at which a disk can say no.
type stage struct {
	name  string
	kinds faultdisk.Kinds
	path  func(string) bool
	// want is what the append that comes to it returns.
	want outcome
	mode engine.FsyncMode
}

func suffix(s string) func(string) bool {
	return func(path string) bool { return strings.HasSuffix(path, s) }
}

func appendStages() []stage {
	next := named(segment.LogName(1))
	return []stage{
		{name: "create of the next segment", kinds: faultdisk.Create, path: next, want: fails, mode: engine.FsyncOnCommit},
		{name: "its header", kinds: faultdisk.WriteDsync, path: next, want: fails, mode: engine.FsyncOnCommit},
		{name: "the flush of the directory", kinds: faultdisk.FlushDir, want: poisons, mode: engine.FsyncOnCommit},
		{name: "the reservation", kinds: faultdisk.Allocate, path: next, want: fails, mode: engine.FsyncOnCommit},
		{name: "a durable write", kinds: faultdisk.WriteDsync, path: named(segment.LogName(0)), want: fails, mode: engine.FsyncOnCommit},
		{name: "a plain write", kinds: faultdisk.Write, path: named(segment.LogName(0)), want: fails, mode: engine.FsyncNone},
		{name: "the index", kinds: faultdisk.Writes | faultdisk.Create, path: suffix(".index"), want: unnoticed, mode: engine.FsyncOnCommit},
		{name: "the seal", kinds: faultdisk.Flush, path: suffix(".log"), want: poisons, mode: engine.FsyncNone},
		{name: "the mark", kinds: faultdisk.Writes, path: named(recovery.MarkName), want: unnoticed, mode: engine.FsyncOnCommit},
	}
}

// stay makes the disk answer an errno for as long as it is asked.
func (r *orderRig) stay(s stage, errno syscall.Errno) *faultdisk.Injected {
	return r.disk.Inject(faultdisk.Fault{
		Kinds: s.kinds, Path: s.path, Errno: errno, Times: faultdisk.Forever, Lands: faultdisk.Half,
	})
}

func newStageRig(t testing.TB, s stage) *orderRig {
	r := newOrderRig(t, s.mode, false)
	r.appendSizes(80, 80)
	return r
}

// A disk that is full at one stage, and stays full: every append that comes to it
// is refused without an acknowledgement, and goes through once there is room.
func TestC228AFullDiskAtEveryStage(t *testing.T) {
	for _, s := range appendStages() {
		t.Run(s.name, func(t *testing.T) {
			r := newStageRig(t, s)
			full := r.stay(s, syscall.ENOSPC)
			var err error
			refused := 0
			for range 20 {
				tail := r.log.TailOffset()
				_, err = r.log.Append(r.ctx, engine.Record{Payload: payload(tail, 80)})
				if err == nil {
					continue
				}
				if refused++; r.log.TailOffset() != tail && r.log.Poisoned() == nil {
					t.Fatal("refused, and the tail moved")
				}
				if s.want == fails {
					errorAs[*engine.FullError](t, err)
				}
				if !errors.Is(err, engine.ErrFull) || device.ClassOf(err) != device.ClassFull {
					t.Fatal(err)
				}
			}
			switch {
			case full.Hits() == 0:
				t.Error("the stage was not reached")
			case s.want == unnoticed && refused > 0, s.want != unnoticed && refused == 0:
				t.Errorf("%d appends refused: %v", refused, err)
			case s.want == poisons:
				errorAs[*engine.PoisonedError](t, err)
			}
			full.Remove()
			if s.want == poisons {
				if err := r.store.Close(r.ctx); !errors.Is(err, engine.ErrPoisoned) {
					t.Error(err)
				}
				r.open()
			}
			r.until(func() bool { return len(r.log.Segments()) > 3 })
			r.reopen()
			r.checkChain()
			r.checkPayloads(func(uint64) int { return 80 })
		})
	}
}

func TestC228AFullDiskWhileOpening(t *testing.T) {
	shard := testKey(0).DirName()
	for _, s := range []stage{
		{name: "mkdir", kinds: faultdisk.Mkdir, path: suffix(shard)},
		{name: "create", kinds: faultdisk.Create, path: suffix(".log")},
		{name: "header write", kinds: faultdisk.WriteDsync, path: suffix(".log")},
		{name: "directory flush", kinds: faultdisk.FlushDir, path: suffix(shard)},
		{name: "create of the mark", kinds: faultdisk.Create, path: suffix(recovery.MarkName)},
		{name: "marker write", kinds: faultdisk.Writes, path: suffix(recovery.MarkName)},
	} {
		t.Run(s.name, func(t *testing.T) {
			w := newFaultWorld(fastDir(t), sharedPool(t), faultConfig(engine.FsyncOnCommit, false), faultdisk.Options{})
			full := w.disk.Inject(faultdisk.Fault{Kinds: s.kinds, Path: s.path, Errno: syscall.ENOSPC, Times: faultdisk.Forever})
			store, _, err := w.open(deadline(t))
			if errorAs[*engine.FullError](t, err); store == nil {
				t.Fatal("the store did not open")
			}
			full.Remove()
			log, err := store.OpenLog(deadline(t), testKey(0))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := log.Append(deadline(t), engine.Record{}); err != nil {
				t.Error(err)
			}
			if err := store.Close(deadline(t)); err != nil {
				t.Error(err)
			}
			if n := w.fs.open.Load(); n != 0 {
				t.Errorf("%d files are still open", n)
			}
		})
	}
	t.Run("rename of a file that is set aside", func(t *testing.T) {
		root, pool := filepath.Join(fastDir(t), "root"), sharedPool(t)
		records := damagedShard(t, root, pool)
		w := newFaultWorld(root, pool, faultConfig(engine.FsyncOnCommit, false), faultdisk.Options{})
		full := w.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Rename, Path: isLog, Errno: syscall.ENOSPC, Times: faultdisk.Forever})
		store, _, err := w.open(deadline(t))
		errorAs[*engine.FullError](t, err)
		if err := store.Close(deadline(t)); err != nil || full.Hits() != 1 {
			t.Errorf("%d hits, %v", full.Hits(), err)
		}
		again := openCopy(t, root, "", pool)
		again.wantRecords(records)
		again.close()
	})
}

// Every errno has its class, and what can be tried again is.
func TestC229EveryErrnoIsTypedAndWhatCanBeTriedAgainIs(t *testing.T) {
	for _, c := range []struct {
		errno syscall.Errno
		class error
	}{
		{syscall.ENOSPC, device.ErrFull}, // inodes run out like this too
		{syscall.EDQUOT, device.ErrFull},
		{syscall.EMFILE, device.ErrTooManyFiles},
		{syscall.ENFILE, device.ErrTooManyFiles},
		{syscall.EROFS, device.ErrReadOnly},
		{syscall.EIO, device.ErrIO},
		{syscall.ENODATA, device.ErrIO}, // a medium error of newer disks
	} {
		for _, s := range appendStages() {
			t.Run(fmt.Sprintf("%s %v", c.class, c.errno)+" at "+s.name, func(t *testing.T) {
				r := newStageRig(t, s)
				fault := r.stay(s, c.errno)
				var err error
				for n := 0; n < 20 && err == nil; n++ {
					_, err = r.log.Append(r.ctx, engine.Record{Payload: payload(r.log.TailOffset(), 80)})
				}
				fault.Remove()
				want := s.want
				switch {
				case c.class == device.ErrFull:
				case s.name == "the reservation":
					want = unnoticed // only want of space refuses the append
				case s.name == "a durable write":
					want = poisons
				}
				if want == unnoticed {
					if err != nil {
						t.Fatal(err)
					}
					return
				}
				if !errors.Is(err, c.class) || !errors.Is(err, c.errno) {
					t.Errorf("%v is not %v", err, c.class)
				}
				if poisoned := r.log.Poisoned() != nil; poisoned != (want == poisons) {
					t.Fatalf("poisoned %v, want %v: %v", poisoned, want, err)
				}
				if want == fails {
					r.until(func() bool { return len(r.log.Segments()) > 2 })
					r.reopen()
				} else {
					_ = r.store.Close(r.ctx)
					r.open()
				}
				r.checkPayloads(func(uint64) int { return 80 })
			})
		}
	}
}

// A filesystem that is remounted read-only under the log takes the rewind as
// little as the write.
func TestC229AFilesystemThatTurnsReadOnlyPoisons(t *testing.T) {
	eachMode(t, func(t *testing.T, choose func(*engine.Config)) {
		var c engine.Config
		choose(&c)
		r := newOrderRig(t, c.FsyncMode, false)
		r.appendSizes(80, 80)
		readOnly := r.disk.Inject(faultdisk.Fault{
			Kinds: faultdisk.Changes &^ faultdisk.Flushes, Errno: syscall.EROFS, Times: faultdisk.Forever,
		})
		_, err := r.log.Append(r.ctx, engine.Record{})
		errorAs[*engine.PoisonedError](t, err)
		if !errors.Is(err, device.ErrReadOnly) {
			t.Error(err)
		}
		// What is durable stays readable.
		if n := uint64(len(r.readAll())); n != r.log.DurableOffset() {
			t.Errorf("%d records, %d durable", n, r.log.DurableOffset())
		}
		_ = r.store.Close(r.ctx)
		readOnly.Remove()
		r.open()
		r.checkPayloads(func(uint64) int { return 80 })
		r.appendSizes(80)
	})
}
