package devicetest

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"felix.local/felix/device"
)

// env is a disk with what a test needs around it. Its helpers end the test on
// an error.
type env struct {
	*testing.T
	Disk
	arena   *device.Arena
	buffers [][]byte
	files   []device.File
	closed  bool
}

func newEnv(t *testing.T, d Disk) *env {
	e := &env{T: t, Disk: d, arena: device.NewArena()}
	t.Cleanup(e.end)
	return e
}

// end closes in the only safe order: the queue, so that no op is under way, then
// files and memory.
func (e *env) end() {
	if !e.closed {
		e.closeQueue()
	}
	for _, f := range e.files {
		if err := f.Close(); err != nil {
			e.Error(err)
		}
	}
	for _, b := range e.buffers {
		e.arena.Give(b)
	}
	e.arena.Close()
}

func (e *env) closeQueue() {
	e.Helper()
	e.closed = true
	e.must(e.Queue.Close())
}

func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

func (e *env) path(name string) string { return filepath.Join(e.Root, name) }

func (e *env) open(name string, mode device.OpenMode) device.File {
	e.Helper()
	f, err := e.FS.OpenFile(e.path(name), mode, 0o640)
	e.must(err)
	e.files = append(e.files, f)
	return f
}

func (e *env) create(name string) device.File {
	e.Helper()
	return e.open(name, device.CreateNew)
}

func (e *env) openDir(path string) device.File {
	e.Helper()
	f, err := e.FS.OpenDir(path)
	e.must(err)
	e.files = append(e.files, f)
	return f
}

// closeNow closes a file before the end of the test.
func (e *env) closeNow(f device.File) {
	e.Helper()
	for i, open := range e.files {
		if open == f {
			e.files = append(e.files[:i], e.files[i+1:]...)
			break
		}
	}
	e.must(f.Close())
}

// buffer gives n bytes of arena memory with content that only seed decides.
func (e *env) buffer(n int, seed uint64) []byte {
	e.Helper()
	b, err := e.arena.Take(n)
	e.must(err)
	e.buffers = append(e.buffers, b)
	fill(b[:n], seed)
	return b[:n]
}

func fill(b []byte, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0x5bd1e995))
	for i := range b {
		b[i] = byte(r.Uint32()) | 1 // never zero, so that a hole cannot pass for data
	}
}

// do carries out one op that has to succeed.
func (e *env) do(op *device.Op) {
	e.Helper()
	e.must(device.Do(e.Queue, op))
	if op.N != len(op.Buf) {
		e.Fatalf("%v of %d bytes succeeded with %d", op.Kind, len(op.Buf), op.N)
	}
}

func (e *env) write(f device.File, b []byte, pos int64) {
	e.Helper()
	e.do(&device.Op{Kind: device.Write, File: f, Buf: b, Pos: pos})
}

// content reads a whole file through a handle of its own.
func (e *env) content(name string) []byte {
	e.Helper()
	f, err := e.FS.OpenFile(e.path(name), device.ReadOnly, 0)
	e.must(err)
	defer f.Close()
	return e.read(f)
}

func (e *env) read(f device.File) []byte {
	e.Helper()
	size := e.size(f)
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n != len(b) || (err != nil && !errors.Is(err, io.EOF)) {
		e.Fatalf("read %d of %d bytes: %v", n, size, err)
	}
	return b
}

func (e *env) size(f device.File) int64 {
	e.Helper()
	size, err := f.Size()
	e.must(err)
	return size
}

func (e *env) wantContent(name string, want []byte) {
	e.Helper()
	got := e.content(name)
	if bytes.Equal(got, want) {
		return
	}
	if len(got) != len(want) {
		e.Fatalf("%s has %d bytes, want %d", name, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			e.Fatalf("%s differs from position %d on: %#x, want %#x", name, i, got[i], want[i])
		}
	}
}

func (e *env) wantSize(f device.File, want int64) {
	e.Helper()
	if got := e.size(f); got != want {
		e.Fatalf("%s has %d bytes, want %d", f.Name(), got, want)
	}
}

// wantFailure checks that err is an *Error for path that matches target.
func (e *env) wantFailure(err error, path string, target error) *device.Error {
	e.Helper()
	var typed *device.Error
	if !errors.As(err, &typed) {
		e.Fatalf("want a *device.Error, got %T: %v", err, err)
	}
	if typed.Path != path {
		e.Fatalf("error names %q, want %q: %v", typed.Path, path, err)
	}
	if target != nil && !errors.Is(err, target) {
		e.Fatalf("want %v, got %v", target, err)
	}
	return typed
}

// needKernel skips a test that only makes sense with kernel files.
func (e *env) needKernel(what string) {
	e.Helper()
	f := e.openDir(e.Root)
	if _, ok := device.FD(f); !ok {
		e.Skipf("files of this disk have no descriptor, so there is no %s to try", what)
	}
}
