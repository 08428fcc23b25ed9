package corrupt

import (
	"fmt"
	"slices"
)

// Result is what one run or several found.
type Result struct {
	// Images is how many were opened. Each is one of the next four.
	Images int
	// Whole had every record, Refused were refused at open or when read, Short
	// opened with fewer records, as the rules allow.
	Whole, Refused, Short int
	// Lost hold fewer or other records than they have to, or say something wrong.
	Lost int
	Rows []Row
	// Failures explain the first lost images, each a *Failure with the case to run
	// again.
	Failures []error
}

func (r *Result) countVerdict(v Verdict, images int) {
	r.Images += images
	switch {
	case v == Lost:
		r.Lost += images
	case v == Whole:
		r.Whole += images
	case v.refused():
		r.Refused += images
	default:
		r.Short += images
	}
}

// Add takes in what another run found.
func (r *Result) Add(other Result) {
	for _, row := range other.Rows {
		r.Rows = row.addTo(r.Rows)
		r.countVerdict(row.Verdict, row.Images)
	}
	r.Failures = append(r.Failures, other.Failures...)
	r.sort()
}

// Of sums up the images that had a verdict.
func (r Result) Of(v Verdict) (c Counts) {
	for _, row := range r.Rows {
		if row.Verdict == v {
			c.add(row.Counts)
		}
	}
	return c
}

// All sums up all images.
func (r Result) All() (c Counts) {
	for _, row := range r.Rows {
		c.add(row.Counts)
	}
	return c
}

// Totals are the rows summed up over formats and files, in their order.
func (r Result) Totals() (totals []Row) {
	for _, row := range r.Rows {
		row.Format, row.File, row.order = "", "", 0
		totals = row.addTo(totals)
	}
	slices.SortStableFunc(totals, compareRows)
	return totals
}

// String gives one line.
func (r Result) String() string {
	c := r.All()
	cut := fmt.Sprintf("%d bytes cut, %d side copies, %d intact records dropped", c.BytesCut, c.SideCopies, c.Dropped)
	return fmt.Sprintf("%d images: %d with all records, %d refused, %d short as the rules allow (%s), %d lost",
		r.Images, r.Whole, r.Refused, r.Short, cut, r.Lost)
}
