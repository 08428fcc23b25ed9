package devicetest

import (
	"errors"
	"io"
	"io/fs"

	"felix.local/felix/device"
)

var lockFacts = []fact{
	{"exclusive keeps a second exclusive one out, in this process too", lockExclusiveTwice},
	{"shared lets shared in", lockSharedTwice},
	{"shared keeps exclusive out, and the other way round", lockSharedAgainstExclusive},
	{"outlives the removal of every file in the directory", lockOutlivesFiles},
	{"of one directory leaves others free", lockOthersFree},
	{"closed frees the directory, once", lockClosedOnce},
	{"of what is no directory fails", lockMissing},
}

func (e *env) lock(dir string, shared bool) io.Closer {
	e.Helper()
	l, err := e.FS.Lock(dir, shared)
	e.must(err)
	return l
}

func (e *env) wantLocked(dir string, shared bool) {
	e.Helper()
	l, err := e.FS.Lock(dir, shared)
	if err == nil {
		l.Close()
		e.Fatal("the lock was given twice")
	}
	var locked *device.LockedError
	if !errors.As(err, &locked) {
		e.Fatalf("want a *device.LockedError, got %T: %v", err, err)
	}
	if locked.Dir != dir || !locked.Self {
		if !locked.Self && locked.PID == 0 && locked.Dir == dir {
			e.Log("this kernel does not tell who holds a lock")
			return
		}
		e.Fatalf("%+v", locked)
	}
}

func lockExclusiveTwice(e *env) {
	l := e.lock(e.Root, false)
	e.wantLocked(e.Root, false)
	e.wantLocked(e.Root, false)
	e.must(l.Close())
	e.must(e.lock(e.Root, false).Close())
}

func lockSharedTwice(e *env) {
	one, two := e.lock(e.Root, true), e.lock(e.Root, true)
	e.must(one.Close())
	e.wantLocked(e.Root, false)
	e.must(two.Close())
	e.must(e.lock(e.Root, false).Close())
}

func lockSharedAgainstExclusive(e *env) {
	shared := e.lock(e.Root, true)
	e.wantLocked(e.Root, false)
	e.must(shared.Close())
	exclusive := e.lock(e.Root, false)
	e.wantLocked(e.Root, true)
	e.must(exclusive.Close())
	e.must(e.lock(e.Root, true).Close())
}

func lockOutlivesFiles(e *env) {
	e.create("LOCK")
	e.create("f")
	l := e.lock(e.Root, false)
	entries, err := e.FS.ReadDir(e.Root)
	e.must(err)
	for _, entry := range entries {
		e.must(e.FS.Remove(e.path(entry.Name)))
	}
	e.wantLocked(e.Root, false)
	e.must(l.Close())
}

func lockOthersFree(e *env) {
	e.must(e.FS.Mkdir(e.path("a"), 0o750))
	e.must(e.FS.Mkdir(e.path("b"), 0o750))
	a, b, root := e.lock(e.path("a"), false), e.lock(e.path("b"), false), e.lock(e.Root, false)
	e.wantLocked(e.path("a"), false)
	e.must(b.Close())
	e.wantLocked(e.path("a"), true)
	e.must(a.Close())
	e.must(root.Close())
}

func lockClosedOnce(e *env) {
	l := e.lock(e.Root, false)
	e.must(l.Close())
	if l.Close() == nil {
		e.Fatal("no error")
	}
	e.must(e.lock(e.Root, false).Close())
}

func lockMissing(e *env) {
	_, err := e.FS.Lock(e.path("no"), false)
	e.wantFailure(err, e.path("no"), fs.ErrNotExist)
	e.create("f")
	_, err = e.FS.Lock(e.path("f"), false)
	e.wantFailure(err, e.path("f"), nil)
}
