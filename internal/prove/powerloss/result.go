package powerloss

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Row counts what the workloads of one kind in one way came to.
type Row struct {
	// Kind is what the workloads are about, Mode the fsync mode, Roll inline or
	// background, Pages the order in which the kernel writes pages by itself.
	// Journal says that commits went through a journal.
	Kind              Kind
	Mode, Roll, Pages string
	Journal           bool
	Counts
}

// Failure is a workload that ended early.
type Failure struct {
	// Row names the row, Seed the workload in it.
	Row  string
	Seed uint64
	// ImageSeed is that of the image that failed; 0 when the workload failed
	// before an image did.
	ImageSeed uint64
	// Text says what is wrong, and how to have it again.
	Text string
}

func (f Failure) Error() string { return f.Text }

// Result is what a run found: the counts of all rows, each row, and the first
// failures.
type Result struct {
	Counts
	Rows []Row
	// NoJournal says why there are no rows with a commit journal; nil where there are.
	NoJournal error
	// Failed counts the workloads that ended early, also those that Failures has
	// no room for.
	Failed   int
	Failures []Failure
}

// Print writes the table and one line that sums up.
func (r Result) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "workload\tmode\tjournal\trolls\tpages\timages\tmidway\tafter process death\tacked\tread\tpoisoned\twhole\tshort\trefused\tlost\t"+
		"power cut again\topenings cut\tappended and reopened\trepaired\tbegin later\tretained\treopened\ttruncated\tbase moved back\trolls\tin background\t"+
		"id kept\tid made\tleaders accepted\tshipped\treset\trestored\tdeleted\tentries\tframes\tcheckpoints\tjournal full\treplayed")
	for _, row := range r.Rows {
		c := row.Counts
		fmt.Fprintf(w, "%s\t%s\t%v\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n",
			row.Kind, row.Mode, row.Journal, row.Roll, row.Pages,
			c.Images, c.Midway, c.Deaths, c.Acked, c.Read, c.Poisoned, c.Whole, c.Short, c.Refused, c.Lost,
			c.CutAgain, c.RecoveriesCut, c.Extended, c.Repaired, c.Later, c.Retained, c.Reopened, c.Truncated, c.BasesMovedBack, c.Rolls, c.RollsBackground,
			c.IDsKept, c.IDsMade, c.Accepted, c.Shipped, c.Reset, c.Restored, c.Deleted,
			c.Entries, c.Frames, c.Checkpoints, c.JournalFull, c.Replayed)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if r.NoJournal != nil {
		fmt.Fprintln(out, "no row with a commit journal:", r.NoJournal)
	}
	for _, f := range r.Failures {
		if _, err := fmt.Fprintf(out, "\n%s\n", f.Text); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "%d workloads, %d of them failed: %d images of %d acknowledged records, %d whole, %d short as the rules allow, "+
		"%d refused, %d lost; %d openings cut short; %d flushes, %d dsync writes, %d flushes of directories\n",
		r.Workloads, r.Failed, r.Images, r.Acked, r.Whole, r.Short, r.Refused, r.Lost, r.RecoveriesCut,
		r.Flushes, r.DsyncWrites, r.DirFlushes)
	return err
}
