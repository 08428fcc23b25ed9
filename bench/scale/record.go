package main

import (
	"slices"

	"felix.local/felix/bench"
	"felix.local/felix/bench/internal/rig"
)

// record is what -json writes: every value that was measured.
type record struct {
	rig.Record
	Rounds  int           `json:"rounds"`
	SliceMS int64         `json:"slice_ms"`
	Curves  []curveRecord `json:"curves"`
}

type curveRecord struct {
	Name  string `json:"name"`
	About string `json:"about"`
	// Axis names what At of a line counts.
	Axis  string       `json:"axis"`
	Error string       `json:"error,omitempty"`
	Lines []lineRecord `json:"lines"`
}

type lineRecord struct {
	At   int64  `json:"at"`
	Side string `json:"side"`
	// Values are by what was measured, with its unit.
	Values map[string]values `json:"values"`
}

// values are those of all rounds, in their order.
type values struct {
	Median  float64   `json:"median"`
	Low     float64   `json:"low"`
	High    float64   `json:"high"`
	Samples []float64 `json:"samples"`
}

// recordOf is everything that was measured.
func recordOf(flags rig.Flags, drawn []drawing) record {
	r := record{Record: flags.Record(), Rounds: flags.Rounds, SliceMS: flags.Slice.Milliseconds()}
	for _, d := range drawn {
		c := curveRecord{Name: d.name, About: d.about, Axis: d.axis, Lines: []lineRecord{}}
		if d.err != nil {
			c.Error = d.err.Error()
		}
		for _, l := range d.lines {
			row := lineRecord{At: l.at, Side: l.side, Values: make(map[string]values)}
			for _, column := range d.columns {
				if of := l.of(column); len(of) > 0 {
					row.Values[column.key] = values{bench.MedianOf(of), slices.Min(of), slices.Max(of), of}
				}
			}
			c.Lines = append(c.Lines, row)
		}
		r.Curves = append(r.Curves, c)
	}
	return r
}
