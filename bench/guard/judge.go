package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// attemptsMax is how often a bar that is missed is measured.
const attemptsMax = 3

// bar is a value to measure and the limit it has.
type bar struct {
	name string
	// limit is the least that the value may be, or with atMost the most; 0 is none,
	// for what is shown only.
	limit  float64
	atMost bool
	// measure gives the value, and what it was made from.
	measure func(ctx context.Context) (value float64, detail string, err error)
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
	value    float64
	detail   string
	attempts int
	// err of the last attempt; then there is no value.
	err error
}

func (v verdict) missed() bool { return v.err != nil || !v.met(v.value) }

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
	v.attempts++
	value, detail, err := v.measure(ctx)
	if err != nil {
		v.err = err
		return
	}
	if v.attempts == 1 || v.better(value, v.value) {
		v.value, v.detail = value, detail
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
	fmt.Fprintln(columns, "ratio\tmeasured\tto be\t\ttries\t")
	for _, v := range verdicts {
		measured, verdict := fmt.Sprintf("%.2f", v.value), "ok"
		switch {
		case v.err != nil:
			measured, verdict, v.detail = "–", "FAILED", v.err.Error()
		case v.attempts == 0:
			measured, verdict = "–", "not measured"
		case v.missed():
			verdict = "MISSED"
		case v.limit == 0:
			verdict = "shown"
		}
		fmt.Fprintf(columns, "%s\t%s\t%s\t%s\t%d\t%s\n", v.name, measured, v.limitText(), verdict, v.attempts, v.detail)
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
