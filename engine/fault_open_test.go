package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/segment"
)

// damagedShard makes a directory whose recovery has to cut a tail with a side
// copy, set a file aside, rebuild and remove indexes. It returns the number of
// records that the log has.
func damagedShard(t testing.TB, root string, pool device.Queue) (records uint64) {
	t.Helper()
	cfg := faultConfig(engine.FsyncOnCommit, false)
	cfg.Queue = pool
	store, err := engine.OpenStore(context.Background(), root, cfg)
	if err != nil {
		t.Fatal(err)
	}
	log, err := store.OpenLog(context.Background(), testKey(0))
	if err != nil {
		t.Fatal(err)
	}
	for records = range 30 {
		if _, err := log.Append(context.Background(), engine.Record{Payload: payload(records, 80)}); err != nil {
			t.Fatal(err)
		}
	}
	records++
	segments := log.Segments()
	newest := segments[len(segments)-1]
	if err := store.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	torn := make([]byte, segment.EncodedSize(segment.Mark{}, 80))
	segment.EncodeRecord(torn, records, fixedMicros, segment.Mark{}, payload(records, 80))
	file := func(name string) string { return filepath.Join(log.Dir(), name) }
	for _, err := range []error{
		appendTo(file(segment.LogName(newest.ID)), torn[:70]),
		os.Remove(file(segment.IndexName(segments[0].ID))),
		os.WriteFile(file(segment.LogName(newest.ID+1)), append(make([]byte, 64), "left by a crash"...), 0o640),
		os.WriteFile(file(segment.IndexName(newest.ID+7)), nil, 0o640),
		os.WriteFile(file("epochs.tmp"), []byte("x"), 0o640),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return records
}

func appendTo(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// Whatever fails while a damaged log is recovered, the open that failed acknowledged
// nothing and lost nothing: the next one does the rest.
func TestEveryFailureDuringRecoveryIsTypedAndTheNextOpenHoldsEverything(t *testing.T) {
	pool := sharedPool(t)
	dir := fastDir(t)
	template := filepath.Join(dir, "template")
	records := damagedShard(t, template, pool)
	clean := openCopy(t, template, filepath.Join(dir, "clean"), pool)
	if r := clean.log.Recovery(); len(r.SideCopies) != 2 || r.TruncatedBytes == 0 || r.IndexRebuilds == 0 || len(r.Steps) < 5 {
		t.Fatalf("the directory is not damaged as meant: %+v", r)
	}
	clean.close()
	cells := 0
	kinds := append([]faultdisk.Kinds{faultdisk.Rename, faultdisk.Read, faultdisk.ReadDir, faultdisk.Lstat, faultdisk.DropCache, faultdisk.Lock}, failedKinds...)
	for _, kind := range kinds {
		before := cells
		for _, errno := range failedErrnos {
			for k := 1; ; k++ {
				root := filepath.Join(dir, "run")
				copyTree(t, template, root)
				w := newFaultWorld(root, pool, faultConfig(engine.FsyncOnCommit, false), faultdisk.Options{})
				injected := w.disk.Inject(faultdisk.Fault{Kinds: kind, Errno: errno, At: k})
				store, _, err := w.open(context.Background())
				if err != nil && (!errors.Is(err, errno) || device.ClassOf(err) == device.ClassNone) {
					t.Errorf("%v number %d, %v: %v", kind, k, errno, err)
				}
				injected.Remove()
				if store != nil {
					if err := store.Close(context.Background()); err != nil {
						t.Errorf("%v number %d, %v: close: %v", kind, k, errno, err)
					}
				}
				if n := w.fs.open.Load(); n != 0 {
					t.Errorf("%v number %d, %v: %d files are still open", kind, k, errno, n)
				}
				for _, problem := range w.mark.problems() {
					t.Errorf("%v number %d, %v: %s", kind, k, errno, problem)
				}
				again := openCopy(t, root, "", pool)
				again.wantRecords(records)
				again.close()
				if err := os.RemoveAll(root); err != nil {
					t.Fatal(err)
				}
				if injected.Hits() == 0 {
					break
				}
				cells++
			}
		}
		// A log that is there is recovered without these two.
		never := kind&(faultdisk.Allocate|faultdisk.Mkdir) != 0
		if met := cells - before; met == 0 != never {
			t.Errorf("%d times %v failed", met, kind)
		}
	}
	t.Logf("%d cells", cells)
}

// opened is a store on a healthy disk.
type opened struct {
	testing.TB
	store *engine.Store
	log   *engine.Log
}

// openCopy opens a directory, or a copy of it when target is given.
func openCopy(t testing.TB, root, target string, pool device.Queue) *opened {
	t.Helper()
	if target != "" {
		copyTree(t, root, target)
		root = target
	}
	cfg := faultConfig(engine.FsyncOnCommit, false)
	cfg.Queue = pool
	store, err := engine.OpenStore(context.Background(), root, cfg)
	if err != nil {
		t.Fatal(err)
	}
	log, err := store.OpenLog(context.Background(), testKey(0))
	if err != nil {
		t.Fatal(errors.Join(err, store.Close(context.Background())))
	}
	return &opened{TB: t, store: store, log: log}
}

func (o *opened) close() {
	o.Helper()
	if err := o.store.Close(context.Background()); err != nil {
		o.Fatal(err)
	}
}

// wantRecords compares the log with payload(offset, 80).
func (o *opened) wantRecords(n uint64) {
	o.Helper()
	if tail := o.log.TailOffset(); tail != n {
		o.Errorf("the tail is %d, want %d", tail, n)
	}
	for _, record := range readAll(o, context.Background(), o.log) {
		if !bytes.Equal(record.Payload, payload(record.Offset, 80)) {
			o.Errorf("record %d reads back differently", record.Offset)
		}
	}
}

// copyTree copies a directory as it is now; names that vanish meanwhile are
// skipped.
func copyTree(t testing.TB, from, to string) {
	t.Helper()
	entries, err := os.ReadDir(from)
	if err != nil {
		if os.IsNotExist(err) {
			return
		}
		t.Fatal(err)
	}
	if err := os.MkdirAll(to, 0o750); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		if e.IsDir() {
			copyTree(t, source, target)
			continue
		}
		b, err := os.ReadFile(source)
		if os.IsNotExist(err) {
			continue
		}
		if err == nil {
			err = os.WriteFile(target, b, 0o640)
		}
		if err != nil {
			t.Fatal(fmt.Errorf("copying %s: %w", source, err))
		}
	}
}
