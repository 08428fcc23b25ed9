package devicetest

import (
	"bytes"
	"errors"
	"io"

	"felix.local/felix/device"
)

var fileFacts = []fact{
	{"reads short with io.EOF at its end", readsShortAtEnd},
	{"truncated is shorter, and zeros follow when it grows again", truncates},
	{"keeps its content when clean pages are dropped", dropsCache},
	{"knows whether it still has a name", knowsWhetherLinked},
	{"knows whether its path leads to it", knowsWhetherNamed},
	{"asking whether it takes writes changes nothing", asksForWrites},
	{"is read and written through a handle while its name changes", survivesRename},
	{"closed twice is an error", closesOnce},
	{"closed refuses every call with a typed error", refusesWhenClosed},
	{"goes by the path it was opened with", goesByPath},
}

func readsShortAtEnd(e *env) {
	f := e.create("f")
	b := e.buffer(100, 1)
	e.write(f, b, 0)
	p := make([]byte, 80)
	for _, c := range []struct {
		pos, n int64
		err    error
	}{{0, 80, nil}, {20, 80, nil}, {21, 79, io.EOF}, {99, 1, io.EOF}, {100, 0, io.EOF}, {5000, 0, io.EOF}} {
		n, err := f.ReadAt(p, c.pos)
		if int64(n) != c.n || !errors.Is(err, c.err) {
			// At the exact end both a nil error and io.EOF are allowed.
			if int64(n) != c.n || c.pos+c.n != 100 || err != nil && !errors.Is(err, io.EOF) || c.err != nil {
				e.Fatalf("at %d: %d, %v; want %d, %v", c.pos, n, err, c.n, c.err)
			}
		}
		if c.n > 0 && !bytes.Equal(p[:n], b[c.pos:c.pos+c.n]) {
			e.Fatalf("at %d: other bytes", c.pos)
		}
	}
	if n, err := f.ReadAt(nil, 0); n != 0 || err != nil {
		e.Fatal(n, err)
	}
}

func truncates(e *env) {
	f := e.create("f")
	b := e.buffer(10_000, 1)
	e.write(f, b, 0)
	e.must(f.Truncate(5001))
	e.wantContent("f", b[:5001])
	e.must(f.Truncate(9000))
	e.wantContent("f", append(append([]byte{}, b[:5001]...), make([]byte, 9000-5001)...))
	e.must(f.Truncate(0))
	e.wantSize(f, 0)
	e.write(f, b[:10], 20)
	e.wantContent("f", append(make([]byte, 20), b[:10]...))
}

func dropsCache(e *env) {
	f := e.create("f")
	b := e.buffer(100_000, 1)
	e.write(f, b, 0)
	for _, pos := range []int64{0, 4097, 100_000, 1 << 40} {
		e.must(f.DropCache(pos))
		e.wantContent("f", b)
	}
	e.do(&device.Op{Kind: device.Flush, File: f})
	e.must(f.DropCache(0))
	e.wantContent("f", b)
}

func (e *env) wantLinked(f device.File, want bool) {
	e.Helper()
	if linked, err := f.Linked(); err != nil || linked != want {
		e.Fatalf("%s: linked %v, %v; want %v", f.Name(), linked, err, want)
	}
}

func knowsWhetherLinked(e *env) {
	f, replaced := e.create("f"), e.create("replaced")
	e.wantLinked(f, true)
	e.must(e.FS.Rename(e.path("f"), e.path("replaced")))
	e.wantLinked(f, true)
	e.wantLinked(replaced, false)
	e.must(e.FS.Remove(e.path("replaced")))
	e.wantLinked(f, false)
}

func (e *env) wantNamed(f device.File, want bool) {
	e.Helper()
	if named, err := f.Named(); err != nil || named != want {
		e.Fatalf("%s: named %v, %v; want %v", f.Name(), named, err, want)
	}
}

func knowsWhetherNamed(e *env) {
	e.must(e.FS.Mkdir(e.path("d"), 0o700))
	f := e.create("d/f")
	e.wantNamed(f, true)
	e.must(e.FS.Rename(e.path("d/f"), e.path("d/aside")))
	e.wantNamed(f, false)
	another := e.create("d/f")
	e.wantNamed(f, false)
	e.wantNamed(another, true)
	e.must(e.FS.Rename(e.path("d/aside"), e.path("d/f")))
	e.wantNamed(f, true)
	e.wantNamed(another, false)
	e.must(e.FS.Rename(e.path("d"), e.path("elsewhere")))
	e.wantNamed(f, false)
	e.wantLinked(f, true)
	e.create("d") // a file where the directory was
	e.wantNamed(f, false)
	e.must(e.FS.Remove(e.path("d")))
	e.must(e.FS.Rename(e.path("elsewhere"), e.path("d")))
	e.wantNamed(f, true)
	e.must(e.FS.Remove(e.path("d/f")))
	e.wantNamed(f, false)
	dir := e.openDir(e.path("d"))
	e.wantNamed(dir, true)
	e.must(e.FS.Remove(e.path("d")))
	e.wantNamed(dir, false)
}

func asksForWrites(e *env) {
	f := e.create("f")
	b := e.buffer(100, 1)
	for range 2 {
		e.must(f.TakesWrites())
		e.write(f, b, 0)
	}
	e.must(f.TakesWrites())
	e.wantContent("f", b)
}

func survivesRename(e *env) {
	f := e.create("f")
	b := e.buffer(200, 1)
	e.write(f, b[:100], 0)
	e.must(e.FS.Rename(e.path("f"), e.path("g")))
	e.write(f, b[100:], 100)
	e.wantContent("g", b)
	e.must(e.FS.Remove(e.path("g")))
	if !bytes.Equal(e.read(f), b) {
		e.Fatal("content lost with the name")
	}
}

func closesOnce(e *env) {
	f := e.create("f")
	e.closeNow(f)
	e.wantFailure(f.Close(), f.Name(), nil)
}

func refusesWhenClosed(e *env) {
	f := e.create("f")
	e.closeNow(f)
	_, err := f.ReadAt(make([]byte, 1), 0)
	e.wantFailure(err, f.Name(), nil)
	_, err = f.Size()
	e.wantFailure(err, f.Name(), nil)
	_, err = f.Linked()
	e.wantFailure(err, f.Name(), nil)
	_, err = f.Named()
	e.wantFailure(err, f.Name(), nil)
	e.wantFailure(f.TakesWrites(), f.Name(), nil)
	e.wantFailure(f.Truncate(0), f.Name(), nil)
	e.wantFailure(f.DropCache(0), f.Name(), nil)
}

func goesByPath(e *env) {
	if got, want := e.create("f").Name(), e.path("f"); got != want {
		e.Fatalf("%q, want %q", got, want)
	}
	if got := e.openDir(e.Root).Name(); got != e.Root {
		e.Fatalf("%q, want %q", got, e.Root)
	}
}
