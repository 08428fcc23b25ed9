package main

import (
	"fmt"
	"maps"
	"slices"
)

// Row is a kernel with all its cells.
type Row struct {
	Name string `json:"name"`
	// Suite and Package say where the kernel is from; empty for the host's.
	Suite   string `json:"suite,omitempty"`
	Package string `json:"package,omitempty"`
	Release string `json:"release,omitempty"`
	// Skipped says why the row was not run at all.
	Skipped string `json:"skipped,omitempty"`
	// Notes are what a reader should know, such as a machine that was started twice.
	Notes       []string      `json:"notes,omitempty"`
	Cells       []Cell        `json:"cells"`
	Conformance []Conformance `json:"conformance"`
	Seconds     float64       `json:"seconds"`
	// Problems are those of the machine; cells have their own.
	Problems []string `json:"problems,omitempty"`
}

func (r *Row) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// Table is a whole run.
type Table struct {
	Date    string `json:"date"`
	Command string `json:"command"`
	// Revision is the commit that was run.
	Revision string `json:"revision"`
	Rows     []Row  `json:"rows"`
	// Problems are those of the table as a whole.
	Problems []string `json:"problems,omitempty"`
}

// hostRow is the name of the row of the kernel this runs on.
const hostRow = "host"

// completed counts the kernels beside the host's that were run.
func (t *Table) completed() int {
	n := 0
	for _, r := range t.Rows {
		if r.Name != hostRow && r.Skipped == "" {
			n++
		}
	}
	return n
}

// judge compares the cells with each other, and counts the rows: fewer than kernelsMin
// kernels beside the host's are a failure.
func (t *Table) judge(kernelsMin int) {
	if n := t.completed(); n < kernelsMin {
		t.Problems = append(t.Problems, fmt.Sprintf("only %d kernels were run, want at least %d", n, kernelsMin))
	}
	first := t.firstDigests()
	if len(first) == 0 {
		t.Problems = append(t.Problems, "nothing was written anywhere")
	}
	for i := range t.Rows {
		for j := range t.Rows[i].Cells {
			t.Rows[i].Cells[j].compare(first)
		}
	}
}

// written is a digest and the cell that it was first seen in.
type written struct{ row, cell, digest string }

// firstDigests are the digests of everything that any cell has written.
func (t *Table) firstDigests() map[string]written {
	first := make(map[string]written)
	for _, row := range t.Rows {
		for _, c := range row.Cells {
			if c.Written == nil {
				continue
			}
			for what, digest := range c.Written.Digests {
				if _, seen := first[what]; !seen {
					first[what] = written{row.Name, c.Denial, digest}
				}
			}
		}
	}
	return first
}

// compare holds what a cell has written against what was written first: all of it, but for
// what the cell says it cannot hold. A cell whose workload did not answer has a problem
// already.
func (c *Cell) compare(first map[string]written) {
	if c.Written == nil {
		return
	}
	for _, what := range slices.Sorted(maps.Keys(first)) {
		reference := first[what]
		digest, found := c.Written.Digests[what]
		_, missing := c.Written.Missing[what]
		switch {
		case !found && !missing:
			c.problem("there is no digest of %s, which %s, %s has", what, reference.row, reference.cell)
		case found && digest != reference.digest:
			c.problem("other bytes than on %s, %s: %s has digest %s, not %s", reference.row, reference.cell, what, digest, reference.digest)
		}
	}
}

// failures are all problems, each with its place.
func (t *Table) failures() []string {
	failures := slices.Clone(t.Problems)
	for i := range t.Rows {
		failures = append(failures, t.Rows[i].failures()...)
	}
	return failures
}

func (r *Row) failures() []string {
	var failures []string
	for _, p := range r.Problems {
		failures = append(failures, r.Name+": "+p)
	}
	for _, c := range r.Cells {
		for _, p := range c.Problems {
			failures = append(failures, fmt.Sprintf("%s, %s, %s: %s", r.Name, c.Filesystem, c.Denial, p))
		}
	}
	for _, c := range r.Conformance {
		for _, p := range c.Problems {
			failures = append(failures, r.Name+": "+p)
		}
	}
	return failures
}
