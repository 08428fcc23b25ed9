package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"felix.local/felix/test/matrix/plan"
)

// Cell is what was seen under one denial on one kernel.
type Cell struct {
	Denial     string `json:"denial"`
	Filesystem string `json:"filesystem"`
	// Skipped says why the cell was not run.
	Skipped string `json:"skipped,omitempty"`
	// Backend, Reason and Remedy are what felixd doctor says.
	Backend string `json:"backend,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	// Demo is how many of the demo's claims hold, as "8/8"; empty where it was left out.
	Demo string `json:"demo,omitempty"`
	// Written is what the workload left behind, Digest a checksum over all its digests.
	Written *plan.Written `json:"written,omitempty"`
	Digest  string        `json:"digest,omitempty"`
	// Problems are what is not as it has to be.
	Problems []string `json:"problems,omitempty"`
}

func (c *Cell) problem(format string, args ...any) {
	c.Problems = append(c.Problems, fmt.Sprintf(format, args...))
}

// Conformance is a run of the suite that every disk has to pass.
type Conformance struct {
	Backend string `json:"backend"`
	Passed  int    `json:"passed"`
	// Skipped are the promises that could not be looked at, with the reason.
	Skipped  []string `json:"skipped,omitempty"`
	Problems []string `json:"problems,omitempty"`
}

// doctorSays is what is read of felixd doctor.
type doctorSays struct {
	Kernel     struct{ Release string }
	Backend    struct{ Name, Reason, Remedy string }
	Filesystem struct{ Type string }
	Problems   []string
}

// expectation is what a cell is held to.
type expectation struct {
	backend string
	// about is the backend that has to be explained by reason and remedy.
	about  string
	reason string
	remedy []string
	demo   bool
	// mayMiss: the filesystem may be one that holds no commit journal.
	mayMiss bool
}

// judgeCell makes a cell of its steps' results.
func judgeCell(p place, d denial, want expectation, results map[string]plan.Result) Cell {
	c := Cell{Denial: d.name, Filesystem: p.filesystem}
	take := func(step string) (plan.Result, bool) {
		r, found := results[p.cellName(d)+"/"+step]
		switch {
		case !found:
			c.problem("%s: no result", step)
		case r.Skipped != "":
			c.Skipped = r.Skipped
		case r.Problem() != "":
			c.problem("%s", r.Problem())
		default:
			return r, true
		}
		return r, false
	}
	if r, ok := take(stepDoctor); ok {
		c.judgeDoctor(r.Stdout, want)
	}
	if want.demo {
		if r, ok := take(stepDemo); ok {
			c.judgeDemo(r.Stdout, want)
		}
	}
	if r, ok := take(stepWorkload); ok {
		c.judgeWorkload(r.Stdout, want)
	}
	return c
}

func (c *Cell) judgeDoctor(said string, want expectation) {
	var d doctorSays
	if err := json.Unmarshal([]byte(said), &d); err != nil {
		c.problem("doctor: %v: %s", err, said)
		return
	}
	c.Backend, c.Reason, c.Remedy = d.Backend.Name, d.Backend.Reason, d.Backend.Remedy
	for _, text := range d.Problems {
		c.problem("doctor finds: %s", text)
	}
	c.judgeBackend(stepDoctor, d.Backend.Name, want)
	if name, _, _ := strings.Cut(d.Backend.Name, "/"); name != want.about {
		return
	}
	if !strings.Contains(c.Reason, want.reason) {
		c.problem("doctor: the reason is %q, want %q in it", c.Reason, want.reason)
	}
	for _, text := range want.remedy {
		if !strings.Contains(c.Remedy, text) {
			c.problem("doctor: the remedy is %q, want %q in it", c.Remedy, text)
		}
	}
}

func (c *Cell) judgeBackend(step, got string, want expectation) {
	name, _, _ := strings.Cut(got, "/") // the driver is behind
	if want.backend == either && (name == ring || name == pool) {
		return
	}
	if name != want.backend {
		c.problem("%s: the backend is %q, want the %s", step, got, want.backend)
	}
}

func (c *Cell) judgeDemo(said string, want expectation) {
	for line := range strings.Lines(said) {
		var e struct {
			Event, Backend string
			Claims, Failed int
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Event != stepDemo {
			continue
		}
		c.Demo = fmt.Sprintf("%d/%d", e.Claims-e.Failed, e.Claims)
		if e.Failed > 0 || e.Claims == 0 {
			c.problem("demo: %d of %d claims do not hold", e.Failed, e.Claims)
		}
		c.judgeBackend(stepDemo, e.Backend, want)
		return
	}
	c.problem("demo: it does not sum up: %s", said)
}

func (c *Cell) judgeWorkload(said string, want expectation) {
	var w plan.Written
	if err := json.Unmarshal([]byte(said), &w); err != nil {
		c.problem("workload: %v: %s", err, said)
		return
	}
	c.Written = &w
	if len(w.Backends) != 1 {
		c.problem("workload: it ran on %v", w.Backends)
	} else {
		c.judgeBackend(stepWorkload, w.Backends[0], want)
	}
	for _, what := range slices.Sorted(maps.Keys(w.Missing)) {
		if !want.mayMiss {
			c.problem("workload: %s: %s", what, w.Missing[what])
		}
	}
	c.Digest = overall(w.Digests)
}

// overall is one short checksum over several.
func overall(digests map[string]string) string {
	sum := sha256.New()
	for _, what := range slices.Sorted(maps.Keys(digests)) {
		fmt.Fprintf(sum, "%s %s\n", what, digests[what])
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

var (
	passedLine  = regexp.MustCompile(`(?m)^\s*--- PASS: `)
	skippedLine = regexp.MustCompile(`(?m)^\s*--- SKIP: (\S+).*\n\s*(.*)`)
)

// judgeConformance reads what a test program printed.
func judgeConformance(backend string, results map[string]plan.Result) Conformance {
	c := Conformance{Backend: backend}
	r, found := results[conformanceName(backend)]
	switch {
	case !found:
		c.Problems = append(c.Problems, conformanceName(backend)+": no result")
		return c
	case r.Problem() != "":
		c.Problems = append(c.Problems, r.Problem())
	}
	c.Passed = len(passedLine.FindAllString(r.Stdout, -1))
	for _, m := range skippedLine.FindAllStringSubmatch(r.Stdout, -1) {
		c.Skipped = append(c.Skipped, m[1]+": "+m[2])
	}
	if c.Passed == 0 && len(c.Problems) == 0 {
		c.Problems = append(c.Problems, conformanceName(backend)+": nothing passed")
	}
	return c
}
