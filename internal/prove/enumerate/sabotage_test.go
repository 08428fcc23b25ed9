package enumerate

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
)

// liar is a queue that says of some operations that they were done.
type liar struct {
	device.Queue
	// lie gives the operation to carry out in place of one, or nil for none.
	lie func(op *device.Op) *device.Op
}

func (l liar) Submit(ops ...*device.Op) {
	for _, op := range ops {
		switch other := l.lie(op); other {
		case op:
			l.Queue.Submit(op)
		case nil:
			op.Prepare()
			op.Complete(len(op.Buf), nil)
		default:
			op.Prepare()
			l.Queue.Submit(other)
			go func() {
				err := other.Wait()
				op.Complete(other.N, err)
			}()
		}
	}
}

func lying(lie func(*device.Op) *device.Op) func(device.Queue) device.Queue {
	return func(q device.Queue) device.Queue { return liar{q, lie} }
}

// without leaves out operations of one kind.
func without(kind device.Kind, paths ...string) func(device.Queue) device.Queue {
	return lying(func(op *device.Op) *device.Op {
		hit := len(paths) == 0
		for _, p := range paths {
			hit = hit || strings.HasSuffix(op.File.Name(), p)
		}
		if op.Kind == kind && hit {
			return nil
		}
		return op
	})
}

// plain makes plain writes of dsync writes: what they acknowledge is in the page
// cache only.
func plain() func(device.Queue) device.Queue {
	return lying(func(op *device.Op) *device.Op {
		if op.Kind != device.WriteDsync {
			return op
		}
		return &device.Op{Kind: device.Write, File: op.File, Buf: op.Buf, Pos: op.Pos}
	})
}

// A proof that cannot fail proves nothing: each of these breaks a promise of the
// disk, and the workload that relies on it has to be found out.
func TestWhatABrokenQueueDoesIsNoticed(t *testing.T) {
	for _, c := range []struct {
		name, only    string
		wrap          func(device.Queue) device.Queue
		lost, refused bool
	}{
		{"an append is acknowledged before it is durable", "on_commit/inline/append", plain(), true, true},
		{"a sync is acknowledged and left out", "none/inline/append,sync", without(device.Flush, ".log"), true, false},
		{"the name of the first segment is left out", "on_commit/inline/append", without(device.FlushAll), true, false},
		{"the name of the next segment is left out at a roll", "on_commit/inline/roll", without(device.FlushAll), true, true},
		{"a seal is left out", "periodic/inline/batch,seal", without(device.Flush, ".log"), true, true},
		{"the former segment is not flushed before the next", "none/background-sealed-late/roll,sync", without(device.Flush, "0.log"), true, true},
		{"a cut is not flushed", "on_commit/inline/batch,truncate", without(device.Flush, ".log"), true, false},
		{"what closing flushes is left out", "periodic/background/batch,reopen", without(device.Flush), true, true},
		{"a removed segment's name may come back", "on_commit/inline/roll,retention,append", without(device.FlushAll), true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			honest := found(t, Options{Only: c.only})
			if honest.Lost+honest.Refused > 0 {
				t.Error("it is found where nothing is wrong")
			}
			r := found(t, Options{Only: c.only, Wrap: c.wrap, FailuresKept: 1})
			if r.Lost > 0 != c.lost || r.Refused > 0 != c.refused || len(r.Failures) != 1 {
				t.Fatalf("%d lost, %d refused, %d failures", r.Lost, r.Refused, len(r.Failures))
			}
			t.Log(r.Failures[0])
			again := found(t, Options{Only: r.Failures[0].Case.String(), Wrap: c.wrap})
			if again.States != 1 || again.Lost+again.Refused != 1 {
				t.Errorf("replaying it gave %d states, %d lost and %d refused", again.States, again.Lost, again.Refused)
			}
			a, b := again.Failures[0], r.Failures[0]
			if a.Case.String() != b.Case.String() || a.Verdict != b.Verdict {
				t.Errorf("replaying it gave\n%v\nafter\n%v", a, b)
			}
			// Chance is left with rolls in the background alone.
			if got, want := a.Error(), b.Error(); a.Case.Roll == Inline && got != want {
				t.Errorf("replaying it gave\n%s\nafter\n%s", got, want)
			}
		})
	}
}

// failing is a queue that fails flushes of segments.
type failing struct{ device.Queue }

func (f failing) Submit(ops ...*device.Op) {
	for _, op := range ops {
		if op.Kind != device.Flush || !strings.HasSuffix(op.File.Name(), ".log") {
			f.Queue.Submit(op)
			continue
		}
		op.Prepare()
		op.Complete(0, device.NewError("flush", op.File.Name(), -1, syscall.EIO))
	}
}

func TestAWorkloadThatFailsIsAFailure(t *testing.T) {
	r := found(t, Options{
		Only: "none/inline/append,sync,append",
		Wrap: func(q device.Queue) device.Queue { return failing{q} },
	})
	if r.Refused != 1 || r.States != 0 || len(r.Failures) != 1 || !errors.Is(r.Failures[0], syscall.EIO) {
		t.Fatalf("%d refused of %d states, %v", r.Refused, r.States, r.Failures)
	}
	for _, want := range []string{"none/inline/append,sync,append: operation 2, sync: ", "again: go run ./internal/prove -case none/inline/append,sync,append "} {
		if text := r.Failures[0].Error(); !strings.Contains(text, want) {
			t.Errorf("%q is missing in %s", want, text)
		}
	}
}

func TestABubbleThatRunsNothingIsAFailure(t *testing.T) {
	r, err := Run(io.Discard, Options{Only: "none/inline/append", Bubble: func(func()) {}})
	if err != nil || r.Refused != 1 || r.States != 0 || len(r.Failures) != 1 {
		t.Errorf("%d refused of %d states, %v, %v", r.Refused, r.States, r.Failures, err)
	}
}

// A whole enumeration notices as well, without being told where to look.
func TestAnEnumerationOverABrokenQueueFails(t *testing.T) {
	r := found(t, Options{
		OpsMax: 1, Rolls: []Roll{Inline}, Wrap: without(device.FlushAll), Bound: simdisk.Bound{StatesMax: 32},
	})
	if r.Lost == 0 || len(r.Failures) != defaultFailuresKept {
		t.Errorf("%d lost, %d failures kept", r.Lost, len(r.Failures))
	}
}

// What recovery leaves undone is found by the power going once more.
func TestWhatABrokenRecoveryDoesIsNoticed(t *testing.T) {
	for name, wrap := range map[string]func(device.Queue) device.Queue{
		"nothing is flushed":           without(device.Flush),
		"the directory is not flushed": without(device.FlushAll),
	} {
		t.Run(name, func(t *testing.T) {
			r := found(t, Options{
				OpsMax: 1, Modes: []engine.FsyncMode{engine.FsyncOnCommit}, Rolls: []Roll{Inline, LatePreparation}, wrapAfter: wrap,
			})
			if r.Lost+r.Refused == 0 {
				t.Error("it was not noticed")
			}
		})
	}
}
