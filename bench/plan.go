package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// Point is one thing to measure: a load on so many logs.
type Point struct {
	// Axis and Value say where on a sweep it is; Axis is empty without a sweep.
	Axis  string
	Value int
	Logs  int
	Load  Load
}

// Side is one way to have it: a configuration, a backend, a server.
type Side struct {
	Name string
	// Open makes the system of a point in a directory of its own.
	Open func(ctx context.Context, dir string, p Point) (*System, error)
	// NoVerify: what it acknowledges is not there to be read back.
	NoVerify bool
}

// Plan measures every point on every side, round after round. The sides of a point
// are measured one right after the other, and who is first alternates by round, so
// that neither what drifts nor what the first leaves behind favours one of them.
//
// All of it runs in this process: a side is a configuration of the engine, opened
// anew in an empty directory for each measurement. A process for each would add its
// start to what is measured, and would have its code and its heap cold.
type Plan struct {
	// Dir is where the directories are made and removed.
	Dir    string
	Points []Point
	Sides  []Side
	Rounds int
	Label  string
	// FloorSamples and NoVerify are those of every trial.
	FloorSamples int
	NoVerify     bool
	// Begin, when not nil, is told of each measurement and returns what is told of
	// its records, and of its end.
	Begin func(p Point, side string, round int) (progress func(records int64), end func())
}

// Taken is one measurement of a plan.
type Taken struct {
	Round, Point, Side int
	Measurement
}

// Results are the measurements of a plan.
type Results struct {
	Points []Point
	Sides  []string
	Rounds int
	Taken  []Taken
}

// Run carries the plan out. each, when not nil, is told of every measurement. An
// error ends it; what was measured before is returned with it.
func (p Plan) Run(ctx context.Context, each func(Taken) error) (Results, error) {
	results := Results{Points: p.Points, Rounds: p.Rounds}
	for _, s := range p.Sides {
		results.Sides = append(results.Sides, s.Name)
	}
	for round := range p.Rounds {
		for point := range p.Points {
			for i := range p.Sides {
				side := i
				if round%2 == 1 {
					side = len(p.Sides) - 1 - i
				}
				m, err := p.measure(ctx, point, side, round)
				if err != nil {
					return results, err
				}
				taken := Taken{Round: round, Point: point, Side: side, Measurement: m}
				results.Taken = append(results.Taken, taken)
				if each == nil {
					continue
				}
				if err := each(taken); err != nil {
					return results, err
				}
			}
		}
	}
	return results, nil
}

func (p Plan) measure(ctx context.Context, point, side, round int) (m Measurement, err error) {
	at, on := p.Points[point], p.Sides[side]
	dir := filepath.Join(p.Dir, fmt.Sprintf("%d-%d-%d", round, point, side))
	if err := os.Mkdir(dir, 0o750); err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	trial := Trial{
		Label: p.Label, Dir: p.Dir, Load: at.Load, FloorSamples: p.FloorSamples, NoVerify: p.NoVerify || on.NoVerify,
		Open: func(ctx context.Context) (*System, error) { return on.Open(ctx, dir, at) },
	}
	if p.Begin != nil {
		progress, end := p.Begin(at, on.Name, round)
		defer end()
		trial.Progress = progress
	}
	// What the measurement before left on the heap is not for this one to collect.
	runtime.GC()
	if m, err = trial.Run(ctx); err != nil {
		return m, fmt.Errorf("round %d, %s, %s: %w", round+1, on.Name, at, err)
	}
	return m, nil
}

// String says what is measured.
func (p Point) String() string {
	return fmt.Sprintf("%d logs, %d publishers, batch %d, %d bytes", p.Logs, p.Load.Concurrency, p.Load.Batch, p.Load.PayloadBytes)
}

// Of lists the measurements of a point on a side, by round.
func (r Results) Of(point, side int) []Taken {
	var of []Taken
	for _, t := range r.Taken {
		if t.Point == point && t.Side == side {
			of = append(of, t)
		}
	}
	slices.SortFunc(of, func(a, b Taken) int { return cmp.Compare(a.Round, b.Round) })
	return of
}

// Summary is what the rounds of a point on a side come to.
type Summary struct {
	Point Point
	Side  string
	// Row is the round in the middle by rate. Its latencies are those of all rounds.
	Row Row
	// RateLow and RateHigh are the slowest and the fastest round, records per second.
	RateLow, RateHigh float64
	Rounds            int
	Distribution      *Distribution
}

// Summarize gives the summary of a point on a side that was measured.
func (r Results) Summarize(point, side int) Summary {
	of := r.Of(point, side)
	s := Summary{Point: r.Points[point], Side: r.Sides[side], Rounds: len(of)}
	distributions := make([]*Distribution, len(of))
	for i, t := range of {
		distributions[i] = t.Distribution
	}
	slices.SortStableFunc(of, func(a, b Taken) int { return cmp.Compare(a.Row.RecordsPerSecond, b.Row.RecordsPerSecond) })
	s.Row, s.Distribution = of[len(of)/2].Row, Merged(distributions...)
	s.Row.LatencyMicros = s.Distribution.Latency()
	s.RateLow, s.RateHigh = of[0].Row.RecordsPerSecond, of[len(of)-1].Row.RecordsPerSecond
	return s
}

// Comparison is how the first side of a point does against the second.
type Comparison struct {
	Point Point
	A, B  Summary
	// Throughput above 1 and the others below 1 are in favour of A. CPU is per append.
	Throughput, CPU, P50, P99 Estimate
}

// Compare compares the two sides of a point.
func (r Results) Compare(point int) Comparison {
	a, b := r.Of(point, 0), r.Of(point, 1)
	estimate := func(of func(Row) float64) Estimate {
		values := func(taken []Taken) []float64 {
			list := make([]float64, len(taken))
			for i, t := range taken {
				list[i] = of(t.Row)
			}
			return list
		}
		return Compare(values(a), values(b))
	}
	return Comparison{
		Point: r.Points[point], A: r.Summarize(point, 0), B: r.Summarize(point, 1),
		Throughput: estimate(func(r Row) float64 { return r.RecordsPerSecond }),
		CPU:        estimate(func(r Row) float64 { return r.CPUMicrosPerAppend }),
		P50:        estimate(func(r Row) float64 { return float64(r.LatencyMicros.P50) }),
		P99:        estimate(func(r Row) float64 { return float64(r.LatencyMicros.P99) }),
	}
}
