package devicetest

import (
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"felix.local/felix/device"
)

var namespaceFacts = []fact{
	{"create new makes an empty file, once", createNewOnce},
	{"create new is won by one of many", createNewRace},
	{"opening what does not exist fails", openMissing},
	{"open or create does either, and keeps content", openOrCreate},
	{"permissions are exact", exactPermissions},
	{"a directory and a file are not opened as each other", kindsDiffer},
	{"rename replaces its target", renameReplaces},
	{"rename moves between directories", renameMoves},
	{"rename of what does not exist fails", renameMissing},
	{"remove unlinks files and empty directories alone", removes},
	{"mkdir makes one directory, once", mkdirOnce},
	{"a listing is sorted, with types", listingIsSorted},
	{"lstat tells size, kind and identity", lstatTells},
	{"space is told", spaceIsTold},
}

func createNewOnce(e *env) {
	e.wantSize(e.create("f"), 0)
	e.write(e.open("f", device.ReadWrite), e.buffer(10, 1), 0)
	_, err := e.FS.OpenFile(e.path("f"), device.CreateNew, 0o640)
	e.wantFailure(err, e.path("f"), fs.ErrExist)
	if n := len(e.content("f")); n != 10 {
		e.Fatalf("%d bytes left", n)
	}
	e.must(e.FS.Mkdir(e.path("d"), 0o750))
	_, err = e.FS.OpenFile(e.path("d"), device.CreateNew, 0o640)
	e.wantFailure(err, e.path("d"), fs.ErrExist)
}

func createNewRace(e *env) {
	var all sync.WaitGroup
	var won atomic.Int32
	for range 8 {
		all.Go(func() {
			if f, err := e.FS.OpenFile(e.path("f"), device.CreateNew, 0o640); err == nil {
				won.Add(1)
				f.Close()
			}
		})
	}
	all.Wait()
	if n := won.Load(); n != 1 {
		e.Fatalf("%d winners", n)
	}
}

func openMissing(e *env) {
	for _, mode := range []device.OpenMode{device.ReadOnly, device.ReadWrite, device.ReadWriteDirect} {
		_, err := e.FS.OpenFile(e.path("no"), mode, 0o640)
		e.wantFailure(err, e.path("no"), fs.ErrNotExist)
	}
	for _, mode := range []device.OpenMode{device.CreateNew, device.OpenOrCreate} {
		_, err := e.FS.OpenFile(e.path("no/f"), mode, 0o640)
		e.wantFailure(err, e.path("no/f"), fs.ErrNotExist)
	}
	_, err := e.FS.OpenDir(e.path("no"))
	e.wantFailure(err, e.path("no"), fs.ErrNotExist)
	_, err = e.FS.ReadDir(e.path("no"))
	e.wantFailure(err, e.path("no"), fs.ErrNotExist)
	_, err = e.FS.Lstat(e.path("no"))
	e.wantFailure(err, e.path("no"), fs.ErrNotExist)
}

func openOrCreate(e *env) {
	b := e.buffer(10, 1)
	e.write(e.open("f", device.OpenOrCreate), b, 0)
	f := e.open("f", device.OpenOrCreate)
	e.wantSize(f, 10)
	e.write(f, b[:1], 10)
	e.wantSize(f, 11)
}

func (e *env) lstat(name string) device.Info {
	e.Helper()
	info, err := e.FS.Lstat(e.path(name))
	e.must(err)
	return info
}

func exactPermissions(e *env) {
	for i, perm := range []fs.FileMode{0o600, 0o640, 0o644, 0o666} {
		for _, mode := range []device.OpenMode{device.CreateNew, device.OpenOrCreate} {
			name := fmt.Sprintf("f%d-%d", i, mode)
			f, err := e.FS.OpenFile(e.path(name), mode, perm)
			e.must(err)
			e.must(f.Close())
			if got := e.lstat(name).Mode; got != perm {
				e.Errorf("file asked for %v has %v", perm, got)
			}
		}
	}
	for i, perm := range []fs.FileMode{0o700, 0o750, 0o755, 0o775} {
		name := fmt.Sprintf("d%d", i)
		e.must(e.FS.Mkdir(e.path(name), perm))
		if got := e.lstat(name).Mode; got.Perm() != perm || !got.IsDir() {
			e.Errorf("directory asked for %v has %v", perm, got)
		}
	}
}

func kindsDiffer(e *env) {
	e.must(e.FS.Mkdir(e.path("d"), 0o750))
	for _, mode := range []device.OpenMode{device.ReadOnly, device.ReadWrite, device.OpenOrCreate} {
		_, err := e.FS.OpenFile(e.path("d"), mode, 0o640)
		e.wantFailure(err, e.path("d"), device.ErrNotRegular)
	}
	e.create("f")
	_, err := e.FS.OpenDir(e.path("f"))
	e.wantFailure(err, e.path("f"), nil)
}

func renameReplaces(e *env) {
	b := e.buffer(20, 1)
	e.write(e.create("old"), b, 0)
	e.write(e.create("new"), b[:3], 0)
	e.must(e.FS.Rename(e.path("old"), e.path("new")))
	e.wantContent("new", b)
	e.wantNames("new")
}

func renameMoves(e *env) {
	b := e.buffer(20, 1)
	e.must(e.FS.Mkdir(e.path("d"), 0o750))
	e.write(e.create("f"), b, 0)
	e.must(e.FS.Rename(e.path("f"), e.path("d/g")))
	e.wantContent("d/g", b)
	e.wantNames("d")
	e.must(e.FS.Rename(e.path("d"), e.path("e")))
	e.wantContent("e/g", b)
}

func renameMissing(e *env) {
	e.create("f")
	e.wantFailure(e.FS.Rename(e.path("no"), e.path("f")), e.path("no"), fs.ErrNotExist)
	e.wantFailure(e.FS.Rename(e.path("f"), e.path("no/f")), e.path("f"), fs.ErrNotExist)
	e.wantNames("f")
}

func removes(e *env) {
	e.must(e.FS.Mkdir(e.path("d"), 0o750))
	e.create("d/f")
	e.wantFailure(e.FS.Remove(e.path("d")), e.path("d"), nil)
	e.must(e.FS.Remove(e.path("d/f")))
	e.must(e.FS.Remove(e.path("d")))
	e.wantNames()
	e.wantFailure(e.FS.Remove(e.path("d")), e.path("d"), fs.ErrNotExist)
}

func mkdirOnce(e *env) {
	e.must(e.FS.Mkdir(e.path("d"), 0o750))
	e.wantFailure(e.FS.Mkdir(e.path("d"), 0o750), e.path("d"), fs.ErrExist)
	e.wantFailure(e.FS.Mkdir(e.path("a/b"), 0o750), e.path("a/b"), fs.ErrNotExist)
	e.create("f")
	e.wantFailure(e.FS.Mkdir(e.path("f"), 0o750), e.path("f"), fs.ErrExist)
}

func (e *env) wantNames(want ...string) {
	e.Helper()
	entries, err := e.FS.ReadDir(e.Root)
	e.must(err)
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		e.Fatalf("names %v, want %v", got, want)
	}
}

func listingIsSorted(e *env) {
	e.wantNames()
	e.create("b")
	e.must(e.FS.Mkdir(e.path("a"), 0o750))
	for _, name := range []string{"a.log", "00000000000000000010.log", "00000000000000000009.log", "B", "ü"} {
		e.create(name)
	}
	e.wantNames("00000000000000000009.log", "00000000000000000010.log", "B", "a", "a.log", "b", "ü")
	entries, err := e.FS.ReadDir(e.Root)
	e.must(err)
	for _, entry := range entries {
		want := fs.FileMode(0)
		if entry.Name == "a" {
			want = fs.ModeDir
		}
		if entry.Type != want {
			e.Errorf("%s has type %v", entry.Name, entry.Type)
		}
	}
}

func lstatTells(e *env) {
	f, other := e.create("f"), e.create("other")
	e.write(f, e.buffer(1234, 1), 0)
	info := e.lstat("f")
	if info.Size != 1234 || !info.Mode.IsRegular() {
		e.Fatalf("%+v", info)
	}
	if o := e.lstat("other"); o.Ino == info.Ino && o.Dev == info.Dev {
		e.Fatalf("two files are one: %+v, %s", o, other.Name())
	}
	e.must(e.FS.Rename(e.path("f"), e.path("g")))
	if g := e.lstat("g"); g.Ino != info.Ino || g.Dev != info.Dev {
		e.Fatalf("a renamed file is another: %+v, %+v", g, info)
	}
	if root, err := e.FS.Lstat(e.Root); err != nil || !root.Mode.IsDir() {
		e.Fatal(root, err)
	}
}

func spaceIsTold(e *env) {
	space, err := e.FS.Space(e.Root)
	e.must(err)
	if space.Type == "" || space.TotalBytes <= 0 || space.FreeBytes < 0 || space.FreeBytes > space.TotalBytes ||
		space.FreeInodes < -1 {
		e.Fatalf("%+v", space)
	}
	_, err = e.FS.Space(e.path("no"))
	e.wantFailure(err, e.path("no"), fs.ErrNotExist)
}
