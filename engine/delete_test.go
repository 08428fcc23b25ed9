package engine_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/segment"
	"felix.local/felix/sidecar"
)

// names lists a directory; one that does not exist holds nothing.
func names(t testing.TB, dir string) (found []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		found = append(found, e.Name())
	}
	return found
}

func (r *rig) bin() string { return filepath.Join(r.root, ".deleted") }

func (r *rig) delete(shard int) {
	r.Helper()
	if err := r.store.DeleteLog(r.ctx, testKey(shard)); err != nil {
		r.Fatal(err)
	}
}

// A shard that was deleted is gone with its files, open or not, and its key begins
// anew; other shards are as they were.
func TestADeletedShardIsGoneAndItsKeyBeginsAnew(t *testing.T) {
	eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
		for name, open := range map[string]bool{"open": true, "closed": false} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newFlushRig(t, engine.FsyncNone, true, mode)
					other := r.openWith(1, engine.LogOptions{})
					for range 30 {
						putOne(t, r.log)
						putOne(t, other)
					}
					deleted := r.log
					if !open {
						if err := deleted.Close(r.ctx); err != nil {
							t.Fatal(err)
						}
					}
					r.delete(0)
					synctest.Wait() // reclaimed
					if left := names(t, r.bin()); len(left) > 0 {
						t.Errorf("left of deleted shards: %q", left)
					}
					if left := names(t, deleted.Dir()); len(left) > 0 {
						t.Errorf("left of the shard: %q", left)
					}
					_, err := deleted.Append(r.ctx, engine.Record{})
					errorAs[*engine.ClosedError](t, err)
					_, err = deleted.ReadRange(r.ctx, 0, 1)
					errorAs[*engine.ClosedError](t, err)

					anew := r.openWith(0, engine.LogOptions{Base: 7})
					if base, tail := anew.BaseOffset(), anew.TailOffset(); base != 7 || tail != 7 {
						t.Errorf("the key begins anew with [%d, %d)", base, tail)
					}
					if at := putOne(t, anew); at != 7 {
						t.Errorf("the first record is %d", at)
					}
					if n := len(readAll(t, r.ctx, other)); n != 30 {
						t.Errorf("the other shard has %d records", n)
					}
					r.close()
				})
			})
		}
	})
}

// shardNames are the directories of a root.
func shardNames(t testing.TB, root string) []string {
	t.Helper()
	return slices.DeleteFunc(names(t, root), func(name string) bool {
		return name == sidecar.StorageIDName || name == sidecar.RunStateName
	})
}

// Deleting again is not an error, also what never was.
func TestDeletingAShardThatIsNotThereIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFlushRig(t, engine.FsyncOnCommit, false)
		before := shardNames(t, r.root)
		for _, shard := range []int{5, 0, 0} {
			r.delete(shard)
		}
		synctest.Wait()
		if got := shardNames(t, r.root); len(got) != 1 || got[0] != ".deleted" || len(before) != 1 {
			t.Errorf("the root held %q and holds %q", before, got)
		}
		if left := names(t, r.bin()); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// A shard that serves nobody can be deleted, and its key works again.
func TestAShardThatIsPoisonedOrRefusedCanBeDeleted(t *testing.T) {
	disk, onDisk := withFaults(t)
	r := newRig(t, onDisk)
	r.appendSizes(80)
	disk.Inject(faultdisk.Fault{Kinds: faultdisk.WriteDsync, Path: isLog, Errno: syscall.EIO})
	_, err := r.log.Append(r.ctx, engine.Record{})
	errorAs[*engine.PoisonedError](t, err)
	r.delete(0)
	l := r.openWith(0, engine.LogOptions{})
	putOne(t, l)
	if _, err := l.Seal(r.ctx); err != nil {
		t.Fatal(err)
	}
	putOne(t, l)
	if err := l.Close(r.ctx); err != nil {
		t.Fatal(err)
	}

	first := filepath.Join(l.Dir(), segment.LogName(l.Segments()[0].ID))
	b, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(first, bytes.Repeat([]byte{0xff}, len(b)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.OpenLog(r.ctx, testKey(0)); err == nil {
		t.Fatal("a log of rot was opened")
	}
	r.delete(0)
	if l = r.openWith(0, engine.LogOptions{}); l.TailOffset() != 0 {
		t.Errorf("the tail is %d", l.TailOffset())
	}
	putOne(t, l)

	r.delete(0)
	if err := os.WriteFile(l.Dir(), []byte("no directory"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.OpenLog(r.ctx, testKey(0)); err == nil {
		t.Fatal("a file was opened as a shard")
	}
	r.delete(0)
	putOne(t, r.openWith(0, engine.LogOptions{}))
}

// One at a time opens or deletes a shard; who comes meanwhile is told.
func TestADeletionAndAnOpeningExcludeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFlushRig(t, engine.FsyncOnCommit, false)
		putOne(t, r.log)
		held := hold(t, r.disk, faultdisk.FlushDir, named(".deleted"), 1)
		deleted := make(chan error, 1)
		go func() { deleted <- r.store.DeleteLog(r.ctx, testKey(0)) }()
		synctest.Wait()
		_, err := r.store.OpenLog(r.ctx, testKey(0))
		errorAs[*engine.DeletingError](t, err)
		errorAs[*engine.DeletingError](t, r.store.DeleteLog(r.ctx, testKey(0)))
		r.delete(1) // another shard waits for nothing
		held.Release()
		if err := <-deleted; err != nil {
			t.Error(err)
		}

		held = hold(t, r.disk, faultdisk.Create, isLog, 1)
		opened := make(chan error, 1)
		go func() {
			_, err := r.store.OpenLog(r.ctx, testKey(0))
			opened <- err
		}()
		synctest.Wait()
		errorAs[*engine.AlreadyOpenError](t, r.store.DeleteLog(r.ctx, testKey(0)))
		held.Release()
		if err := <-opened; err != nil {
			t.Error(err)
		}
		r.delete(0)
		store := r.store
		r.close()
		errorAs[*engine.ClosedError](t, store.DeleteLog(r.ctx, testKey(0)))
	})
}

// A log that cannot be closed in time is not deleted, and can be later.
func TestADeletionEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFlushRig(t, engine.FsyncNone, false)
		putOne(t, r.log)
		held := hold(t, r.disk, faultdisk.Flush, isLog, 1)
		ctx, cancel := context.WithCancel(r.ctx)
		deleted := make(chan error, 1)
		go func() { deleted <- r.store.DeleteLog(ctx, testKey(0)) }()
		synctest.Wait()
		cancel()
		if err := <-deleted; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if len(names(t, r.log.Dir())) == 0 {
			t.Error("the shard is gone")
		}
		held.Release()
		r.delete(0)
		r.close()
	})
}

// The old name is given up before the new one is durable, and both are before a
// file is removed.
func TestADeletionIsDurableBeforeAnyFileGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFlushRig(t, engine.FsyncOnCommit, false)
		r.until(func() bool { return r.active().ID >= 3 })
		first, dir, root := r.log.Segments()[0].ID, r.dirName(), filepath.Base(r.root)
		moment := r.now()
		r.delete(0)
		synctest.Wait()
		flush := func(name string) event { return event{kinds: faultdisk.FlushDir, name: name} }
		r.inOrder(moment,
			markSync(), event{kinds: faultdisk.Mkdir, name: ".deleted"}, flush(root),
			event{kinds: faultdisk.Rename, name: dir}, flush(root), flush(".deleted"),
			event{kinds: faultdisk.Remove, name: segment.LogName(first)},
		)
		removed := r.disk.Log(faultdisk.Remove)
		for _, e := range removed {
			if !bytes.Contains([]byte(e.Path), []byte(".deleted")) {
				t.Errorf("removed %s", e.Path)
			}
		}
		if len(removed) < 6 {
			t.Errorf("%d files removed", len(removed))
		}
		r.close()
	})
}

// No room for a name is no deletion, and says so.
func TestADeletionOnAFullDiskIsRefused(t *testing.T) {
	disk, onDisk := withFaults(t)
	r := newRig(t, onDisk)
	r.appendSizes(80)
	full := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Mkdir, Errno: syscall.ENOSPC, Times: faultdisk.Forever})
	errorAs[*engine.FullError](t, r.store.DeleteLog(r.ctx, testKey(0)))
	if l := r.openWith(0, engine.LogOptions{}); l.TailOffset() != 1 {
		t.Errorf("the tail is %d", l.TailOffset())
	}
	full.Remove()
	r.delete(0)
}

// Appends, deletions and openings of the same shards beside each other: whoever
// is let through finds a whole log, and what an append was told holds while the
// shard is not deleted.
func TestDeletionsBesideAppendsAndOpenings(t *testing.T) {
	r := newRig(t, func(c *engine.Config) { c.SegmentBytes, c.RolloverThresholdPercent = 512, 50 })
	const shards, workers, turns = 3, 8, 40
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for turn := range turns {
				key := testKey(1 + (w+turn)%shards)
				if (w+turn)%7 == 0 {
					var deleting *engine.DeletingError
					var opening *engine.AlreadyOpenError
					if err := r.store.DeleteLog(r.ctx, key); err != nil && !errors.As(err, &deleting) && !errors.As(err, &opening) {
						t.Errorf("delete: %v", err)
					}
					continue
				}
				l, err := r.store.OpenLog(r.ctx, key)
				if err != nil {
					continue // somebody else has it
				}
				for range 20 {
					if _, err := l.Append(r.ctx, engine.Record{Payload: payload(uint64(turn), 60)}); errors.Is(err, engine.ErrClosed) {
						break
					} else if err != nil {
						t.Errorf("append: %v", err)
					}
				}
				if err := l.Close(r.ctx); err != nil && !errors.Is(err, engine.ErrClosed) {
					t.Errorf("close: %v", err)
				}
			}
		})
	}
	all.Wait()
	r.reopen()
	for shard := range shards {
		readAll(t, r.ctx, r.openWith(1+shard, engine.LogOptions{}))
	}
}
