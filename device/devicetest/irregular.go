package devicetest

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
)

var irregularFacts = []fact{
	{"a FIFO is refused without waiting for its other end", func(e *env) {
		e.needKernel("FIFO")
		e.must(unix.Mkfifo(e.path("x"), 0o600))
		e.wantIrregular(fs.ModeNamedPipe)
	}},
	{"a symbolic link is refused, not followed", func(e *env) {
		e.needKernel("symbolic link")
		e.create("target")
		e.must(os.Symlink(e.path("target"), e.path("x")))
		e.wantIrregular(fs.ModeSymlink)
	}},
	{"a dangling symbolic link makes no file", func(e *env) {
		e.needKernel("symbolic link")
		e.must(os.Symlink(e.path("target"), e.path("x")))
		e.wantIrregular(fs.ModeSymlink)
		e.wantNames("x")
	}},
	{"a socket is refused", func(e *env) {
		e.needKernel("socket")
		e.must(unix.Mknod(e.path("x"), unix.S_IFSOCK|0o600, 0))
		e.wantIrregular(fs.ModeSocket)
	}},
}

// wantIrregular checks that x is refused in every mode, and described by its own
// type.
func (e *env) wantIrregular(kind fs.FileMode) {
	e.Helper()
	for _, mode := range []device.OpenMode{device.ReadOnly, device.ReadWrite, device.OpenOrCreate} {
		_, err := e.FS.OpenFile(e.path("x"), mode, 0o640)
		e.wantFailure(err, e.path("x"), device.ErrNotRegular)
	}
	_, err := e.FS.OpenFile(e.path("x"), device.CreateNew, 0o640)
	e.wantFailure(err, e.path("x"), fs.ErrExist)
	if got := e.lstat("x").Mode.Type(); got != kind {
		e.Fatalf("described as %v, want %v", got, kind)
	}
	entries, err := e.FS.ReadDir(e.Root)
	e.must(err)
	for _, entry := range entries {
		if entry.Name == "x" && entry.Type != kind {
			e.Fatalf("listed as %v, want %v", entry.Type, kind)
		}
	}
}
