package diskerror

import (
	"fmt"
	"strings"
	"time"

	"felix.local/felix/test/matrix/diskerror/victim"
)

// Report is a whole run, for Markdown.
type Report struct {
	// Date is the day, Command what was run.
	Date    time.Time
	Command string
	// Revision is the commit that was run.
	Revision string
	Rows     []Row
	// Skipped says of parts why they were not run.
	Skipped []string
}

// Failures are the findings, a line each; a run without a cell is one too.
func (r Report) Failures() (lines []string) {
	for _, row := range r.Rows {
		for _, f := range row.Findings {
			lines = append(lines, fmt.Sprintf("%s, %s: %s", row.Kernel, row.Store.Name, f))
		}
	}
	if len(r.Rows) == 0 {
		lines = append(lines, "no cell was run")
	}
	return lines
}

// Markdown is the table, and how it is to be read.
func (r Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### Disk errors\n\n%s, `%s`, revision %s.\n", r.Date.UTC().Format(time.DateOnly), r.Command, r.Revision)
	b.WriteString(`
The emulator makes the disk of a running guest fail: the writes to the blocks that the next
records go to (in the segment, or in the commit journal), or those that bring journaled
records to their segment, or every flush. *Failed operation* is the first one that Felix
saw fail, *errno* what the append answered. From then on the program asks each poisoned log
for 20 more appends and closes the store: *acknowledged after* counts those that went well,
*again* the flushes and durable writes of a file that failed. Then power is cut, and a start with
a disk that works reads back what was promised, and appends again: *next start* counts what
it acknowledged.

| Kernel | Disk | What fails | Mode | Backend | Journal | Failed operation | errno | Poisoned | Acknowledged after | Refused | Again | Records promised | Read back | Next start | As required |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
`)
	for _, row := range r.Rows {
		s, report := row.Store, row.Report
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %d | %d | %d | %d | %d | %d | %s |\n",
			row.Kernel, row.Disk, failsText(row.Fails), s.Mode, s.Backend, s.Journal, operationText(report), report.Errno, poisonedCell(report),
			report.Acknowledged, report.Refused, report.Again, row.Promised, row.Records, row.Next, yes(len(row.Findings) == 0))
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(&b, "\n**Skipped:** %s\n", s)
	}
	return b.String()
}

func failsText(f victim.Fails) string {
	switch f {
	case victim.Write:
		return "write of the records"
	case victim.Segment:
		return "write to the segment, behind the journal"
	default:
		return "flush"
	}
}

// operationText names the operation and the kind of file.
func operationText(r victim.Report) string {
	switch {
	case r.File == "":
		return "none"
	case strings.HasPrefix(r.File, ".journal/"):
		return r.Operation + ", journal"
	case strings.HasSuffix(r.File, ".log"):
		return r.Operation + ", segment"
	default:
		return r.Operation + ", " + r.File
	}
}

func poisonedCell(r victim.Report) string {
	switch {
	case r.Poisoned && r.Other:
		return "both logs"
	case r.Poisoned:
		return "the log"
	default:
		return "**no**"
	}
}

func yes(holds bool) string {
	if holds {
		return "yes"
	}
	return "**no**"
}
