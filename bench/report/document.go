package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"felix.local/felix/bench"
)

// Document is what a page shows.
type Document struct {
	Title string
	// Command repeats the measurements; Made says when they were taken.
	Command, Made string
	// Facts describe the machine.
	Facts   []Fact
	Results bench.Results
	// Verified: every acknowledged record was read back.
	Verified bool
}

// Fact is a line about the machine.
type Fact struct{ Name, Value string }

// Write makes dir with index.html, the plots as SVG and PNG, and results.json. What
// is there already is replaced.
func Write(dir string, d Document) error {
	if len(d.Results.Taken) == 0 {
		return errors.New("report: there is no measurement to show")
	}
	figures, err := d.figures()
	if err != nil {
		return err
	}
	page, err := d.page(figures)
	if err != nil {
		return err
	}
	raw, err := d.raw()
	if err != nil {
		return err
	}
	files := map[string][]byte{"index.html": page, "results.json": raw}
	for _, f := range figures {
		files[f.Name+".svg"], files[f.Name+".png"] = f.svg, f.png
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// rawRow is one measurement in results.json.
type rawRow struct {
	Round int    `json:"round"`
	Side  string `json:"side"`
	bench.Row
	Quantiles []bench.Quantile `json:"latency_quantiles"`
}

// raw is everything that was measured, for programs.
func (d Document) raw() ([]byte, error) {
	rows := []rawRow{}
	for _, t := range d.Results.Taken {
		rows = append(rows, rawRow{t.Round + 1, d.Results.Sides[t.Side], t.Row, t.Distribution.Quantiles()})
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetIndent("", " ")
	err := encoder.Encode(map[string]any{
		"title": d.Title, "command": d.Command, "made": d.Made, "machine": d.Facts, "verified": d.Verified, "rows": rows,
	})
	return b.Bytes(), err
}

// compared says that there are two sides.
func (d Document) compared() bool { return len(d.Results.Sides) == 2 }

// summaries are those of a point, by side.
func (d Document) summaries(point int) []bench.Summary {
	var list []bench.Summary
	for side := range d.Results.Sides {
		list = append(list, d.Results.Summarize(point, side))
	}
	return list
}

// axes lists the axes of the sweeps, each with its points.
func (d Document) axes() (names []string, points map[string][]int) {
	points = make(map[string][]int)
	for i, p := range d.Results.Points {
		if p.Axis == "" {
			continue
		}
		if points[p.Axis] == nil {
			names = append(names, p.Axis)
		}
		points[p.Axis] = append(points[p.Axis], i)
	}
	return names, points
}
