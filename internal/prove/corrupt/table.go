package corrupt

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Row counts the images with one verdict.
type Row struct {
	Format Format
	State  State
	// File is what was damaged: "segment 1" to "segment 3", an index likewise, or
	// "mark"; Kind is "flip" or "cut".
	File, Kind string
	Verdict    Verdict
	Images     int
	// Dropped is the number of intact records that cuts took along, and
	// DroppedMost the most that one did.
	Dropped, DroppedMost uint64

	// order is that of the files.
	order int
}

// key is a row without its counts.
func (r Row) key() Row {
	r.Images, r.Dropped, r.DroppedMost = 0, 0, 0
	return r
}

// Result is what a run found.
type Result struct {
	// Images is how many were opened; Lost how many of them hold fewer or other
	// records than they have to, or say something wrong.
	Images, Lost int
	// Refused counts those that were refused, at open or when read; Short those
	// opened with fewer records, as the rules allow.
	Refused, Short int
	Rows           []Row
	// Failures explain the first lost images.
	Failures []error
}

func (r *Result) count(w *world, o outcome) {
	r.Images++
	switch {
	case o.verdict == Lost:
		r.Lost++
		if len(r.Failures) < w.o.FailuresKept {
			r.Failures = append(r.Failures, o.problem)
		}
	case o.verdict.refused():
		r.Refused++
	case o.verdict.short():
		r.Short++
	}
	row := Row{Format: w.format, State: w.state, File: string(o.file.kind), Kind: o.damage.what(), Verdict: o.verdict}
	if o.file.kind != markFile {
		row.File = fmt.Sprintf("%s %d", o.file.kind, o.file.place+1)
	}
	row.order = slices.Index([]fileKind{segmentFile, indexFile, markFile}, o.file.kind)*segments + o.file.place
	at := slices.IndexFunc(r.Rows, func(other Row) bool { return other.key() == row })
	if at < 0 {
		at = len(r.Rows)
		r.Rows = append(r.Rows, row)
	}
	found := &r.Rows[at]
	found.Images++
	found.Dropped += o.dropped
	found.DroppedMost = max(found.DroppedMost, o.dropped)
}

// sort brings the rows into an order that does not depend on who was first.
func (r *Result) sort() {
	slices.SortStableFunc(r.Rows, func(a, b Row) int {
		return cmp.Or(
			cmp.Compare(slices.Index(Formats(), a.Format), slices.Index(Formats(), b.Format)),
			cmp.Compare(slices.Index(States(), a.State), slices.Index(States(), b.State)),
			cmp.Compare(a.order, b.order), -cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Verdict, b.Verdict),
		)
	})
}

// Print writes the table of verdicts and one line that sums up.
func (r Result) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "log\tended\tdamaged\tby\tverdict\timages\tintact records dropped (most at once)")
	for _, row := range r.Rows {
		dropped := ""
		if row.Dropped > 0 {
			dropped = fmt.Sprintf("%d (%d)", row.Dropped, row.DroppedMost)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", row.Format, row.State, row.File, row.Kind, row.Verdict, row.Images, dropped)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d images: %d with all records, %d refused, %d short as the rules allow, %d lost\n",
		r.Images, r.Images-r.Refused-r.Short-r.Lost, r.Refused, r.Short, r.Lost)
	return err
}
