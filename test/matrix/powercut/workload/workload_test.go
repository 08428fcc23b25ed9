package workload_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix.local/felix/test/matrix/powercut/workload"
)

func TestAnEventIsReadAsItWasWritten(t *testing.T) {
	for _, want := range []workload.Event{
		{Kind: workload.Image, Bound: 12},
		{Kind: workload.Opening, Store: "ring-none"},
		{Kind: workload.Have, Store: "a", Log: "lone", Base: 3, Bound: 17},
		{Kind: workload.Bad, Store: "a", Log: "*", Text: "cannot be opened: it hurts . a lot"},
		{Kind: workload.Ready},
		{Kind: workload.Acked, Store: "a", Log: "lone", Bound: 1<<64 - 1},
		{Kind: workload.Durable, Store: "a", Log: "lone", Bound: 0},
		{Kind: workload.Done},
	} {
		got, ok := workload.ParseEvent(want.String() + "\r\n")
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Errorf("%v: %t %s", want, ok, diff)
		}
	}
}

func TestALineCutOffAnywhereIsNoLine(t *testing.T) {
	for _, whole := range []string{"ACK a lone 1234 .", "DURABLE a lone 99 .", "HAVE a lone 0 17 .", "READY .", "BAD a lone x ."} {
		for n := range len(whole) {
			if e, ok := workload.ParseEvent(whole[:n]); ok {
				t.Errorf("%q passes for %v", whole[:n], e)
			}
		}
	}
	for _, other := range []string{"KMX-UP 1.2 .", "ACK a lone .", "ACK a lone x .", "HAVE a lone 1 .", "READY now .", `{"name":"a"} .`} {
		if e, ok := workload.ParseEvent(other); ok {
			t.Errorf("%q passes for %v", other, e)
		}
	}
}

func TestAnErrorOfSeveralLinesIsOneLine(t *testing.T) {
	line := workload.Event{Kind: workload.Bad, Store: "a", Log: "b", Text: "one\ntwo\r\nthree"}.String()
	if strings.ContainsAny(line, "\r\n") {
		t.Errorf("%q", line)
	}
}

func TestMarksAreReadAsTheyWereWritten(t *testing.T) {
	want := map[workload.Log]workload.Bound{
		{Store: "a", Log: "lone"}:  {Acked: 17, Durable: 12},
		{Store: "a", Log: "crowd"}: {Acked: 1},
		{Store: "b", Log: "lone"}:  {Durable: 5},
	}
	block := make([]byte, workload.MarkBytes)
	copy(block, workload.FormatMarks(want))
	got, ok := workload.ParseMarks(block)
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("%t %s", ok, diff)
	}
	for _, other := range [][]byte{nil, make([]byte, workload.MarkBytes), []byte("FELIX ACKNOWLEDGED\nACK a lone 12")} {
		if got, ok := workload.ParseMarks(other); ok {
			t.Errorf("%q passes for %v", other, got)
		}
	}
}

// stores run on whatever the temporary directory is on; the journal needs more of it
// than some have, and so does the ring.
func stores() []workload.Store {
	return []workload.Store{
		{Name: "none", Mode: "none", Backend: "pool", Journal: "off"},
		{Name: "commit", Mode: "on_commit", Backend: "pool", Journal: "off"},
	}
}

func TestEveryAppendIsToldOfAndFoundAgain(t *testing.T) {
	spec := workload.Spec{Root: t.TempDir(), Stores: stores(), Appends: 20}
	first := run(t, spec)
	second := run(t, spec)
	for _, store := range spec.Stores {
		for _, shape := range workload.Shapes() {
			at := workload.Log{Store: store.Name, Log: shape.Log}
			acked, found := first.acked[at], second.found[at]
			if acked < uint64(20*shape.Publishers) || found != acked {
				t.Errorf("%v: %d records acknowledged, %d found", at, acked, found)
			}
			if second.acked[at] <= acked {
				t.Errorf("%v: the second run ended at %d, the first at %d", at, second.acked[at], acked)
			}
		}
	}
}

func TestPromisesGoIntoABlock(t *testing.T) {
	marks := filepath.Join(t.TempDir(), "marks")
	if err := os.WriteFile(marks, make([]byte, 3*workload.MarkBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err := workload.OpenMarks(marks, 0); err != nil {
		t.Skipf("no direct writes in %s: %v", filepath.Dir(marks), err)
	} else if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	spec := workload.Spec{Root: t.TempDir(), Stores: stores(), Appends: 5, Marks: marks, MarksPosition: workload.MarkBytes}
	if told := run(t, spec); len(told.acked) > 0 {
		t.Errorf("acknowledgements came in lines: %v", told.acked)
	}
	b, err := os.ReadFile(marks)
	if err != nil {
		t.Fatal(err)
	}
	bounds, ok := workload.ParseMarks(b[workload.MarkBytes : 2*workload.MarkBytes])
	if want := len(spec.Stores) * len(workload.Shapes()); !ok || len(bounds) != want {
		t.Errorf("%t, bounds of %d logs, want %d: %v", ok, len(bounds), want, bounds)
	}
	if again := run(t, workload.Spec{Root: spec.Root, Stores: stores()}); again.found[workload.Log{Store: "commit", Log: "lone"}] != 5 {
		t.Errorf("found %v", again.found)
	}
}

func TestARecordOfAnotherLogIsNoticed(t *testing.T) {
	root := t.TempDir()
	all := stores()
	run(t, workload.Spec{Root: root, Stores: all, Appends: 5})
	if err := os.Rename(filepath.Join(root, "none"), filepath.Join(root, "moved")); err != nil {
		t.Fatal(err)
	}
	all[0].Name = "moved"
	var out bytes.Buffer
	err := workload.Run(context.Background(), workload.Spec{Root: root, Stores: all}, &out)
	if !errors.Is(err, workload.ErrBad) || strings.Count(out.String(), "BAD moved") != len(workload.Shapes()) || strings.Contains(out.String(), "BAD commit") {
		t.Errorf("%v\n%s", err, &out)
	}
}

type told struct{ acked, found map[workload.Log]uint64 }

// run carries a spec out and adds up what it told.
func run(t *testing.T, spec workload.Spec) told {
	t.Helper()
	var out bytes.Buffer
	if err := workload.Run(context.Background(), spec, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	sum := told{make(map[workload.Log]uint64), make(map[workload.Log]uint64)}
	for line := range strings.Lines(out.String()) {
		e, ok := workload.ParseEvent(line)
		if !ok {
			t.Fatalf("%q is no event", line)
		}
		at := workload.Log{Store: e.Store, Log: e.Log}
		switch e.Kind {
		case workload.Acked:
			sum.acked[at] = max(sum.acked[at], e.Bound+1)
		case workload.Have:
			sum.found[at] = e.Bound
		}
	}
	return sum
}
