package engine_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
)

// reclaimRig has shards 1 to n with a few segments each, and a clock of which
// every look is a microsecond later.
func reclaimRig(t *testing.T, n int) *flushRig {
	t.Helper()
	now := uint64(fixedMicros)
	r := newFlushRig(t, engine.FsyncNone, false, func(c *engine.Config) {
		c.NowMicros = func() uint64 { now++; return now }
	})
	for shard := 1; shard <= n; shard++ {
		l := r.openWith(shard, engine.LogOptions{})
		for range 30 {
			putOne(t, l)
		}
	}
	return r
}

// removed are the files that were removed, below .deleted, by shard and in order.
func (r *flushRig) removed() (shards []string, files map[string][]string) {
	files = make(map[string][]string)
	for _, e := range r.disk.Log(faultdisk.Remove) {
		if rest, ok := strings.CutPrefix(e.Path, r.bin()+"/"); ok && e.End > 0 && e.Err == nil {
			shard, file, _ := strings.Cut(rest, "/")
			if !slices.Contains(shards, shard) {
				shards = append(shards, shard)
			}
			files[shard] = append(files[shard], file)
		}
	}
	return shards, files
}

// The shard deleted first is freed first, its oldest segment in front, one file at
// a time whatever is deleted meanwhile.
func TestDeletedShardsAreFreedOldestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reclaimRig(t, 3)
		held := hold(t, r.disk, faultdisk.Remove, nil, faultdisk.Forever)
		for _, shard := range []int{2, 3, 1} {
			r.delete(shard)
		}
		synctest.Wait()
		if n := held.Hits(); n != 1 {
			t.Errorf("%d removals under way", n)
		}
		waiting := names(t, r.bin())
		held.Remove()
		synctest.Wait()
		shards, files := r.removed()
		for i, shard := range []int{2, 3, 1} {
			if len(shards) != 3 || !strings.HasPrefix(shards[i], testKey(shard).DirName()+".") {
				t.Fatalf("freed %q", shards)
			}
			order := files[shards[i]]
			if len(order) < 6 || !slices.IsSorted(order[:len(order)-1]) || order[len(order)-1] != "" {
				t.Errorf("removed %q", order)
			}
		}
		if left := names(t, r.bin()); len(waiting) != 3 || len(left) != 0 {
			t.Errorf("%q waited, %q are left", waiting, left)
		}
		r.close()
	})
}

// closingBesideRemovals is a store that closes while the first file of two deleted
// shards is held in its removal.
func closingBesideRemovals(t *testing.T) (r *flushRig, held *faultdisk.Injected, closed chan error) {
	t.Helper()
	r = reclaimRig(t, 2)
	held = hold(t, r.disk, faultdisk.Remove, nil, faultdisk.Forever)
	r.delete(1)
	r.delete(2)
	synctest.Wait()
	closed = make(chan error, 1)
	go func() { closed <- r.store.Close(r.ctx) }()
	synctest.Wait()
	return r, held, closed
}

// Closing a store waits for the file that is being removed and leaves the others
// to the next one, which leaves alone what is no deleted shard.
func TestClosingWaitsForOneFileAndTheNextStoreFreesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, held, closed := closingBesideRemovals(t)
		select {
		case err := <-closed:
			t.Fatal("closed beside a removal:", err)
		default:
		}
		held.Release()
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		if _, files := r.removed(); len(files) != 1 || held.Hits() != 1 {
			t.Errorf("removed %q with %d removals", files, held.Hits())
		}
		foreign := []string{"by hand", "x.1-y", "x.", ".1", "1", "x.-1"}
		for _, name := range foreign {
			if err := os.Mkdir(filepath.Join(r.bin(), name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		r.open()
		synctest.Wait()
		slices.Sort(foreign)
		if left := names(t, r.bin()); !slices.Equal(left, foreign) {
			t.Errorf("left %q, want %q", left, foreign)
		}
		r.close()
	})
}

// What an earlier run deleted may be gone in the page cache alone: it is gone from the
// device, and under its new name there, before any file of it is removed.
func TestWhatAnEarlierRunDeletedIsDurablyGoneBeforeItsFilesAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, held, closed := closingBesideRemovals(t)
		held.Release()
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		moment := r.now()
		r.open()
		synctest.Wait()
		flush := func(name string) event { return event{kinds: faultdisk.FlushDir, name: name} }
		flushed := r.inOrder(moment, flush(filepath.Base(r.root)), flush(".deleted"))
		for _, e := range r.after(moment) {
			if e.Kind == faultdisk.Remove && strings.HasPrefix(e.Path, r.bin()) && e.Start < flushed[1].End {
				t.Errorf("%s is removed before it is durably gone", e.Path)
			}
		}
		r.close()
	})
}

// Deletions of one shard within a microsecond are told apart.
func TestAShardDeletedTwiceAtOneMomentIsFreedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFlushRig(t, engine.FsyncNone, false)
		held := hold(t, r.disk, faultdisk.Remove, nil, 1)
		for range 12 {
			putOne(t, r.openWith(1, engine.LogOptions{}))
			r.delete(1)
		}
		synctest.Wait()
		if n := len(names(t, r.bin())); n != 12 {
			t.Errorf("%d deleted shards", n)
		}
		held.Remove()
		synctest.Wait()
		shards, _ := r.removed()
		if left := names(t, r.bin()); len(left) > 0 || len(shards) != 12 {
			t.Errorf("freed %q, left %q", shards, left)
		}
		name := testKey(1).DirName()
		if shards[1] != name+".1700000000000000-1" || shards[10] != name+".1700000000000000-10" {
			t.Errorf("freed in the order %q", shards)
		}
		r.close()
	})
}

// A file that cannot be removed keeps its own shard alone; the next deletion tries
// again.
func TestAFileThatStaysKeepsNoOtherShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reclaimRig(t, 3)
		stuck := r.disk.Inject(faultdisk.Fault{
			Kinds: faultdisk.Remove, Times: faultdisk.Forever, Errno: syscall.EACCES,
			Path: func(path string) bool { return strings.Contains(path, testKey(1).DirName()) },
		})
		r.delete(1)
		r.delete(2)
		synctest.Wait()
		if left := names(t, r.bin()); len(left) != 1 || !strings.HasPrefix(left[0], testKey(1).DirName()) {
			t.Errorf("left %q", left)
		}
		stuck.Remove()
		r.delete(3)
		synctest.Wait()
		if left := names(t, r.bin()); len(left) != 0 {
			t.Errorf("left %q", left)
		}
		r.close()
	})
}

// A tool that opens one shard directory by itself frees nothing.
func TestATaskOnOneDirectoryFreesNothing(t *testing.T) {
	r := newRig(t)
	dir := r.log.Dir()
	r.close()
	inside := filepath.Join(dir, ".deleted", "x.1")
	if err := os.MkdirAll(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	store, _, err := engine.OpenSingle(r.ctx, dir, "one", r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(inside); err != nil {
		t.Error(err)
	}
}
