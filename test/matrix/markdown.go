package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// markdown is the whole run as a page's part: an overview, every cell, what was said, and
// what was left out.
func (t *Table) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, `%s`, revision %s:\n\n", t.Date, t.Command, t.Revision)
	t.overview(&b)
	t.everyCell(&b)
	t.texts(&b)
	t.checksums(&b)
	t.leftOut(&b)
	if failures := t.failures(); len(failures) > 0 {
		b.WriteString("\n**Failures**\n\n")
		for _, f := range failures {
			fmt.Fprintf(&b, "- %s\n", oneLine(f))
		}
	}
	return b.String()
}

// overview is a line per kernel and a column per denial.
func (t *Table) overview(b *strings.Builder) {
	all := denials()
	b.WriteString("| Kernel |")
	for _, d := range all {
		fmt.Fprintf(b, " %s |", d.name)
	}
	b.WriteString(" XFS | Conformance, ring / pool | s |\n|---|" + strings.Repeat("---|", len(all)+3) + "\n")
	for _, r := range t.Rows {
		if r.Skipped != "" {
			fmt.Fprintf(b, "| %s |%s skipped |\n", r.title(), strings.Repeat(" |", len(all)+2))
			continue
		}
		fmt.Fprintf(b, "| %s |", r.title())
		for _, d := range all {
			fmt.Fprintf(b, " %s |", r.short(d, false))
		}
		var xfs []string
		for _, d := range xfsDenials() {
			if text := r.short(d, true); text != "" {
				xfs = append(xfs, text)
			}
		}
		fmt.Fprintf(b, " %s | %s | %.0f |\n", orDash(strings.Join(xfs, ", ")), r.conformanceText(), r.Seconds)
	}
}

func (r *Row) title() string {
	if r.Name == hostRow {
		return "host: " + r.Release
	}
	if r.Release == "" {
		return r.Name
	}
	return strings.TrimSuffix(r.Release, "-cloud-amd64")
}

// short is a cell in a word.
func (r *Row) short(d denial, xfs bool) string {
	for _, c := range r.Cells {
		switch {
		case c.Denial != d.name || (c.Filesystem == "xfs") != xfs:
		case len(c.Problems) > 0:
			return "**FAILED**"
		case c.Skipped != "":
			return "–"
		default:
			return c.Backend
		}
	}
	return ""
}

func (r *Row) conformanceText() string {
	var texts []string
	for _, c := range r.Conformance {
		text := fmt.Sprint(c.Passed)
		if len(c.Problems) > 0 {
			text = "**FAILED**"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, " / ")
}

func orDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// everyCell is a line per cell.
func (t *Table) everyCell(b *strings.Builder) {
	b.WriteString("\n| Kernel | Filesystem | Denial | Backend | Reason | Demo | Checksum |\n|---|---|---|---|---|---|---|\n")
	for _, r := range t.Rows {
		for _, c := range r.Cells {
			if c.Skipped != "" {
				fmt.Fprintf(b, "| %s | %s | %s | skipped: %s ||||\n", r.title(), c.Filesystem, c.Denial, c.Skipped)
				continue
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s |\n",
				r.title(), c.Filesystem, c.Denial, c.Backend, oneLine(c.Reason), orDash(c.Demo), orDash(c.Digest))
		}
	}
}

// texts is what felixd says would change the choice, each text once per denial.
func (t *Table) texts(b *strings.Builder) {
	b.WriteString("\nWhat `felixd doctor` says to change:\n\n| Denial | Kernels | Remedy |\n|---|---|---|\n")
	for _, d := range denials() {
		var order []string
		kernels := make(map[string][]string)
		for _, r := range t.Rows {
			for _, c := range r.Cells {
				if c.Denial != d.name || c.Remedy == "" || slices.Contains(kernels[c.Remedy], r.Name) {
					continue
				}
				if kernels[c.Remedy] == nil {
					order = append(order, c.Remedy)
				}
				kernels[c.Remedy] = append(kernels[c.Remedy], r.Name)
			}
		}
		for _, remedy := range order {
			fmt.Fprintf(b, "| %s | %s | %s |\n", d.name, strings.Join(kernels[remedy], ", "), oneLine(remedy))
		}
	}
}

// checksums are the digests behind the short ones, and in how many cells each was seen.
func (t *Table) checksums(b *strings.Builder) {
	b.WriteString("\nWhat the checksums are over:\n\n| What | Cells | SHA-256 |\n|---|---|---|\n")
	cells := make(map[string]map[string]int)
	for _, r := range t.Rows {
		for _, c := range r.Cells {
			if c.Written == nil {
				continue
			}
			for what, digest := range c.Written.Digests {
				if cells[what] == nil {
					cells[what] = make(map[string]int)
				}
				cells[what][digest]++
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(cells)) {
		for _, digest := range slices.Sorted(maps.Keys(cells[what])) {
			fmt.Fprintf(b, "| %s | %d | `%s` |\n", what, cells[what][digest], digest)
		}
	}
}

// leftOut is what was not run or not looked at, with its reason.
func (t *Table) leftOut(b *strings.Builder) {
	var lines []string
	for _, r := range t.Rows {
		if r.Skipped != "" {
			lines = append(lines, fmt.Sprintf("%s: the whole row is skipped: %s", r.Name, r.Skipped))
		}
		for _, n := range r.Notes {
			lines = append(lines, r.Name+": "+n)
		}
		for _, c := range r.Cells {
			if c.Skipped != "" {
				lines = append(lines, fmt.Sprintf("%s, %s: %s", r.Name, c.Denial, c.Skipped))
			}
		}
		for _, c := range r.Conformance {
			for _, s := range c.Skipped {
				lines = append(lines, fmt.Sprintf("%s, conformance of the %s: %s", r.Name, c.Backend, s))
			}
		}
	}
	if len(lines) == 0 {
		return
	}
	b.WriteString("\nNotes, and what was left out:\n\n")
	for _, line := range lines {
		fmt.Fprintf(b, "- %s\n", oneLine(line))
	}
}

// oneLine keeps a text inside a cell of a table.
func oneLine(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", "\\|")
}
