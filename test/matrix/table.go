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
	Rows    []Row  `json:"rows"`
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
	type place struct{ row, cell, digest string }
	first := make(map[string]place)
	for i := range t.Rows {
		row := &t.Rows[i]
		for j := range row.Cells {
			c := &row.Cells[j]
			if c.Written == nil {
				continue
			}
			for _, what := range slices.Sorted(maps.Keys(c.Written.Digests)) {
				digest := c.Written.Digests[what]
				reference, seen := first[what]
				if !seen {
					first[what] = place{row.Name, c.Denial, digest}
				} else if digest != reference.digest {
					c.problem("other bytes than on %s, %s: %s has digest %s, not %s", reference.row, reference.cell, what, digest, reference.digest)
				}
			}
		}
	}
	if len(first) == 0 {
		t.Problems = append(t.Problems, "nothing was written anywhere")
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
