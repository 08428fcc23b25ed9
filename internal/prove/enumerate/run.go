package enumerate

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"felix.local/felix/internal/simdisk"
)

// Run enumerates as the options say, prints the table and gives its sums. States
// that did not pass are in the result; the error is about options or the writer.
func Run(out io.Writer, o Options) (Result, error) {
	o = o.withDefaults()
	r := Result{bound: o.Bound, opsMax: o.OpsMax}
	if err := o.validate(); err != nil {
		return r, err
	}
	if o.Only != "" {
		only, err := ParseCase(o.Only)
		if err != nil {
			return r, err
		}
		r.only = true
		run(&r, o, func(yield func(Case)) { yield(only) })
	} else {
		run(&r, o, o.cases)
	}
	r.sum()
	return r, r.Print(out)
}

// cases gives every workload under every configuration. The long ones, of which
// there are most, come last and in one row.
func (o Options) cases(yield func(Case)) {
	for _, mode := range o.Modes {
		for _, roll := range o.Rolls {
			workloads(o.OpsMax, func(w []Operation) {
				yield(Case{Mode: mode, Roll: roll, Journaled: o.Journaled, Workload: w, Point: -1, State: -1})
			})
		}
	}
}

// queueLength keeps the workers busy.
const queueLength = 256

func run(r *Result, o Options, cases func(yield func(Case))) {
	todo, outcomes := make(chan Case, queueLength), make(chan outcome, queueLength)
	go func() {
		defer close(todo)
		cases(func(c Case) { todo <- c })
	}()
	known := newCache()
	var workers sync.WaitGroup
	for range o.Workers {
		workers.Go(func() {
			for c := range todo {
				outcomes <- visit(c, o, known)
			}
		})
	}
	go func() {
		workers.Wait()
		close(outcomes)
	}()
	for found := range outcomes {
		r.count(found, o.FailuresKept)
	}
}

// outcome is what became of one workload.
type outcome struct {
	Case
	Row
	failures []Failure
}

// visit runs a workload and judges every state of its crash points.
func visit(c Case, o Options, known *cache) outcome {
	w := newWorkload(c, o)
	found := outcome{Case: c, Row: Row{Mode: c.Mode, Roll: c.Roll, Journaled: c.Journaled, Workloads: 1}}
	failed := errors.New("the bubble did not run the workload to its end")
	o.Bubble(func() { failed = w.run() })
	if failed != nil {
		found.Refused++
		found.failures = append(found.failures, Failure{Case: c, Verdict: Refused, Cause: failed})
	}
	found.CrashPoints, found.Deeds = w.points, w.deeds
	for _, m := range w.moments {
		found.judge(m, o, known)
	}
	return found
}

// judge judges every state of one crash point.
func (found *outcome) judge(m moment, o Options, known *cache) {
	if !m.states.Exhaustive() {
		found.Sampled++
	}
	config := 0
	if found.Case.Roll != Inline {
		config = 1
	}
	expected, n := m.expect.key(), -1
	for state := range m.states.All() {
		n++
		if found.State >= 0 && found.State != n {
			continue
		}
		// A journal is replayed whether those who open it go on with it or not.
		opener, key := found.Case, int(found.Case.Mode)<<1|config
		if opener.Journaled = opener.Journaled && n%2 == 0; opener.Journaled {
			key = -1 - key
		}
		k := verdictKey{state.Digest(), expected, key}
		j, fresh := known.verdict(k, func() (Verdict, error) { return judge(opener, o, state, m.expect) })
		found.States++
		if fresh {
			found.Opened++
		}
		found.add(j.verdict)
		if j.err != nil && len(found.failures) < o.FailuresKept {
			at := found.Case
			at.Point, at.State = m.point, n
			found.failures = append(found.failures, Failure{at, j.verdict, m.change, j.err, listing(nth(m.states, n))})
		}
	}
}

// nth builds a state once more, since judging it changed it.
func nth(states *simdisk.States, n int) *simdisk.Disk {
	for state := range states.All() {
		if n == 0 {
			return state
		}
		n--
	}
	panic(fmt.Sprintf("enumerate: an enumeration has no state %d when it is repeated", n))
}
