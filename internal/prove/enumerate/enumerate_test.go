package enumerate

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/internal/prove/bubble"
	"felix.local/felix/internal/simdisk"
)

// TestMain lets the heap grow: each open takes buffers that are garbage at once.
func TestMain(m *testing.M) {
	debug.SetGCPercent(600)
	os.Exit(m.Run())
}

func long() bool { return os.Getenv("FELIX_LONG_TESTS") == "1" }

// enumerated fails for every state that did not pass.
func enumerated(t *testing.T, o Options) Result {
	t.Helper()
	r := found(t, o)
	for _, failure := range r.Failures {
		t.Error(failure)
	}
	if r.Lost+r.Refused > 0 {
		t.Errorf("%d states lost, %d refused", r.Lost, r.Refused)
	}
	if r.Whole+r.Short != r.States || r.Whole == 0 {
		t.Errorf("%d states are whole and %d short, of %d", r.Whole, r.Short, r.States)
	}
	return r
}

// found runs an enumeration and logs the table.
func found(t *testing.T, o Options) Result {
	t.Helper()
	o.Bubble = bubble.In(t)
	var table bytes.Buffer
	started := time.Now()
	r, err := Run(&table, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v\n%s", time.Since(started), &table)
	return r
}

func workloadsUpTo(n int) (count int) {
	workloads(n, func([]Operation) { count++ })
	return count
}

func TestNothingDurableIsLostByAnyShortWorkload(t *testing.T) {
	o := Options{OpsMax: 2}
	switch {
	case raced:
		o.OpsMax = 1
	case long():
		o.OpsMax = 4
	}
	r := enumerated(t, o)
	if want := workloadsUpTo(o.OpsMax) * len(Modes()) * len(Rolls()); r.Workloads != want || r.Sampled > 0 {
		t.Errorf("%d workloads of %d were run, %d crash points sampled", r.Workloads, want, r.Sampled)
	}
	if r.Short == 0 || r.Opened == 0 || r.Opened >= r.States {
		t.Errorf("%d states of %d were opened, %d are short", r.Opened, r.States, r.Short)
	}
}

func TestNothingAcknowledgedIsLostByWorkloadsOfThreeOperations(t *testing.T) {
	if raced {
		t.Skip("takes a minute under the race detector; workloads of one operation run there")
	}
	r := enumerated(t, Options{
		OpsMax: 3, Modes: []engine.FsyncMode{engine.FsyncOnCommit}, Rolls: []Roll{Inline, LateSeal},
	})
	if r.Acked == 0 || r.Trimmed == 0 || r.Cut == 0 || r.RollsDiscarded == 0 || r.Rolls <= r.RollsBackground {
		t.Errorf("a path was not taken: %+v", r.Deeds)
	}
	for _, row := range r.Rows {
		if (row.RollsBackground > 0) != (row.Roll != Inline) {
			t.Errorf("%v, %s: %d rolls in the background", row.Mode, row.Roll, row.RollsBackground)
		}
	}
}

func TestNothingAcknowledgedIsLostByAnyShortWorkloadWithAJournal(t *testing.T) {
	o := Options{OpsMax: 2, Journaled: true}
	switch {
	case raced, testing.Short():
		o.OpsMax = 1
	case long():
		o.OpsMax = 3
	}
	r := enumerated(t, o)
	if want := workloadsUpTo(o.OpsMax) * len(Rolls()); r.Workloads != want || r.Sampled > 0 {
		t.Errorf("%d workloads of %d were run, %d crash points sampled", r.Workloads, want, r.Sampled)
	}
	if r.Short == 0 || r.Entries == 0 {
		t.Errorf("%d states are short, %d batches went through the journal", r.Short, r.Entries)
	}
}

func TestNothingDurableIsLostWhenPagesTearAndLengthsLieBetween(t *testing.T) {
	o := Options{
		OpsMax: 2,
		Modes:  []engine.FsyncMode{engine.FsyncNone, engine.FsyncOnCommit},
		Bound:  simdisk.Bound{Grain: simdisk.TornPages, LengthStep: 4 * simdisk.SectorBytes, StatesMax: 64, Seed: 1},
	}
	switch {
	case raced:
		o.OpsMax = 1
	case long():
		o.Bound.StatesMax, o.Bound.LengthStep = 512, simdisk.SectorBytes
	}
	enumerated(t, o)
}

func TestATruncationBelowTheBaseIsAmongTheWorkloads(t *testing.T) {
	for _, only := range []string{
		"on_commit/inline/batch,roll,retention,truncate",
		"none/background/batch,seal,retention,truncate",
		"periodic/inline/roll,seal,retention,truncate",
	} {
		r := enumerated(t, Options{Only: only})
		if r.CutBelowBase != 1 || r.Trimmed == 0 || r.Workloads != 1 {
			t.Errorf("%s: %+v", only, r.Deeds)
		}
	}
}

// A workload that rolls with a late seal has crash points at which records of the
// new segment are there, and acknowledged, while the former one has no seal.
func TestALateSealLeavesTheFormerSegmentWithoutOne(t *testing.T) {
	dense := func(roll Roll) Row {
		r := enumerated(t, Options{Only: fmt.Sprintf("none/%s/roll,append", roll)})
		return r.Rows[0]
	}
	settled, late := dense(Background), dense(LateSeal)
	if settled.RollsBackground != 1 || late.RollsBackground != 1 || late.States <= settled.States {
		t.Errorf("settled %+v, late %+v", settled, late)
	}
}

func TestBeyondTheBoundCrashPointsAreSampledAndCounted(t *testing.T) {
	o := Options{Only: "none/inline/batch,roll,batch", Bound: simdisk.Bound{StatesMax: 4, Seed: 7}}
	r := enumerated(t, o)
	if r.Sampled == 0 || r.Sampled == r.CrashPoints || r.States > 4*r.CrashPoints {
		t.Errorf("%d crash points of %d sampled, %d states", r.Sampled, r.CrashPoints, r.States)
	}
	o.Bound.StatesMax = 0
	if all := enumerated(t, o); all.Sampled != 0 || all.States <= r.States {
		t.Errorf("%d sampled, and %d states after %d", all.Sampled, all.States, r.States)
	}
}

// A crash point behind a change that alters nothing is counted and not visited.
func TestCrashPointsThatAreNotVisitedHaveNoStatesOfTheirOwn(t *testing.T) {
	o := Options{
		OpsMax: 1, Modes: []engine.FsyncMode{engine.FsyncNone},
		Bound: simdisk.Bound{Grain: simdisk.TornPages},
	}
	rolls := []Roll{Inline, LateSeal}
	if raced {
		rolls = []Roll{Inline}
	}
	for _, roll := range rolls {
		o.Rolls, o.visitAll = []Roll{roll}, false
		few := enumerated(t, o)
		o.visitAll = true
		all := enumerated(t, o)
		// With rolls in the background two runs may differ in a few states.
		same := few.Opened == all.Opened && few.CrashPoints == all.CrashPoints || roll != Inline
		if !same || few.Workloads != all.Workloads || few.States >= all.States {
			t.Errorf("%s: %d of %d states were opened, and %d of %d when all crash points were visited",
				roll, few.Opened, few.States, all.Opened, all.States)
		}
	}
}

// What is left to chance with rolls in the background may change a few states, and
// no verdict that matters.
func TestARunFollowsFromItsOptions(t *testing.T) {
	for _, roll := range []Roll{Inline, LateSeal} {
		o := Options{OpsMax: 2, Modes: []engine.FsyncMode{engine.FsyncOnCommit}, Rolls: []Roll{roll}}
		if raced {
			o.OpsMax = 1
		}
		first := enumerated(t, o)
		o.Workers = 1
		again := enumerated(t, o)
		if roll == Inline && !reflect.DeepEqual(first, again) || first.Workloads != again.Workloads || first.Acked != again.Acked {
			t.Errorf("%s: first\n%+v\nand then\n%+v", roll, first, again)
		}
	}
}

func TestTheTableStatesItsBound(t *testing.T) {
	var out strings.Builder
	_, err := Run(&out, Options{
		Only: "on_commit/inline/append", Bubble: bubble.In(t),
		Bound: simdisk.Bound{Grain: simdisk.TornPages, LengthStep: 512},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"on_commit  inline  1 ", "bound: one case; ", "torn after any of its sectors of 512", "a multiple of 512 between",
		"0 crash points with more than 4096 combinations were sampled", "1 workloads, ", " 0 lost, 0 refused",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
}
