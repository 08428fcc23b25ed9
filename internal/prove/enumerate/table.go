package enumerate

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
)

// Row counts what was found with one fsync mode and one kind of roll.
type Row struct {
	Mode      engine.FsyncMode
	Roll      Roll
	Journaled bool
	// Workloads, and their CrashPoints: those of their last operations.
	Workloads, CrashPoints int
	// States is how many disks the crash points may leave, equal ones of one
	// crash point counted once, and Opened how many of them were opened: the
	// others are equal to one of those, or to one of another row that is opened in
	// the same way, and the same was expected of them.
	States, Opened int
	// The states by verdict.
	Whole, Short, Lost, Refused int
	// Sampled counts the crash points with more states than the bound allows.
	Sampled int
	Deeds
}

// Deeds is what workloads did, from their first operation to their last, so that
// it can be told that the paths meant were taken.
type Deeds struct {
	// Acked counts the records that were acknowledged.
	Acked int
	// Rolls counts all rolls, RollsBackground those to a segment prepared before,
	// and RollsDiscarded the prepared segments that were not used.
	Rolls, RollsBackground, RollsDiscarded int
	// Trimmed counts the segments that retention removed.
	Trimmed int
	// Cut counts truncations that cut something, CutBelowBase those that emptied
	// the log below where it began.
	Cut, CutBelowBase int
	// Entries counts the batches that a journal committed.
	Entries int
}

func (d *Deeds) plus(o Deeds) {
	d.Acked += o.Acked
	d.Rolls += o.Rolls
	d.RollsBackground += o.RollsBackground
	d.RollsDiscarded += o.RollsDiscarded
	d.Trimmed += o.Trimmed
	d.Cut += o.Cut
	d.CutBelowBase += o.CutBelowBase
	d.Entries += o.Entries
}

func (r *Row) add(v Verdict) {
	switch v {
	case Whole:
		r.Whole++
	case Short:
		r.Short++
	case Lost:
		r.Lost++
	case Refused:
		r.Refused++
	}
}

func (r *Row) plus(o Row) {
	r.Workloads += o.Workloads
	r.CrashPoints += o.CrashPoints
	r.States += o.States
	r.Opened += o.Opened
	r.Whole += o.Whole
	r.Short += o.Short
	r.Lost += o.Lost
	r.Refused += o.Refused
	r.Sampled += o.Sampled
	r.Deeds.plus(o.Deeds)
}

// Result is what a run found: the sums, and the rows they are of.
type Result struct {
	// The sums of the rows. Refused counts workloads that failed as well, of which
	// there is no state.
	Workloads, CrashPoints, States, Opened int
	Whole, Short, Lost, Refused            int
	Sampled                                int
	Deeds
	Rows []Row
	// Failures are the first states that did not pass, in order.
	Failures []Failure

	bound  simdisk.Bound
	opsMax int
	only   bool
}

func (r *Result) count(o outcome, failuresKept int) {
	at := slices.IndexFunc(r.Rows, func(row Row) bool {
		return row.Mode == o.Row.Mode && row.Roll == o.Row.Roll && row.Journaled == o.Row.Journaled
	})
	if at < 0 {
		at = len(r.Rows)
		r.Rows = append(r.Rows, Row{Mode: o.Row.Mode, Roll: o.Row.Roll, Journaled: o.Row.Journaled})
	}
	r.Rows[at].plus(o.Row)
	room := min(len(o.failures), failuresKept-len(r.Failures))
	r.Failures = append(r.Failures, o.failures[:room]...)
}

// sum brings the rows into order and adds them up.
func (r *Result) sum() {
	order := func(row Row) int {
		return slices.Index(Modes(), row.Mode)*len(Rolls()) + slices.Index(Rolls(), row.Roll)
	}
	slices.SortFunc(r.Rows, func(a, b Row) int { return order(a) - order(b) })
	var all Row
	for _, row := range r.Rows {
		all.plus(row)
	}
	r.Workloads, r.CrashPoints, r.States, r.Opened = all.Workloads, all.CrashPoints, all.States, all.Opened
	r.Whole, r.Short, r.Lost, r.Refused = all.Whole, all.Short, all.Lost, all.Refused
	r.Sampled, r.Deeds = all.Sampled, all.Deeds
}

// Print writes the table, the bound within which it holds, and one line that sums
// up.
func (r Result) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fsync\troll\tworkloads\tcrash points\tsampled\tstates\topened\twhole\tshort\tlost\trefused")
	for _, row := range r.Rows {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", modeText(row.Mode, row.Journaled), row.Roll, row.Workloads, row.CrashPoints,
			row.Sampled, row.States, row.Opened, row.Whole, row.Short, row.Lost, row.Refused)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	scope := fmt.Sprintf("all workloads of up to %d operations", r.opsMax)
	if r.only {
		scope = "one case"
	}
	_, err := fmt.Fprintf(out, "done: %d records acknowledged, %d rolls (%d of them in the background; %d prepared segments thrown away), "+
		"%d segments trimmed, %d truncations (%d of them below the base)\n"+
		"bound: %s; %s; %d crash points with more than %d combinations were sampled\n"+
		"%d workloads, %d crash points, %d states: %d with every record, %d short of records promised to no one, %d lost, %d refused\n",
		r.Acked, r.Rolls, r.RollsBackground, r.RollsDiscarded, r.Trimmed, r.Cut, r.CutBelowBase,
		scope, boundText(r.bound), r.Sampled, r.bound.StatesMax,
		r.Workloads, r.CrashPoints, r.States, r.Whole, r.Short, r.Lost, r.Refused)
	return err
}

// boundText says which states are told apart.
func boundText(b simdisk.Bound) string {
	var s strings.Builder
	fmt.Fprintf(&s, "each name old or new, each write under way done or not, each dirty page of %d bytes lost or written", simdisk.PageBytes)
	switch b.Grain {
	case simdisk.TornPages:
		fmt.Fprintf(&s, " or torn after any of its sectors of %d", simdisk.SectorBytes)
	case simdisk.AnySectors:
		fmt.Fprintf(&s, " or any set of its sectors of %d", simdisk.SectorBytes)
	}
	s.WriteString(", each length the durable or the current one")
	if b.LengthStep > 0 {
		fmt.Fprintf(&s, " or a multiple of %d between", b.LengthStep)
	}
	return s.String()
}
