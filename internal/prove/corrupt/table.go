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
	// "mark".
	File    string
	Kind    Kind
	Verdict Verdict
	Counts

	// order is that of the files.
	order int
}

// Counts are sums over images.
type Counts struct {
	Images int
	// BytesCut were cut off, and SideCopies made of that and of segments set aside.
	BytesCut   int64
	SideCopies int
	// Dropped is the number of intact records that went with that, and DroppedMost
	// the most that went at once.
	Dropped, DroppedMost uint64
}

func (c *Counts) add(other Counts) {
	c.Images += other.Images
	c.BytesCut += other.BytesCut
	c.SideCopies += other.SideCopies
	c.Dropped += other.Dropped
	c.DroppedMost = max(c.DroppedMost, other.DroppedMost)
}

// addTo adds a row to the one of its kind.
func (r Row) addTo(rows []Row) []Row {
	key := r
	key.Counts = Counts{}
	at := slices.IndexFunc(rows, func(other Row) bool { other.Counts = Counts{}; return other == key })
	if at < 0 {
		return append(rows, r)
	}
	rows[at].add(r.Counts)
	return rows
}

func (r *Result) count(w *world, o outcome) {
	row := Row{Format: w.format, State: w.state, File: string(o.file.kind), Kind: o.damage.Kind, Verdict: o.verdict}
	if o.file.kind == segmentFile || o.file.kind == indexFile {
		row.File = fmt.Sprintf("%s %d", o.file.kind, o.file.place+1)
	}
	row.order = slices.Index([]fileKind{segmentFile, indexFile, markFile, producersFile}, o.file.kind)*segments + o.file.place
	row.Counts = Counts{Images: 1, BytesCut: o.cut, SideCopies: o.copies, Dropped: o.dropped, DroppedMost: o.dropped}
	r.Rows = row.addTo(r.Rows)
	r.countVerdict(o.verdict, 1)
	if o.failure != nil && len(r.Failures) < w.o.FailuresKept {
		r.Failures = append(r.Failures, o.failure)
	}
}

// sort brings the rows into an order that does not depend on who was first.
func (r *Result) sort() {
	slices.SortStableFunc(r.Rows, compareRows)
	slices.SortFunc(r.Failures, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
}

func compareRows(a, b Row) int {
	return cmp.Or(
		cmp.Compare(slices.Index(Formats(), a.Format), slices.Index(Formats(), b.Format)),
		cmp.Compare(slices.Index(States(), a.State), slices.Index(States(), b.State)),
		cmp.Compare(a.order, b.order),
		cmp.Compare(slices.Index(Kinds(), a.Kind), slices.Index(Kinds(), b.Kind)),
		cmp.Compare(a.Verdict, b.Verdict),
	)
}

// Print writes the table of verdicts, unless it is to be brief, the same summed up
// over formats and files, and one line that sums up everything.
func (r Result) Print(out io.Writer, brief bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if !brief {
		fmt.Fprintln(w, "log\tended\tdamaged\tby\tverdict\timages\tbytes cut\tside copies\tintact records dropped (most at once)")
		for _, row := range r.Rows {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", row.Format, row.State, row.File, row.Kind, row.Verdict, row.cells())
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, "ended\tdamaged by\tverdict\timages\tbytes cut\tside copies\tintact records dropped (most at once)")
	for _, row := range r.Totals() {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", row.State, row.Kind, row.Verdict, row.cells())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, r)
	return err
}

// cells are those of a table.
func (c Counts) cells() string {
	cut, copies, dropped := "", "", ""
	if c.BytesCut > 0 {
		cut = fmt.Sprint(c.BytesCut)
	}
	if c.SideCopies > 0 {
		copies, dropped = fmt.Sprint(c.SideCopies), "0"
	}
	if c.Dropped > 0 {
		dropped = fmt.Sprintf("%d (%d)", c.Dropped, c.DroppedMost)
	}
	return fmt.Sprintf("%d\t%s\t%s\t%s", c.Images, cut, copies, dropped)
}
