package devicetest

import (
	"felix.local/felix/device"
)

var errorFacts = []fact{
	{"of a write to a file opened for reading names the file", refusedWrite},
	{"of an op on a closed file names the file", refusedClosed},
	{"of one op leaves the others of its submission alone", refusedAmongOthers},
	{"carries the operation's name", carriesOperation},
}

// wantRefusedWrite checks the failure of a write that a file does not take. The
// kernel calls such a descriptor bad, which is a class of its own only where the
// disk looks first.
func wantRefusedWrite(e *env, f device.File, n int, err error) {
	e.Helper()
	typed := e.wantFailure(err, f.Name(), nil)
	if typed.Class != device.ClassIO && typed.Class != device.ClassReadOnly {
		e.Fatalf("class %v: %v", typed.Class, err)
	}
	if n != 0 {
		e.Fatalf("%d bytes written", n)
	}
}

func refusedWrite(e *env) {
	whole := e.create("f")
	f := e.open("f", device.ReadOnly)
	for _, kind := range []device.Kind{device.Write, device.WriteDsync} {
		op := &device.Op{Kind: kind, File: f, Buf: e.buffer(10, 1)}
		err := device.Do(e.Queue, op)
		wantRefusedWrite(e, f, op.N, err)
	}
	e.wantSize(whole, 0)
}

func refusedClosed(e *env) {
	f := e.create("f")
	e.closeNow(f)
	for kind := range device.KindCount {
		op := &device.Op{Kind: kind, File: f, Len: 4096}
		if kind == device.Write || kind == device.WriteDsync {
			op.Buf = e.buffer(10, 1)
		}
		typed := e.wantFailure(device.Do(e.Queue, op), f.Name(), nil)
		if typed.Class != device.ClassIO {
			e.Fatalf("%v: class %v", kind, typed.Class)
		}
	}
}

func refusedAmongOthers(e *env) {
	f := e.create("f")
	readOnly := e.open("f", device.ReadOnly)
	b := e.buffer(3*pieceBytes, 1)
	ops := pieces(f, b)
	ops[1].File = readOnly
	e.Queue.Submit(ops...)
	e.must(ops[0].Wait())
	wantRefusedWrite(e, readOnly, ops[1].N, ops[1].Wait())
	e.must(ops[2].Wait())
	want := append([]byte{}, b...)
	clear(want[pieceBytes : 2*pieceBytes])
	e.wantContent("f", want)
}

func carriesOperation(e *env) {
	e.create("f")
	f := e.open("f", device.ReadOnly)
	op := &device.Op{Kind: device.WriteDsync, File: f, Buf: e.buffer(10, 1), Pos: 42}
	typed := e.wantFailure(device.Do(e.Queue, op), f.Name(), nil)
	if typed.Op != device.WriteDsync.String() || typed.Pos != 42 {
		e.Fatalf("op %q at %d: %v", typed.Op, typed.Pos, typed)
	}
}
