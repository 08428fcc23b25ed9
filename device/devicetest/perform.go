package devicetest

import (
	"felix.local/felix/device"
)

var performFacts = []fact{
	{"carries out every kind on the caller's goroutine", performEveryKind},
	{"sets pieces and leaves the result to its caller", performResult},
	{"fails like the queue", performFails},
}

func performEveryKind(e *env) {
	f := e.create("f")
	b := e.buffer(2<<20, 1)
	half := len(b) / 2
	for _, op := range []*device.Op{
		{Kind: device.Write, File: f, Buf: b[:half]},
		{Kind: device.WriteDsync, File: f, Buf: b[half:], Pos: int64(half)},
		{Kind: device.Flush, File: f},
		{Kind: device.FlushAll, File: f},
		{Kind: device.FlushAll, File: e.openDir(e.Root)},
		{Kind: device.Allocate, File: f, Len: 4 << 20},
	} {
		n, err := op.File.Perform(op)
		if op.Kind == device.Allocate && device.ClassOf(err) == device.ClassUnsupported {
			continue
		}
		if err != nil || n != len(op.Buf) {
			e.Fatalf("%v: %d, %v", op.Kind, n, err)
		}
	}
	e.wantContent("f", b)
}

func performResult(e *env) {
	op := &device.Op{Kind: device.Write, File: e.create("f"), Buf: e.buffer(10, 1), Pieces: 99}
	if n, err := op.File.Perform(op); n != 10 || err != nil {
		e.Fatal(n, err)
	}
	if op.Pieces < 1 || op.Pieces == 99 {
		e.Fatalf("%d pieces", op.Pieces)
	}
}

func performFails(e *env) {
	e.create("f")
	f := e.open("f", device.ReadOnly)
	op := &device.Op{Kind: device.Write, File: f, Buf: e.buffer(10, 1)}
	n, err := f.Perform(op)
	wantRefusedWrite(e, f, n, err)
}
