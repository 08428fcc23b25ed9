package devicetest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"syscall"

	"felix.local/felix/device"
)

var writeFacts = []fact{
	{"lands byte for byte at its position", landsAtItsPosition},
	{"past the end leaves zeros in between", leavesZerosBetween},
	{"over old bytes replaces its range alone", replacesItsRange},
	{"with dsync is read back", dsyncIsReadBack},
	{"from the Go heap lands", heapBufferLands},
	{"of nothing changes nothing", writeOfNothing},
	{"above one mebibyte lands whole", largeWriteLands},
	{"at any position and length agrees with memory", agreesWithMemory},
	{"shows in a handle opened before it", showsInOtherHandle},
	{"counts its pieces", countsPieces},
	{"past the page cache replaces its blocks", directReplaces},
}

func landsAtItsPosition(e *env) {
	f := e.create("f")
	b := e.buffer(1000, 1)
	e.write(f, b, 0)
	e.wantContent("f", b)
	more := e.buffer(77, 2)
	e.write(f, more, 1000)
	e.wantContent("f", append(append([]byte{}, b...), more...))
}

func leavesZerosBetween(e *env) {
	f := e.create("f")
	b := e.buffer(10, 1)
	e.write(f, b, 100_000)
	e.wantContent("f", append(make([]byte, 100_000), b...))
}

func replacesItsRange(e *env) {
	f := e.create("f")
	b := e.buffer(10_000, 1)
	e.write(f, b, 0)
	want := append([]byte{}, b...)
	patch := e.buffer(3000, 2)
	e.write(f, patch, 4095)
	copy(want[4095:], patch)
	e.wantContent("f", want)
}

func dsyncIsReadBack(e *env) {
	f := e.create("f")
	b := e.buffer(5000, 1)
	e.do(&device.Op{Kind: device.WriteDsync, File: f, Buf: b[:4096], Pos: 0})
	e.do(&device.Op{Kind: device.WriteDsync, File: f, Buf: b[4096:], Pos: 4096})
	e.wantContent("f", b)
}

func heapBufferLands(e *env) {
	f := e.create("f")
	b := make([]byte, 300)
	fill(b, 9)
	e.write(f, b, 0)
	e.wantContent("f", b)
}

func writeOfNothing(e *env) {
	f := e.create("f")
	for _, kind := range []device.Kind{device.Write, device.WriteDsync} {
		e.do(&device.Op{Kind: kind, File: f})
		// An empty write past the end does not make the file longer.
		e.do(&device.Op{Kind: kind, File: f, Buf: []byte{}, Pos: 4096})
	}
	e.wantSize(f, 0)
}

func largeWriteLands(e *env) {
	f := e.create("f")
	b := e.buffer(3<<20+17, 1)
	e.write(f, b, 5)
	e.do(&device.Op{Kind: device.WriteDsync, File: f, Buf: b, Pos: 5 + int64(len(b))})
	e.wantContent("f", append(append(make([]byte, 5), b...), b...))
}

func agreesWithMemory(e *env) {
	const seed, longest, rounds = 20, 70_000, 200
	e.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	f := e.create("f")
	var memory []byte
	b := e.buffer(longest, seed)
	for i := range rounds {
		n := r.IntN(1 << (1 + r.IntN(16)))
		pos := r.IntN(200_000)
		fill(b[:n], uint64(i))
		e.write(f, b[:n], int64(pos))
		if end := pos + n; n > 0 && end > len(memory) {
			memory = append(memory, make([]byte, end-len(memory))...)
		}
		copy(memory[min(pos, len(memory)):], b[:n])
	}
	e.wantContent("f", memory)
}

func showsInOtherHandle(e *env) {
	f := e.create("f")
	other := e.open("f", device.ReadOnly)
	b := e.buffer(100, 1)
	e.write(f, b, 0)
	if string(e.read(other)) != string(b) {
		e.Fatal("the other handle reads something else")
	}
}

func countsPieces(e *env) {
	op := &device.Op{Kind: device.Write, File: e.create("f"), Buf: e.buffer(100, 1), Pieces: 99}
	e.do(op)
	if op.Pieces < 1 || op.Pieces == 99 {
		e.Fatalf("%d pieces", op.Pieces)
	}
}

// directReplaces overwrites what was written through the page cache, and reads it
// back both ways.
func directReplaces(e *env) {
	f := e.create("f")
	want := e.buffer(4*device.DirectBlockBytes, 1)
	e.write(f, want, 0)
	e.do(&device.Op{Kind: device.Flush, File: f})
	arena := device.NewArena()
	defer arena.Close()
	buf, err := arena.Take(2 * device.DirectBlockBytes)
	if err != nil {
		e.Fatal(err)
	}
	defer arena.Give(buf)
	buf = buf[:2*device.DirectBlockBytes]
	copy(buf, e.buffer(len(buf), 2))
	direct, err := e.FS.OpenFile(e.path("f"), device.ReadWriteDirect, 0)
	if err == nil {
		defer direct.Close()
		err = device.Do(e.Queue, &device.Op{Kind: device.WriteDsync, File: direct, Buf: buf, Pos: device.DirectBlockBytes})
	}
	if errors.Is(err, syscall.EINVAL) {
		e.Skip("the filesystem has no way past the page cache")
	}
	if err != nil {
		e.Fatal(err)
	}
	want = append([]byte{}, want...)
	copy(want[device.DirectBlockBytes:], buf)
	e.wantContent("f", want)
	if n, err := direct.ReadAt(buf, device.DirectBlockBytes); n != len(buf) || err != nil ||
		!bytes.Equal(buf, want[device.DirectBlockBytes:3*device.DirectBlockBytes]) {
		e.Errorf("read back %d bytes past the page cache, %v", n, err)
	}
}
