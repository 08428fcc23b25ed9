package report

import (
	"fmt"
	"image/color"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"felix.local/felix/bench"
)

// figure is a plot.
type figure struct {
	// Name is that of its files, Caption what it says.
	Name, Title, Caption string
	draw                 func() (*chart, error)
	svg, png             []byte
}

// figures draws all plots.
func (d Document) figures() ([]figure, error) {
	figures := d.planned()
	for i := range figures {
		f := &figures[i]
		p, err := f.draw()
		if err != nil {
			return nil, err
		}
		p.Title.Text = f.Title
		if f.svg, f.png, err = p.files(); err != nil {
			return nil, fmt.Errorf("report: drawing %s: %w", f.Name, err)
		}
	}
	return figures, nil
}

// planned are the plots to be drawn, in the order of the page.
func (d Document) planned() []figure {
	var figures []figure
	names, points := d.axes()
	for _, axis := range names {
		figures = append(figures, figure{
			Name: "throughput-" + axis, Title: "Throughput by " + axis,
			Caption: "Acknowledged records per second: the median round, and from the slowest to the fastest one.",
			draw:    func() (*chart, error) { return d.throughput(axis, points[axis]) },
		}, figure{
			Name: "latency-" + axis, Title: "Latency by " + axis,
			Caption: "Median (solid) and 99th percentile (dashed) of one append; dotted, one raw durable overwrite of 4 KiB on the same device, measured in the same minutes.",
			draw:    func() (*chart, error) { return d.latency(axis, points[axis]) },
		})
	}
	if len(names) == 0 {
		figures = append(figures, figure{
			Name: "throughput-rounds", Title: "Throughput by round",
			Caption: "Acknowledged records per second of every round, in the order they were measured: what drifts is the machine.",
			draw:    d.rounds,
		})
	}
	figures = append(figures, figure{
		Name: "latency-cdf", Title: "Latency, cumulative",
		Caption: "The share of appends that took at most so long, all rounds together.",
		draw:    d.distribution,
	})
	if d.compared() {
		figures = append(figures, figure{
			Name: "ratios", Title: "A against B",
			Caption: "Ratios of medians, A by B. Throughput above 1 and processor time below 1 are in favour of A. The whiskers are the 95% interval of the paired ratios.",
			draw:    d.ratios,
		})
	}
	return figures
}

// throughput is records per second against an axis, a line per side.
func (d Document) throughput(axis string, points []int) (*chart, error) {
	p := blank(axis, "records per second")
	p.Y.Min, p.Y.Tick.Marker = 0, counted{}
	d.nominal(p, points)
	for side, name := range d.Results.Sides {
		var line ranged
		for x, point := range points {
			s := d.Results.Summarize(point, side)
			line.add(float64(x), s.Row.RecordsPerSecond, s.RateLow, s.RateHigh)
		}
		if err := line.addTo(p, name, hue(side), nil); err != nil {
			return nil, err
		}
		p.Y.Max = max(p.Y.Max, 1.05*line.top())
	}
	return p, nil
}

// latency is microseconds against an axis, two lines per side, and the device.
func (d Document) latency(axis string, points []int) (*chart, error) {
	p := blank(axis, logarithmicMicros)
	logarithmic(&p.Y)
	d.nominal(p, points)
	for side, name := range d.Results.Sides {
		var p50, p99 ranged
		for x, point := range points {
			l := d.Results.Summarize(point, side).Row.LatencyMicros
			p50.add(float64(x), visible(l.P50), 0, 0)
			p99.add(float64(x), visible(l.P99), 0, 0)
		}
		if err := p50.addTo(p, name+", p50", hue(side), nil); err != nil {
			return nil, err
		}
		if err := p99.addTo(p, name+", p99", hue(side), dashed()); err != nil {
			return nil, err
		}
	}
	var device ranged
	for x, point := range points {
		var floors []float64
		for side := range d.Results.Sides {
			for _, t := range d.Results.Of(point, side) {
				floors = append(floors, float64(t.Row.DeviceOverwriteMicros))
			}
		}
		if floor := bench.MedianOf(floors); floor > 0 {
			device.add(float64(x), floor, 0, 0)
		}
	}
	if len(device.line) > 0 {
		if err := device.addTo(p, "device, overwrite", grey(), dotted()); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// rounds are the rates of all rounds of the one point, bars side by side.
func (d Document) rounds() (*chart, error) {
	p := blank("round", "records per second")
	p.Y.Min, p.Y.Tick.Marker = 0, counted{}
	width := barWidth(len(d.Results.Sides) * d.Results.Rounds)
	var labels []string
	for round := range d.Results.Rounds {
		labels = append(labels, strconv.Itoa(round+1))
	}
	for side, name := range d.Results.Sides {
		var values plotter.Values
		for _, t := range d.Results.Of(0, side) {
			values = append(values, t.Row.RecordsPerSecond)
		}
		if err := bars(p, name, values, hue(side), width, offset(side, len(d.Results.Sides), width)); err != nil {
			return nil, err
		}
	}
	p.NominalX(labels...)
	p.X.Min, p.X.Max = -0.5, float64(len(labels))-0.5
	p.Y.Max *= 1.05
	return p, nil
}

// curvesMax bounds the curves of one plot: the points of a sweep that it shows are
// spread evenly.
const curvesMax = 8

// distribution is the share of appends against their latency.
func (d Document) distribution() (*chart, error) {
	p := blank(logarithmicMicros, "share of appends")
	logarithmic(&p.X)
	p.Y.Min, p.Y.Max, p.Y.Tick.Marker = 0, 1, shares{}
	points := spread(len(d.Results.Points), max(1, curvesMax/len(d.Results.Sides)))
	for i, point := range points {
		for side, name := range d.Results.Sides {
			var curve ranged
			for _, q := range d.Results.Summarize(point, side).Distribution.Quantiles() {
				curve.add(visible(q.Micros), q.Share, 0, 0)
			}
			if len(curve.line) == 0 {
				continue
			}
			colour, dashes := hue(side), []vg.Length(nil)
			if len(points) > 1 {
				colour, name = hue(i), pointLabel(d.Results.Points[point])+sideSuffix(d, side)
				if side == 1 {
					dashes = dashed()
				}
			}
			curve.plain = true
			if err := curve.addTo(p, name, colour, dashes); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

func sideSuffix(d Document, side int) string {
	if !d.compared() {
		return ""
	}
	return ", " + string(rune('A'+side))
}

// spread chooses at most n of count places, the ends among them.
func spread(count, n int) []int {
	if count <= n {
		n = count
	}
	chosen := make([]int, 0, n)
	for i := range n {
		at := 0
		if n > 1 {
			at = i * (count - 1) / (n - 1)
		}
		chosen = append(chosen, at)
	}
	return chosen
}

// ratios are bars of throughput and processor time for every point, with intervals.
func (d Document) ratios() (*chart, error) {
	p := blank("", "A / B")
	p.Y.Min = 0
	width := barWidth(2 * len(d.Results.Points))
	var labels []string
	var throughput, cpu []bench.Estimate
	for i, point := range d.Results.Points {
		c := d.Results.Compare(i)
		throughput, cpu = append(throughput, c.Throughput), append(cpu, c.CPU)
		labels = append(labels, pointLabel(point))
	}
	for i, of := range []struct {
		name      string
		estimates []bench.Estimate
	}{{"throughput", throughput}, {"processor time per append", cpu}} {
		var values plotter.Values
		var whiskers ranged
		shift := offset(i, 2, width)
		for x, e := range of.estimates {
			values = append(values, e.Ratio)
			if len(e.Interval()) > 0 {
				whiskers.add(float64(x), e.Ratio, min(e.Low, e.Ratio), max(e.High, e.Ratio))
				p.Y.Max = max(p.Y.Max, min(e.High, 3*e.Ratio))
			}
		}
		if err := bars(p, of.name, values, hue(i), width, shift); err != nil {
			return nil, err
		}
		if err := whiskers.whiskersTo(p, shift); err != nil {
			return nil, err
		}
	}
	one := plotter.NewFunction(func(float64) float64 { return 1 })
	one.LineStyle = draw.LineStyle{Color: ink(), Width: vg.Points(0.8), Dashes: dashed()}
	p.Add(one)
	p.NominalX(labels...)
	p.X.Min, p.X.Max = -0.5, float64(len(labels))-0.5
	p.Y.Max = max(p.Y.Max, 1.2) * 1.05
	return p, nil
}

// pointLabel is short enough for an axis.
func pointLabel(p bench.Point) string {
	if p.Axis != "" {
		return plural(p.Value, p.Axis)
	}
	return plural(p.Logs, "logs") + ", " + plural(p.Load.Concurrency, "publishers")
}

// nominal puts the values of a sweep at even distances.
func (d Document) nominal(p *chart, points []int) {
	var ticks []plot.Tick
	for x, point := range points {
		ticks = append(ticks, plot.Tick{Value: float64(x), Label: strconv.Itoa(d.Results.Points[point].Value)})
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	p.X.Min, p.X.Max = -0.2, float64(len(points))-0.8
}

// hue is the colour of a series. They are told apart by those who see no red or no
// green, too.
func hue(i int) color.Color {
	hues := [...]color.RGBA{
		{0x1b, 0x6c, 0xa8, 0xff},
		{0xe0, 0x7b, 0x39, 0xff},
		{0x2a, 0x9d, 0x8f, 0xff},
		{0xb5, 0x3f, 0x6f, 0xff},
		{0x6a, 0x5a, 0xcd, 0xff},
		{0x8a, 0x6d, 0x3b, 0xff},
		{0x4b, 0xa3, 0xc3, 0xff},
		{0x5b, 0x5f, 0x66, 0xff},
	}
	return hues[i%len(hues)]
}
