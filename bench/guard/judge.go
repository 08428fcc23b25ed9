package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"felix.local/felix/bench"
	"felix.local/felix/bench/internal/rig"
)

// attemptsMax is how often a bar that is missed is measured.
const attemptsMax = 3

// bar is a value to measure and the limit it has.
type bar struct {
	name string
	// limit is the least that the value may be, or with atMost the most; 0 is none,
	// for what is shown only.
	limit   float64
	atMost  bool
	measure measure
}

// measure gives a value, and what it was made from.
type measure func(ctx context.Context) (measured, error)

// measured is one value. Of a ratio it is the median of the ratios of the pairs, with
// their 95% interval from Low to High; Medians is the ratio of the medians of both sides,
// and A and B are their samples, pair by pair.
type measured struct {
	Value             float64   `json:"value"`
	Low               float64   `json:"low,omitempty"`
	High              float64   `json:"high,omitempty"`
	Medians           float64   `json:"ratio_of_medians,omitempty"`
	Unit              string    `json:"unit"`
	A                 []float64 `json:"a"`
	B                 []float64 `json:"b,omitempty"`
	CPURatio          float64   `json:"cpu_ratio,omitempty"`
	DeviceDsyncMicros int64     `json:"device_dsync_us,omitempty"`
	Detail            string    `json:"detail"`
}

// compared is the ratio of two sides.
func compared(unit string, a, b []float64) measured {
	e := bench.Compare(a, b)
	return measured{Value: bench.MedianOf(e.Pairs), Low: e.Low, High: e.High, Medians: e.Ratio, Unit: unit, A: a, B: b}
}

// cells are the value, its interval and the ratio of the medians, as far as it has them.
func (m measured) cells() (value, interval, medians string) {
	value, interval, medians = fmt.Sprintf("%.2f", m.Value), "–", "–"
	if m.High > 0 {
		interval = fmt.Sprintf("%.2f–%.2f", m.Low, m.High)
	}
	if m.Medians > 0 {
		medians = fmt.Sprintf("%.2f", m.Medians)
	}
	return value, interval, medians
}

func (b bar) met(value float64) bool {
	switch {
	case b.limit == 0:
		return true
	case b.atMost:
		return value <= b.limit
	default:
		return value >= b.limit
	}
}

// better says that a value is nearer to the limit, or further past it.
func (b bar) better(value, than float64) bool {
	if b.atMost {
		return value < than
	}
	return value > than
}

// verdict is a bar with the best of its values.
type verdict struct {
	bar
	best  measured
	tries []measured
	// err of the last attempt; then there is no value.
	err error
}

func (v verdict) missed() bool { return v.err != nil || !v.met(v.best.Value) }

// judge measures all bars, and then those again that are missed, while the budget
// lasts: a disturbance that spoils one measurement has passed when the others are
// done.
func judge(ctx context.Context, bars []bar, budget time.Duration, progress io.Writer) []verdict {
	began := time.Now()
	verdicts := make([]verdict, len(bars))
	for i, b := range bars {
		verdicts[i].bar = b
	}
	for attempt := range attemptsMax {
		for i := range verdicts {
			v := &verdicts[i]
			if attempt > 0 && (!v.missed() || time.Since(began) > budget) || ctx.Err() != nil {
				continue
			}
			fmt.Fprintf(progress, "guard: %s\n", v.name)
			v.try(ctx)
		}
	}
	return verdicts
}

// try measures once and keeps the better value. A measurement that failed is not
// made good by one that did not: a lost record is lost.
func (v *verdict) try(ctx context.Context) {
	if v.err != nil {
		return
	}
	m, err := v.measure(ctx)
	v.tries = append(v.tries, m)
	if err != nil {
		v.err = err
		return
	}
	if len(v.tries) == 1 || v.better(m.Value, v.best.Value) {
		v.best = m
	}
}

func anyMissed(verdicts []verdict) bool {
	for _, v := range verdicts {
		if v.missed() {
			return true
		}
	}
	return false
}

// table prints the verdicts.
func table(w io.Writer, verdicts []verdict) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "ratio\tmeasured\t95%\tof medians\tto be\t\ttries\t")
	for _, v := range verdicts {
		value, interval, medians := v.best.cells()
		verdict, detail := "ok", v.best.Detail
		switch {
		case v.err != nil:
			value, interval, medians, verdict, detail = "–", "–", "–", "FAILED", v.err.Error()
		case len(v.tries) == 0:
			value, verdict = "–", "not measured"
		case v.missed():
			verdict = "MISSED"
		case v.limit == 0:
			verdict = "shown"
		}
		fmt.Fprintf(columns, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n",
			v.name, value, interval, medians, v.limitText(), verdict, len(v.tries), detail)
	}
	return columns.Flush()
}

func (b bar) limitText() string {
	switch {
	case b.limit == 0:
		return "–"
	case b.atMost:
		return fmt.Sprintf("≤ %g", b.limit)
	default:
		return fmt.Sprintf("≥ %g", b.limit)
	}
}

// record is what -json writes: every value that was measured.
type record struct {
	rig.Record
	Bars []barRecord `json:"bars"`
}

type barRecord struct {
	Name   string     `json:"name"`
	Limit  string     `json:"to_be"`
	Missed bool       `json:"missed"`
	Error  string     `json:"error,omitempty"`
	Tries  []measured `json:"tries"`
}

// recordOf is everything that was measured.
func recordOf(flags rig.Flags, verdicts []verdict) record {
	r := record{Record: flags.Record()}
	for _, v := range verdicts {
		b := barRecord{Name: v.name, Limit: v.limitText(), Missed: v.missed(), Tries: v.tries}
		if v.err != nil {
			b.Error = v.err.Error()
		}
		r.Bars = append(r.Bars, b)
	}
	return r
}
