package devicetest

import (
	"sync"

	"felix.local/felix/device"
)

var closeFacts = []fact{
	{"completes everything submitted before", closeDrains},
	{"makes later submissions complete with an error", submitAfterClose},
	{"twice is an error", closeTwice},
	{"of a queue that did nothing succeeds", closeUnused},
	{"loses no op that races with it", closeRaces},
}

func closeDrains(e *env) {
	b := e.buffer(2000*pieceBytes, 1)
	ops := pieces(e.create("f"), b)
	e.Queue.Submit(ops...)
	e.closeQueue()
	for i, op := range ops {
		select {
		case <-op.Done():
			e.must(op.Err)
		default:
			e.Fatalf("op %d was not completed", i)
		}
	}
	e.wantContent("f", b)
}

func submitAfterClose(e *env) {
	f := e.create("f")
	e.closeQueue()
	ops := pieces(f, e.buffer(3*pieceBytes, 1))
	e.Queue.Submit(ops...)
	for _, op := range ops {
		e.wantFailure(op.Wait(), f.Name(), device.ErrQueueClosed)
		if op.N != 0 {
			e.Fatalf("%d bytes written", op.N)
		}
	}
	e.wantSize(f, 0)
}

func closeTwice(e *env) {
	e.closeQueue()
	if e.Queue.Close() == nil {
		e.Fatal("no error")
	}
}

func closeUnused(e *env) { e.closeQueue() }

// closeRaces submits while the queue closes: every op completes, written or
// refused as a whole.
func closeRaces(e *env) {
	const submitters, each = 8, 100
	b := e.buffer(submitters*each*pieceBytes, 1)
	ops := pieces(e.create("f"), b)
	var all sync.WaitGroup
	started := make(chan struct{}, submitters)
	for i := range submitters {
		mine := ops[i*each : (i+1)*each]
		all.Go(func() {
			for _, op := range mine {
				e.Queue.Submit(op)
				select {
				case started <- struct{}{}:
				default:
				}
			}
		})
	}
	<-started
	e.closeQueue()
	all.Wait()
	for _, op := range ops {
		if err := op.Wait(); err == nil {
			if op.N != len(op.Buf) {
				e.Fatalf("%d of %d bytes without an error", op.N, len(op.Buf))
			}
		} else {
			e.wantFailure(err, op.File.Name(), device.ErrQueueClosed)
		}
	}
}
