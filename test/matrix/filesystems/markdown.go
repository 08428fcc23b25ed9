package filesystems

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Report is a whole run, for Markdown.
type Report struct {
	Date    time.Time `json:"date"`
	Command string    `json:"command"`
	// Revision is the commit that was run.
	Revision string `json:"revision"`
	Rows     []Row  `json:"rows"`
	// Skipped says of kernels why they were not run.
	Skipped []string `json:"skipped,omitempty"`
}

// Failures are what makes the run a failure, a line each.
func (r Report) Failures() (lines []string) {
	for _, row := range r.Rows {
		for _, p := range row.Problems {
			lines = append(lines, row.Kernel+": "+p)
		}
	}
	if len(r.Rows) == 0 {
		lines = append(lines, "no kernel was run")
	}
	return lines
}

// Markdown is the run as a page's part: how many tests passed on each kernel, the tests'
// own tables, and what was left out.
func (r Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, `%s`, revision %s, in an emulator:\n\n", r.Date.UTC().Format(time.DateOnly), r.Command, r.Revision)
	b.WriteString("| Kernel | Package | Passed | Failed | Skipped | s |\n|---|---|---|---|---|---|\n")
	for _, row := range r.Rows {
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %.0f |\n",
			row.Release, row.Package, row.count(passed), row.count(failed), row.count(skipped), row.Seconds)
	}
	for _, row := range r.Rows {
		if row.Tables != "" {
			fmt.Fprintf(&b, "\nLinux %s:\n\n%s\n", row.Release, strings.ReplaceAll(row.Tables, "## ", "### "))
		}
	}
	list(&b, "Notes, and what was left out", r.leftOut())
	list(&b, "**Failures**", r.Failures())
	return b.String()
}

func (r Row) count(outcome string) (n int) {
	for _, t := range leaves(r.Tests) {
		if t.Outcome == outcome {
			n++
		}
	}
	return n
}

func (r Report) leftOut() []string {
	lines := slices.Clone(r.Skipped)
	for _, row := range r.Rows {
		for _, n := range row.Notes {
			lines = append(lines, row.Kernel+": "+n)
		}
		for _, t := range leaves(row.Tests) {
			if t.Outcome == skipped {
				lines = append(lines, fmt.Sprintf("%s: %s: skipped: %s", row.Kernel, t.Name, t.reason()))
			}
		}
	}
	return lines
}

// lineMax is how many bytes of a line a page shows, of which a failed test can have a
// child's whole log; the rest is in the JSON.
const lineMax = 400

func list(b *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n\n", title)
	for _, line := range lines {
		line = strings.Join(strings.Fields(line), " ")
		if len(line) > lineMax {
			line = strings.ToValidUTF8(line[:lineMax], "") + "…"
		}
		fmt.Fprintf(b, "- %s\n", line)
	}
}
