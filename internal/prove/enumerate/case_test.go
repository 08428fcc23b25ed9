package enumerate

import (
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"felix.local/felix/engine"
	"felix.local/felix/internal/prove/bubble"
	"felix.local/felix/internal/simdisk"
)

func TestACaseIsReadAsItIsWritten(t *testing.T) {
	for _, c := range []Case{
		{engine.FsyncNone, Inline, false, nil, -1, -1},
		{engine.FsyncPeriodic, LateSeal, false, []Operation{Append}, 0, -1},
		{engine.FsyncOnCommit, Background, false, Operations(), 12, 3},
		{engine.FsyncOnCommit, Inline, true, []Operation{Append, Seal}, 4, -1},
	} {
		got, err := ParseCase(c.String())
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%v was read as %+v, %v", c, got, err)
		}
	}
}

func TestWhatIsNoCaseIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "is no case",
		"none/inline":                      "is no case",
		"none/inline/append/1/2/3":         "is no case",
		"sometimes/inline/append":          "sometimes",
		"none/sideways/append":             "no kind of roll",
		"none+journal/inline/append":       "a journal is for on_commit",
		"none/inline/append,forget":        "no operation",
		"none/inline/append/first":         "no number",
		"none/inline/append/1/-2":          "no number",
		"on_commit/background/seal,,roll/": "no operation",
	} {
		_, err := ParseCase(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
		if text == "" {
			continue
		}
		if _, err := Run(io.Discard, Options{Only: text, Bubble: bubble.In(t)}); err == nil {
			t.Errorf("%q was run", text)
		}
	}
}

func TestWorkloadsAreAllSequencesEachOnce(t *testing.T) {
	seen := make(map[string]bool)
	lengths := make([]int, 4)
	workloads(3, func(w []Operation) {
		seen[Case{Workload: w, Point: -1, State: -1}.String()] = true
		lengths[len(w)]++
	})
	if want := []int{1, 8, 64, 512}; !slices.Equal(lengths, want) || len(seen) != 585 {
		t.Errorf("%v workloads by length, %d of them different", lengths, len(seen))
	}
}

func TestOptionsOutOfBoundsAreAllListed(t *testing.T) {
	_, err := Run(io.Discard, Options{
		OpsMax: 9, Rolls: []Roll{"sideways"}, Workers: -1, FailuresKept: -1, Bound: simdisk.Bound{StatesMax: 1, LengthStep: -1},
	})
	if err == nil {
		t.Fatal("they were taken")
	}
	for _, want := range []string{"no bubble", "up to 9 operations", `"sideways"`, "workers -1", "kept -1", "crash point 1", "step -1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}
