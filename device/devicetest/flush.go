package devicetest

import (
	"felix.local/felix/device"
)

var flushFacts = []fact{
	{"of a written file succeeds", flushWritten},
	{"of a file with nothing to flush succeeds", flushUntouched},
	{"of a file opened for reading succeeds", flushReadOnly},
	{"of a directory succeeds", flushDirectory},
	{"of a file without a name succeeds", flushUnlinked},
}

var allocateFacts = []fact{
	{"keeps the length, or is refused as unsupported", allocateKeepsLength},
	{"leaves what is written alone", allocateKeepsContent},
	{"is refused as unsupported where the filesystem has none", allocateUnsupported},
}

func flushBoth(e *env, f device.File) {
	e.Helper()
	e.do(&device.Op{Kind: device.Flush, File: f})
	e.do(&device.Op{Kind: device.FlushAll, File: f})
}

func flushWritten(e *env) {
	f := e.create("f")
	b := e.buffer(10_000, 1)
	e.write(f, b, 0)
	flushBoth(e, f)
	e.wantContent("f", b)
}

func flushUntouched(e *env) { flushBoth(e, e.create("f")) }

func flushReadOnly(e *env) {
	e.write(e.create("f"), e.buffer(10, 1), 0)
	flushBoth(e, e.open("f", device.ReadOnly))
}

func flushDirectory(e *env) {
	e.create("f")
	e.do(&device.Op{Kind: device.FlushAll, File: e.openDir(e.Root)})
}

func flushUnlinked(e *env) {
	f := e.create("f")
	e.write(f, e.buffer(10, 1), 0)
	e.must(e.FS.Remove(e.path("f")))
	flushBoth(e, f)
}

// allocate reserves blocks, or skips the test where that cannot be done.
func allocate(e *env, f device.File, pos, n int64) {
	e.Helper()
	op := &device.Op{Kind: device.Allocate, File: f, Pos: pos, Len: n}
	switch err := device.Do(e.Queue, op); {
	case device.ClassOf(err) == device.ClassUnsupported:
		e.wantFailure(err, f.Name(), device.ErrUnsupported)
		e.Skip("this filesystem cannot reserve blocks, and says so:", err)
	default:
		e.must(err)
	}
	if op.N != 0 {
		e.Fatalf("allocate wrote %d bytes", op.N)
	}
}

func allocateKeepsLength(e *env) {
	f := e.create("f")
	allocate(e, f, 0, 1<<20)
	e.wantSize(f, 0)
	b := e.buffer(100, 1)
	e.write(f, b, 0)
	e.wantContent("f", b)
}

func allocateKeepsContent(e *env) {
	f := e.create("f")
	b := e.buffer(10_000, 1)
	e.write(f, b, 0)
	allocate(e, f, 5000, 100_000)
	e.wantContent("f", b)
	e.must(f.Truncate(10_000))
	e.wantContent("f", b)
}

func allocateUnsupported(e *env) {
	e.needKernel("filesystem without fallocate")
	// A file of procfs is regular, writable by its own process, and backed by
	// no blocks.
	const path = "/proc/self/comm"
	f, err := e.FS.OpenFile(path, device.ReadWrite, 0)
	if err != nil {
		e.Skip("no procfs to try it on:", err)
	}
	e.files = append(e.files, f)
	err = device.Do(e.Queue, &device.Op{Kind: device.Allocate, File: f, Len: 4096})
	e.wantFailure(err, path, device.ErrUnsupported)
}
