package sidecar

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestTwoFilesMakeOnePromise(t *testing.T) {
	replica := func(g uint64) *Replica { return &Replica{Generation: g, Commit: 99} }
	for _, c := range []struct {
		name    string
		replica *Replica
		ballot  *Ballot
		want    Promise
	}{
		{"neither", nil, nil, Promise{}},
		{"a replica alone names nobody", replica(5), nil, Promise{Generation: 5}},
		{"a ballot alone is a first raise cut short", nil, &Ballot{5, "a"}, Promise{Generation: 5, Leader: "a"}},
		{"a ballot at the generation names its leader", replica(5), &Ballot{5, "a"}, Promise{Generation: 5, Leader: "a"}},
		{"a ballot ahead is a raise cut short", replica(5), &Ballot{7, "a"}, Promise{Generation: 7, Leader: "a"}},
		{"a ballot behind names nobody", replica(5), &Ballot{4, "a"}, Promise{Generation: 5}},
		{"an empty ballot gives the generation up", replica(5), &Ballot{5, ""}, Promise{Generation: 5, GivenUp: true}},
		{"an empty ballot ahead gives its own up", replica(5), &Ballot{6, ""}, Promise{Generation: 6, GivenUp: true}},
		{"an empty ballot behind gives nothing up", replica(5), &Ballot{4, ""}, Promise{Generation: 5}},
		{"a ballot at generation 0", nil, &Ballot{0, "a"}, Promise{Leader: "a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Reconcile(c.replica, c.ballot); got != c.want {
				t.Fatalf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestAcceptanceFollowsTheTable(t *testing.T) {
	nobody, a, givenUp := Promise{Generation: 5}, Promise{Generation: 5, Leader: "a"}, Promise{Generation: 5, GivenUp: true}
	keeps := func(p Promise, v Verdict) Decision { return Decision{Verdict: v, Next: p} }
	raised := func(leader string) Decision {
		d := Decision{Verdict: Raised, Next: Promise{Generation: 6, Leader: leader}, Replica: true}
		if leader != "" {
			d.Ballot = &Ballot{6, leader}
		}
		return d
	}
	for _, c := range []struct {
		promise    Promise
		generation uint64
		leader     string
		want       Decision
	}{
		{nobody, 4, "a", keeps(nobody, Superseded)},
		{nobody, 4, "", keeps(nobody, Superseded)},
		{nobody, 5, "", keeps(nobody, Current)},
		{nobody, 5, "a", Decision{Verdict: Current, Next: a, Ballot: &Ballot{5, "a"}}},
		{nobody, 6, "", raised("")},
		{nobody, 6, "a", raised("a")},

		{a, 4, "a", keeps(a, Superseded)},
		{a, 5, "", keeps(a, Current)},
		{a, 5, "a", keeps(a, Current)},
		{a, 5, "b", keeps(a, Promised)},
		{a, 6, "", raised("")},
		{a, 6, "a", raised("a")},
		{a, 6, "b", raised("b")},

		{givenUp, 4, "a", keeps(givenUp, Superseded)},
		{givenUp, 5, "", keeps(givenUp, GivenUp)},
		{givenUp, 5, "a", keeps(givenUp, GivenUp)},
		{givenUp, 6, "", raised("")},
		{givenUp, 6, "a", raised("a")},

		{Promise{}, 0, "", keeps(Promise{}, Current)},
		{Promise{}, 0, "a", Decision{Verdict: Current, Next: Promise{Leader: "a"}, Ballot: &Ballot{0, "a"}}},
	} {
		t.Run(fmt.Sprintf("%+v,%d,%q", c.promise, c.generation, c.leader), func(t *testing.T) {
			got := c.promise.Accept(c.generation, c.leader)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Fatal(diff)
			}
			if accepted := c.want.Verdict == Current || c.want.Verdict == Raised; got.Verdict.Accepted() != accepted {
				t.Fatalf("%v accepted: %v", got.Verdict, !accepted)
			}
		})
	}
}

func TestGivingUpKeepsTheGeneration(t *testing.T) {
	for _, p := range []Promise{{}, {Generation: 5}, {Generation: 5, Leader: "a"}, {Generation: 5, GivenUp: true}} {
		next, ballot := p.GiveUp()
		if want := (Promise{Generation: p.Generation, GivenUp: true}); next != want || ballot != (Ballot{Generation: p.Generation}) || !ballot.GivenUp() {
			t.Errorf("%+v gives up to %+v, %+v", p, next, ballot)
		}
	}
}

func TestVerdictsHaveNames(t *testing.T) {
	for v, want := range map[Verdict]string{
		Superseded: "superseded", Promised: "promised", GivenUp: "given_up", Current: "current", Raised: "raised", 0: "unknown",
	} {
		if v.String() != want {
			t.Errorf("%d is %q, want %q", v, v, want)
		}
	}
}

// TestNoGenerationHasTwoLeadersWhateverTheCrashes keeps both files as a broker
// does and stops it between any two writes. A leader that was accepted once, at
// its own generation, is the only one that ever is, unless the generation was
// given up; then nobody is.
func TestNoGenerationHasTwoLeadersWhateverTheCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var replica *Replica
		var ballot *Ballot
		promise := Promise{}
		accepted := make(map[uint64]string)
		givenUp := make(map[uint64]bool)
		var highest uint64 // of what was accepted or given up, durably
		crashed := func() bool {
			if !rapid.Bool().Draw(t, "crashed") {
				return false
			}
			promise = Reconcile(replica, ballot)
			return true
		}
		t.Repeat(map[string]func(*rapid.T){
			"a leader speaks": func(t *rapid.T) {
				generation := rapid.Uint64Range(0, 6).Draw(t, "generation")
				leader := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "leader")
				d := promise.Accept(generation, leader)
				if d.Ballot != nil {
					if crashed() {
						return
					}
					ballot = d.Ballot
				}
				if d.Replica {
					if crashed() {
						return
					}
					replica = &Replica{Generation: d.Next.Generation}
				}
				if (d.Ballot != nil || d.Replica) && crashed() {
					return // written, and never answered
				}
				promise = d.Next
				if !d.Verdict.Accepted() {
					return
				}
				if generation < highest {
					t.Fatalf("generation %d was accepted after %d", generation, highest)
				}
				highest = generation
				if givenUp[generation] {
					t.Fatalf("%q was accepted at generation %d, which was given up", leader, generation)
				}
				if leader == "" {
					return
				}
				if other, is := accepted[generation]; is && other != leader {
					t.Fatalf("%q and %q were accepted at generation %d", other, leader, generation)
				}
				accepted[generation] = leader
			},
			"the generation is given up": func(t *rapid.T) {
				next, given := promise.GiveUp()
				if crashed() {
					return
				}
				ballot, promise = &given, next
				givenUp[given.Generation] = true
				highest = max(highest, given.Generation)
			},
			"a crash": func(t *rapid.T) { promise = Reconcile(replica, ballot) },
			"": func(t *rapid.T) {
				if promise.GivenUp && promise.HasLeader() {
					t.Fatalf("%+v has a leader and is given up", promise)
				}
			},
		})
	})
}
