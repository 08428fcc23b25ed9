package simdisk_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/device/devicetest"
	"felix.local/felix/fallback"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/uring"
)

// backends are the real queues that a recorder is put over.
func backends() map[string]func(t testing.TB) device.Queue {
	return map[string]func(t testing.TB) device.Queue{
		"pool": func(testing.TB) device.Queue { return fallback.Open(fallback.Options{}) },
		"ring": func(t testing.TB) device.Queue {
			ring, err := uring.Open(uring.Options{})
			if err != nil {
				t.Skip("no io_uring here:", err)
			}
			return ring
		},
	}
}

func record(t testing.TB, fs device.FS, queue device.Queue, dir string) *simdisk.Recorder {
	t.Helper()
	r, err := simdisk.Record(fs, queue, dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestARecordedDiskKeepsEveryPromiseOfADisk(t *testing.T) {
	for name, open := range backends() {
		t.Run(name, func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T) devicetest.Disk {
				dir := t.TempDir()
				r := record(t, device.OS(), open(t), dir)
				return devicetest.Disk{FS: r.FS(), Queue: r.Queue(), Root: dir}
			})
		})
	}
}

// eachRecorded runs a test on a recorder over each backend, in a directory with
// one durable file "old" of a page of a.
func eachRecorded(t *testing.T, test func(t *testing.T, r *simdisk.Recorder, dir string)) {
	for name, open := range backends() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "old"), fill('a', page), 0o640); err != nil {
				t.Fatal(err)
			}
			r := record(t, device.OS(), open(t), dir)
			test(t, r, dir)
			if err := r.Queue().Close(); err != nil {
				t.Fatal(err)
			}
			if n := r.Untracked(); n != 0 {
				t.Fatalf("%d calls were not followed", n)
			}
		})
	}
}

// crashed gives the contents of a file in many images built as real files.
func crashed(t *testing.T, r *simdisk.Recorder, name string) map[string]int {
	t.Helper()
	found := map[string]int{}
	for seed := range uint64(40) {
		dir := filepath.Join(t.TempDir(), "image")
		if err := r.CrashInto(simdisk.CrashOptions{Seed: seed}, dir); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case errors.Is(err, os.ErrNotExist):
			found["gone"]++
		case err != nil:
			t.Fatal(err)
		default:
			found[fmt.Sprintf("%d bytes, %d of a, %d of b", len(b), bytes.Count(b, []byte("a")), bytes.Count(b, []byte("b")))]++
		}
	}
	return found
}

func TestARecorderKnowsWhatSyncsOfRealFilesCovered(t *testing.T) {
	eachRecorded(t, func(t *testing.T, r *simdisk.Recorder, dir string) {
		do := func(op *device.Op) {
			t.Helper()
			if err := device.Do(r.Queue(), op); err != nil {
				t.Fatal(err)
			}
		}
		old, err := r.FS().OpenFile(filepath.Join(dir, "old"), device.ReadWrite, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer old.Close()
		if got := crashed(t, r, "old"); len(got) != 1 || got["4096 bytes, 4096 of a, 0 of b"] == 0 {
			t.Fatal("what was there before is durable:", got)
		}
		do(&device.Op{Kind: device.Write, File: old, Buf: fill('b', page)})
		if got := crashed(t, r, "old"); got["4096 bytes, 4096 of a, 0 of b"] == 0 || got["4096 bytes, 0 of a, 4096 of b"] == 0 {
			t.Fatal("a write that was not flushed:", got)
		}
		do(&device.Op{Kind: device.Flush, File: old})
		if got := crashed(t, r, "old"); len(got) != 1 || got["4096 bytes, 0 of a, 4096 of b"] == 0 {
			t.Fatal("a flushed write:", got)
		}
		do(&device.Op{Kind: device.WriteDsync, File: old, Buf: fill('a', 100), Pos: page})
		if got := crashed(t, r, "old"); len(got) != 1 || got["4196 bytes, 100 of a, 4096 of b"] == 0 {
			t.Fatal("a dsync write:", got)
		}
		made, err := r.FS().OpenFile(filepath.Join(dir, "new"), device.CreateNew, 0o640)
		if err != nil {
			t.Fatal(err)
		}
		defer made.Close()
		if got := crashed(t, r, "new"); got["gone"] == 0 || got["0 bytes, 0 of a, 0 of b"] == 0 {
			t.Fatal("a new name:", got)
		}
		parent, err := r.FS().OpenDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer parent.Close()
		do(&device.Op{Kind: device.FlushAll, File: parent})
		if got := crashed(t, r, "new"); got["gone"] != 0 {
			t.Fatal("a flushed name:", got)
		}
	})
}

// A write past the page cache may be in the device's own, and is durable no sooner than
// any other.
func TestARecorderFollowsWritesPastThePageCache(t *testing.T) {
	eachRecorded(t, func(t *testing.T, r *simdisk.Recorder, dir string) {
		arena := device.NewArena()
		defer arena.Close()
		buf, err := arena.Take(page)
		if err != nil {
			t.Fatal(err)
		}
		defer arena.Give(buf)
		copy(buf, fill('b', page))
		file, err := r.FS().OpenFile(filepath.Join(dir, "old"), device.ReadWriteDirect, 0)
		if err == nil {
			defer file.Close()
			err = device.Do(r.Queue(), &device.Op{Kind: device.Write, File: file, Buf: buf[:page]})
		}
		if errors.Is(err, syscall.EINVAL) {
			t.Skip("the filesystem has no way past the page cache")
		}
		if err != nil {
			t.Fatal(err)
		}
		const before, after = "4096 bytes, 4096 of a, 0 of b", "4096 bytes, 0 of a, 4096 of b"
		if got := crashed(t, r, "old"); got[before] == 0 || got[after] == 0 {
			t.Fatal("a write that was not flushed:", got)
		}
		if err := device.Do(r.Queue(), &device.Op{Kind: device.WriteDsync, File: file, Buf: buf[:page]}); err != nil {
			t.Fatal(err)
		}
		if got := crashed(t, r, "old"); len(got) != 1 || got[after] == 0 {
			t.Fatal("a dsync write:", got)
		}
	})
}

func TestARecorderStaysInStepWithTheRealFiles(t *testing.T) {
	eachRecorded(t, func(t *testing.T, r *simdisk.Recorder, dir string) {
		const seed = 7
		t.Logf("seed %d", seed)
		rand := simdisk.NewRand(seed)
		for i := range 200 {
			name := filepath.Join(dir, fmt.Sprint("f", rand.Below(5)))
			f, err := r.FS().OpenFile(name, device.OpenOrCreate, 0o640)
			if err != nil {
				t.Fatal(err)
			}
			kind := []device.Kind{device.Write, device.WriteDsync, device.Flush}[rand.Below(3)]
			op := &device.Op{Kind: kind, File: f, Pos: int64(rand.Below(3 * page))}
			if kind != device.Flush {
				op.Buf = fill(byte('a'+i%26), int(rand.Below(2*page)))
			}
			if i%2 == 0 {
				err = device.Do(r.Queue(), op)
			} else {
				_, err = f.Perform(op)
			}
			if err == nil && rand.Below(5) == 0 {
				err = f.Truncate(int64(rand.Below(3 * page)))
			}
			if err == nil {
				err = f.Close()
			}
			if err == nil && rand.Below(8) == 0 {
				err = r.FS().Rename(name, filepath.Join(dir, "f0"))
			}
			if err == nil && rand.Below(8) == 0 {
				err = r.FS().Remove(filepath.Join(dir, "f0"))
				if device.IsNotExist(err) {
					err = nil
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		imported := simdisk.New()
		imported.MakeDir(dir)
		if err := imported.Import(dir, dir); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"f0", "f1", "f2", "f3", "f4", "old"} {
			want, err := os.ReadFile(filepath.Join(dir, name))
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			got := make([]byte, len(want))
			f, err := r.Model().OpenFile(filepath.Join(dir, name), device.ReadOnly, 0)
			if err != nil {
				t.Fatal(err)
			}
			if size, _ := f.Size(); size != int64(len(want)) {
				t.Fatalf("%s has %d bytes in the model and %d on the disk", name, size, len(want))
			}
			if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s differs: %v", name, err)
			}
			f.Close()
		}
		if r.Model().Digest() != imported.Digest() {
			t.Fatal("names or permissions differ")
		}
	})
}

func TestAFlushThatFailsOnTheRealDiskLosesThePagesInTheModel(t *testing.T) {
	dir := t.TempDir()
	faulty := faultdisk.New(device.OS(), fallback.Open(fallback.Options{}), faultdisk.Options{})
	r := record(t, faulty.FS(), faulty.Queue(), dir)
	faulty.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Errno: syscall.EIO})
	f, err := r.FS().OpenFile(filepath.Join(dir, "f"), device.CreateNew, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Perform(&device.Op{Kind: device.Write, File: f, Buf: fill('a', 10)}); err != nil {
		t.Fatal(err)
	}
	flush := &device.Op{Kind: device.Flush, File: f}
	if err := device.Do(r.Queue(), flush); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	if err := device.Do(r.Queue(), flush); err != nil {
		t.Fatal(err)
	}
	for state := range crashed(t, r, "f") {
		if state != "gone" && state != "10 bytes, 0 of a, 0 of b" {
			t.Fatal(state)
		}
	}
	f.Close()
	if err := r.Queue().Close(); err != nil {
		t.Fatal(err)
	}
}

func TestExportAndImportAreInverse(t *testing.T) {
	r := newRig(t)
	r.must(r.Mkdir(path("d"), 0o750))
	f := r.create("d/f")
	r.write(f, 3*page+5, fill('a', 2*page))
	r.must(f.Truncate(9*page + 1))
	r.create("empty")
	dir := filepath.Join(t.TempDir(), "export")
	r.must(r.Export(root, dir))
	back := simdisk.New()
	back.MakeDir(root)
	r.must(back.Import(dir, root))
	if back.Digest() != r.Digest() {
		t.Fatal("not the same disk")
	}
	if doubt := back.Doubt(); doubt != (simdisk.Doubt{}) {
		t.Fatalf("imported files are durable: %+v", doubt)
	}
}
