package devicetest

import (
	"sync"

	"felix.local/felix/device"
)

var queueFacts = []fact{
	{"completes ten thousand ops exactly once", completesExactlyOnce},
	{"takes ten thousand ops in one submission", takesOneLargeSubmission},
	{"serves concurrent submitters", servesConcurrentSubmitters},
	{"carries out all ops of one submission", carriesOutMixedSubmission},
	{"takes a submission of nothing", takesEmptySubmission},
	{"takes an op again after its completion", takesOpAgain},
	{"delivers several ops to one channel, each once", deliversToOneChannel},
	{"goes on after its caller gave up", goesOnAfterCallerGaveUp},
	{"counts ops and errors by kind", countsByKind},
}

const pieceBytes = 64

// pieces makes n writes that together write b, pieceBytes each.
func pieces(f device.File, b []byte) []*device.Op {
	ops := make([]*device.Op, 0, len(b)/pieceBytes)
	for pos := 0; pos < len(b); pos += pieceBytes {
		ops = append(ops, &device.Op{Kind: device.Write, File: f, Buf: b[pos : pos+pieceBytes], Pos: int64(pos)})
	}
	return ops
}

func (e *env) waitAll(ops []*device.Op) {
	e.Helper()
	for i, op := range ops {
		if err := op.Wait(); err != nil || op.N != len(op.Buf) {
			e.Fatalf("op %d: %d of %d bytes: %v", i, op.N, len(op.Buf), err)
		}
	}
}

// wantNoMoreCompletions closes the queue and checks that no op completed again.
func (e *env) wantNoMoreCompletions(ops []*device.Op) {
	e.Helper()
	e.closeQueue()
	for i, op := range ops {
		select {
		case <-op.Done():
			e.Fatalf("op %d completed again", i)
		default:
		}
	}
}

func completesExactlyOnce(e *env) {
	b := e.buffer(10_000*pieceBytes, 1)
	ops := pieces(e.create("f"), b)
	for _, op := range ops {
		e.Queue.Submit(op)
		if s := e.Queue.Stats(); s.InFlight > s.InFlightMax {
			e.Fatalf("%d ops under way, the bound is %d", s.InFlight, s.InFlightMax)
		}
	}
	e.waitAll(ops)
	e.wantContent("f", b)
	e.wantNoMoreCompletions(ops)
}

func takesOneLargeSubmission(e *env) {
	b := e.buffer(10_000*pieceBytes, 1)
	ops := pieces(e.create("f"), b)
	e.Queue.Submit(ops...)
	e.waitAll(ops)
	e.wantContent("f", b)
	e.wantNoMoreCompletions(ops)
}

func servesConcurrentSubmitters(e *env) {
	const submitters, each = 16, 200
	f := e.create("f")
	b := e.buffer(submitters*each*pieceBytes, 1)
	ops := pieces(f, b)
	var all sync.WaitGroup
	for i := range submitters {
		mine := ops[i*each : (i+1)*each]
		all.Go(func() {
			for j, op := range mine {
				e.Queue.Submit(op)
				if j%2 == 0 {
					<-op.Done()
				}
			}
			for j, op := range mine {
				if j%2 != 0 {
					<-op.Done()
				}
			}
		})
	}
	all.Wait()
	for _, op := range ops {
		e.must(op.Err)
	}
	e.wantContent("f", b)
}

func carriesOutMixedSubmission(e *env) {
	one, two := e.create("one"), e.create("two")
	b := e.buffer(8192, 1)
	ops := []*device.Op{
		{Kind: device.Write, File: one, Buf: b[:100]},
		{Kind: device.WriteDsync, File: two, Buf: b[100:8192]},
		{Kind: device.FlushAll, File: e.openDir(e.Root)},
		{Kind: device.Flush, File: two},
		{Kind: device.Write, File: one, Buf: b[100:200], Pos: 100},
	}
	e.Queue.Submit(ops...)
	// Waiting in reverse: no completion depends on another being received.
	for i := range ops {
		e.must(ops[len(ops)-1-i].Wait())
	}
	e.wantContent("one", b[:200])
	e.wantContent("two", b[100:])
}

func takesEmptySubmission(e *env) {
	e.Queue.Submit()
	e.write(e.create("f"), e.buffer(1, 1), 0)
}

func takesOpAgain(e *env) {
	f := e.create("f")
	b := e.buffer(100*pieceBytes, 1)
	op := &device.Op{Kind: device.Write, File: f}
	for pos := 0; pos < len(b); pos += pieceBytes {
		op.Buf, op.Pos = b[pos:pos+pieceBytes], int64(pos)
		e.do(op)
	}
	// The result of an earlier use does not shine through.
	op.Kind, op.Buf = device.Flush, nil
	e.do(op)
	e.wantContent("f", b)
}

// deliversToOneChannel has ops of every outcome: of all kinds, without work, one
// that fails, and one that comes after the queue was closed.
func deliversToOneChannel(e *env) {
	f := e.create("f")
	readOnly := e.open("f", device.ReadOnly)
	b := e.buffer(200*pieceBytes, 1)
	ops := pieces(f, b)
	fails := &device.Op{Kind: device.Write, File: readOnly, Buf: b[:1]}
	late := &device.Op{Kind: device.Flush, File: f}
	ops = append(ops, fails,
		&device.Op{Kind: device.WriteDsync, File: f, Buf: b[:pieceBytes]},
		&device.Op{Kind: device.Write, File: f}, // nothing to write
		&device.Op{Kind: device.Flush, File: f},
		&device.Op{Kind: device.FlushAll, File: f})
	results := make(chan *device.Op, len(ops)+1)
	for _, op := range append(ops, late) {
		op.Results = results
	}
	deliveries := make(map[*device.Op]int)
	receive := func() {
		op := <-results
		deliveries[op]++
		if wrong := op == fails || op == late; (op.Err != nil) != wrong || !wrong && op.N != len(op.Buf) {
			e.Fatalf("%v: %d of %d bytes: %v", op.Kind, op.N, len(op.Buf), op.Err)
		}
	}
	for range 2 { // an op is taken again after its completion
		e.Queue.Submit(ops...)
		for range ops {
			receive()
		}
	}
	e.wantContent("f", b)
	e.wantNoMoreCompletions(ops)
	e.Queue.Submit(late)
	receive()
	if len(results) != 0 {
		e.Fatalf("%d results too many", len(results))
	}
	for i, op := range ops {
		if deliveries[op] != 2 {
			e.Fatalf("op %d was delivered %d times, want 2", i, deliveries[op])
		}
	}
}

// goesOnAfterCallerGaveUp submits, looks away at once, and finds the bytes there
// when the queue has drained: the buffer stayed the queue's all the time.
func goesOnAfterCallerGaveUp(e *env) {
	b := e.buffer(200*pieceBytes, 1)
	ops := pieces(e.create("f"), b)
	gaveUp := make(chan struct{})
	close(gaveUp)
	for _, op := range ops {
		e.Queue.Submit(op)
		select {
		case <-gaveUp:
		case <-op.Done():
			e.must(op.Err)
		}
	}
	e.closeQueue()
	e.wantContent("f", b)
}

func countsByKind(e *env) {
	f := e.create("f")
	readOnly := e.open("f", device.ReadOnly)
	b := e.buffer(10, 1)
	for range 3 {
		e.write(f, b, 0)
	}
	e.do(&device.Op{Kind: device.WriteDsync, File: f, Buf: b})
	flushBoth(e, f)
	_ = device.Do(e.Queue, &device.Op{Kind: device.Write, File: readOnly, Buf: b})
	e.closeQueue()
	s := e.Queue.Stats()
	if s.Backend == "" || s.InFlightMax <= 0 {
		e.Fatalf("%+v", s)
	}
	if s.InFlight != 0 || s.Queued != 0 || s.OldestAge != 0 || s.Lost != nil {
		e.Fatalf("ops left over: %+v", s)
	}
	if want := [device.KindCount]uint64{4, 1, 1, 1, 0}; s.Ops != want {
		e.Fatalf("ops %v, want %v", s.Ops, want)
	}
	if want := [device.KindCount]uint64{1}; s.Errors != want {
		e.Fatalf("errors %v, want %v", s.Errors, want)
	}
}
