package engine_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/sidecar"
)

// An id that outlived a crash vouches for every acknowledged record: a power loss at
// any moment of a first start, an append, a close, and starts after crashes leaves
// a directory with everything that was acknowledged under the id it has then, or
// with another id.
func TestAfterAPowerLossAnIDVouchesForWhatWasAcknowledgedUnderIt(t *testing.T) {
	eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
		synctest.Test(t, func(t *testing.T) {
			r := newSimRig(t, mode, func(c *engine.Config) { c.Random, c.FsyncInterval = nil, 1<<40 })
			acked, id := uint64(0), r.store.Identity().ID
			counts := make(map[string]int)
			look := func(image *rig) {
				got := image.store.Identity()
				counts[fmt.Sprintf("same id %v, %v", got.ID == id, got.Previous)]++
				if got.ID == id && image.log.TailOffset() < acked {
					t.Errorf("%d of %d acknowledged records under the same id, the last run %v", image.log.TailOffset(), acked, got.Previous)
				}
				if r.cfg.FsyncMode == engine.FsyncOnCommit && got.ID != id {
					t.Errorf("a new id after an on_commit run: %+v", got)
				}
			}
			r.eachImage(func() error {
				for range 3 {
					r.appendSizes(100)
					acked++
				}
				return nil
			}, look)
			r.eachImage(func() error { return r.store.Close(r.ctx) }, look)
			r.store, r.log = nil, nil
			// It stopped cleanly; the next run is killed, and the one after it begins.
			r.rig = simRigOn(t, r.disk, func(c *engine.Config) { *c = r.cfg })
			r.appendSizes(100)
			acked++
			r.eachImage(func() error { return nil }, look)
			dead := &simRig{disk: r.disk.Crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath})}
			dead.rig = &rig{TB: t, ctx: r.ctx, root: simRoot, cfg: r.cfg}
			dead.cfg.FS, dead.cfg.Queue = dead.disk, dead.disk.NewQueue(simdisk.QueueOptions{})
			dead.eachImage(func() (err error) {
				dead.store, err = engine.OpenStore(dead.ctx, simRoot, dead.cfg)
				return err
			}, look)
			dead.close()
			t.Log(counts)
			if len(counts) < 2 {
				t.Error("too few cases were met")
			}
		})
	})
}

// A power loss in a start that makes a new id leaves the old one or a new one, and
// never the old one as good.
func TestAPowerLossInAStartAfterACrashLeavesNoOldID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := storageID(0)
		disk := simdisk.New()
		disk.MakeDir(simRoot)
		queue := disk.NewQueue(simdisk.QueueOptions{})
		for name, data := range map[string][]byte{
			sidecar.StorageIDName: old.AppendTo(nil),
			sidecar.RunStateName:  sidecar.RunState{State: sidecar.Running, AcksBeforeSync: true, ID: old}.AppendTo(nil),
		} {
			if err := sidecar.Replace(disk, queue, simRoot, name, data, 0o640, true); err != nil {
				t.Fatal(err)
			}
		}
		cfg := testConfig()
		cfg.FS, cfg.Queue, cfg.Random = disk, queue, nil
		r := &simRig{rig: &rig{TB: t, ctx: deadline(t), root: simRoot, cfg: cfg}, disk: disk}
		images := r.eachImage(func() (err error) {
			r.store, err = engine.OpenStore(r.ctx, simRoot, cfg)
			return err
		}, func(image *rig) {
			if image.store.Identity().ID == old {
				t.Error("the old id is back")
			}
		})
		if r.close(); images < 10 {
			t.Errorf("%d images", images)
		}
	})
}

// What a start goes by is durable once the start has returned, also when a process of
// before put it in its place and could not flush it: another flush would have nothing
// to write.
func TestAStartMakesDurableWhatAFormerProcessCouldNotFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, fail := range map[string]func(r *simRig) error{
			sidecar.RegistrationName: func(r *simRig) error { return r.store.Register(r.ctx, 7) },
			sidecar.StorageIDName: func(r *simRig) error {
				root := r.root
				r.close()
				cfg := r.cfg
				cfg.Random = nil
				_, err := engine.RenewStorageID(t.Context(), root, cfg)
				return err
			},
		} {
			r := newSimRig(t)
			if err := r.store.Register(r.ctx, 5); err != nil {
				t.Fatal(err)
			}
			// Of a renewal's and of a registration's flushes of the root, the last.
			at := 1
			if name == sidecar.StorageIDName {
				at = 2 // the first one notes the stop
			}
			r.disk.FailSync(simdisk.SyncFault{Dirs: true, At: at, Path: suffix(filepath.Base(simRoot))})
			if err := fail(r); !errors.Is(err, syscall.EIO) {
				t.Fatalf("%s: %v", name, err)
			}
			store, disk := openAfterDeath(t, r)
			id, registered := store.Identity().ID, store.Registered()
			for image := range disk.States(simdisk.Bound{StatesMax: imagesAtOnce, Seed: 1}).All() {
				onDisk, err := sidecar.LoadStorageID(image, simRoot)
				if err != nil || onDisk == nil || *onDisk != id {
					t.Errorf("%s: the start has id %v, a power loss leaves %v, %v", name, id, onDisk, err)
				}
				held, err := sidecar.LoadRegistration(image, simRoot)
				if err != nil || held == nil || held.Incarnation != registered {
					t.Errorf("%s: the start knows of registration %d, a power loss leaves %+v, %v", name, registered, held, err)
				}
			}
			if err := store.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if r.store != nil {
				r.close()
			}
		}
	})
}

// A clean stop is not noted when it was none.
func TestAStopThatWasNotCleanIsNotNoted(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, r *rig, disk *faultdisk.Disk){
		"a final flush fails": func(t *testing.T, r *rig, disk *faultdisk.Disk) {
			disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Path: isLog, Errno: syscall.EIO})
			if err := r.store.Close(r.ctx); !errors.Is(err, syscall.EIO) {
				t.Error(err)
			}
		},
		"a log was closed before, and its final flush failed": func(t *testing.T, r *rig, disk *faultdisk.Disk) {
			disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Path: isLog, Errno: syscall.EIO})
			if err := r.log.Close(r.ctx); !errors.Is(err, syscall.EIO) {
				t.Error(err)
			}
			if err := r.store.Close(r.ctx); err != nil {
				t.Error(err)
			}
		},
		"a log is poisoned": func(t *testing.T, r *rig, disk *faultdisk.Disk) {
			disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Path: isLog, Errno: syscall.EIO})
			if err := r.log.Sync(r.ctx); !errors.Is(err, engine.ErrPoisoned) {
				t.Error(err)
			}
			if err := r.store.Close(r.ctx); !errors.Is(err, engine.ErrPoisoned) {
				t.Error(err)
			}
		},
		"closing was cut short": func(t *testing.T, r *rig, disk *faultdisk.Disk) {
			held := hold(t, disk, faultdisk.Flush, isLog, 1)
			cut, cancel := context.WithCancel(r.ctx)
			go func() {
				<-held.Reached()
				cancel()
			}()
			if err := r.store.Close(cut); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		},
		"the note itself is not durable": func(t *testing.T, r *rig, disk *faultdisk.Disk) {
			disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Path: suffix("run-state.tmp"), Errno: syscall.EIO})
			err := r.store.Close(r.ctx)
			if e := errorAs[*engine.IdentityError](t, err); filepath.Base(e.Path) != "run-state" || !errors.Is(err, syscall.EIO) {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk, onDisk := withFaults(t)
			r := newRig(t, onDisk, func(c *engine.Config) { c.FsyncMode, c.FsyncInterval = engine.FsyncPeriodic, 1<<40 })
			r.appendSizes(80)
			spoil(t, r, disk)
			if got := runState(t, r.root); got.State != sidecar.Running || !got.AcksBeforeSync {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Closing that ran out of time may be gone on with, and ends cleanly then.
func TestAStopThatWasGoneOnWithIsClean(t *testing.T) {
	disk, onDisk := withFaults(t)
	r := newRig(t, onDisk, func(c *engine.Config) { c.FsyncMode, c.FsyncInterval = engine.FsyncPeriodic, 1<<40 })
	r.appendSizes(80)
	for _, at := range []string{".log", "run-state.tmp"} {
		held := hold(t, disk, faultdisk.Flush, suffix(at), 1)
		cut, cancel := context.WithCancel(r.ctx)
		go func() {
			<-held.Reached()
			cancel()
		}()
		if err := r.store.Close(cut); !errors.Is(err, context.Canceled) {
			t.Error(at, err)
		}
		if got := runState(t, r.root); got.State != sidecar.Running {
			t.Errorf("%s: %+v", at, got)
		}
		held.Remove()
	}
	if err := r.store.Close(r.ctx); err != nil {
		t.Error(err)
	}
	if got := runState(t, r.root); got.State != sidecar.Stopped {
		t.Errorf("%+v", got)
	}
	r.store = nil
}

// The last word is written when every log's last flush has returned.
func TestACleanStopIsNotedLast(t *testing.T) {
	eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
		disk, onDisk := withFaults(t)
		r := newRig(t, onDisk, mode, func(c *engine.Config) { c.FsyncInterval = 1 << 40 })
		for shard := range 5 {
			putOne(t, r.openWith(1+shard, engine.LogOptions{}))
		}
		r.appendSizes(80)
		before, root := len(disk.Log(faultdisk.Changes)), r.root
		r.close()
		events := disk.Log(faultdisk.Changes)[before:]
		first := slices.IndexFunc(events, func(e faultdisk.Event) bool { return strings.HasPrefix(e.Name, "run-state") })
		if first < 0 || len(events)-first != 5 || events[len(events)-1].Path != root {
			t.Errorf("the last changes are %v", events)
		}
		if got := runState(t, root); got.State != sidecar.Stopped {
			t.Errorf("%+v", got)
		}
	})
}
