package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"felix.local/felix/bench"
)

// header names the columns of a drawing.
func (d drawing) header() []string {
	names := []string{d.axis, ""}
	for _, c := range d.columns {
		names = append(names, c.title)
	}
	return names
}

// cells are those of a line.
func (d drawing) cells(l line) []string {
	cells := []string{d.show(l.at), l.side}
	for _, c := range d.columns {
		cells = append(cells, c.cell(l.of(c)))
	}
	return cells
}

// cell is the median, with the least and the most where they differ.
func (c column) cell(values []float64) string {
	if len(values) == 0 {
		return "–"
	}
	show := func(v float64) string { return fmt.Sprintf("%.*f", c.digits, v) }
	low, high := show(slices.Min(values)), show(slices.Max(values))
	text := show(bench.MedianOf(values))
	if low != high {
		text += fmt.Sprintf(" (%s–%s)", low, high)
	}
	return text
}

// text prints a drawing for a terminal.
func text(w io.Writer, d drawing) error {
	fmt.Fprintf(w, "%s: %s\n", d.name, d.about)
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, strings.Join(d.header(), "\t"))
	for _, l := range d.lines {
		fmt.Fprintln(columns, strings.Join(d.cells(l), "\t"))
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	return d.end(w)
}

// document prints a drawing for a document.
func document(w io.Writer, d drawing) error {
	fmt.Fprintf(w, "### %s\n\n%s\n\n", d.name, d.about)
	fmt.Fprintf(w, "| %s |\n|--:|---|%s\n", strings.Join(d.header(), " | "), strings.Repeat("--:|", len(d.columns)))
	for _, l := range d.lines {
		fmt.Fprintf(w, "| %s |\n", strings.Join(d.cells(l), " | "))
	}
	return d.end(w)
}

// end says what went wrong, and leaves a line free.
func (d drawing) end(w io.Writer) error {
	if d.err != nil {
		fmt.Fprintf(w, "\nFAILED: %v\n", d.err)
	}
	_, err := fmt.Fprintln(w)
	return err
}
