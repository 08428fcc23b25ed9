package engine_test

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/sidecar"
)

// A root that a restore did not fill is not opened, and stays as it is.
func TestARootThatIsNotWhollyRestoredIsRefused(t *testing.T) {
	root := memoryDir(t)
	put(t, root, engine.RestoringName, nil)
	before := snapshot(t, root)
	_, err := openRoot(t, root)
	if e := errorAs[*engine.IdentityError](t, err); e.Path != filepath.Join(root, engine.RestoringName) || !strings.Contains(err.Error(), "felixd restore") {
		t.Error(err)
	}
	sameFiles(t, before, snapshot(t, root))
}

// A new id is for a root that nobody uses; the next start keeps it.
func TestARenewedIDIsKeptByTheNextStart(t *testing.T) {
	r := newRig(t)
	old, root := r.store.Identity().ID, r.root
	cfg := r.cfg
	cfg.Random = nil
	_, err := engine.RenewStorageID(r.ctx, root, cfg)
	errorAs[*device.LockedError](t, err)
	_, err = engine.RenewStorageID(expired(), root, cfg)
	errorAs[*engine.LogError](t, err)
	r.close()
	id, err := engine.RenewStorageID(t.Context(), root, cfg)
	if err != nil || id == old {
		t.Fatal(id, err)
	}
	report, err := engine.InspectIdentity(device.OS(), root, 0)
	if err != nil || report.NewID || *report.ID != id || report.Previous != engine.RunStopped {
		t.Errorf("%+v, %v", report, err)
	}
	if got, err := openRoot(t, root); err != nil || got.ID != id || got.Fresh {
		t.Errorf("%+v, %v", got, err)
	}
}

// A start on a disk that takes no writes, or is full, says so and leaves no log open,
// no lock held and no file half written.
func TestAStartThatCannotWriteItsIdentityIsRefused(t *testing.T) {
	for errno, is := range map[syscall.Errno]error{syscall.EROFS: device.ErrReadOnly, syscall.ENOSPC: engine.ErrFull, syscall.EIO: device.ErrIO} {
		for _, name := range []string{sidecar.StorageIDName, sidecar.RunStateName} {
			for _, kind := range []faultdisk.Kinds{faultdisk.Create, faultdisk.Write, faultdisk.Flush, faultdisk.Rename} {
				w := newFaultWorld(filepath.Join(fastDir(t), "root"), sharedPool(t), faultConfig(engine.FsyncPeriodic, false), faultdisk.Options{})
				fault := w.disk.Inject(faultdisk.Fault{Kinds: kind, Path: suffix(name + ".tmp"), Errno: errno})
				_, _, err := w.open(t.Context())
				if !errors.Is(err, is) || !errors.Is(err, errno) || !strings.Contains(err.Error(), name) || fault.Hits() != 1 {
					t.Errorf("%v of %s, %v: %v", kind, name, errno, err)
				}
				if n := w.fs.open.Load(); n != 0 {
					t.Errorf("%v of %s, %v: %d files are open", kind, name, errno, n)
				}
				store, _, err := w.open(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if err := store.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
	}
}
