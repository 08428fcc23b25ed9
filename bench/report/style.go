package report

import (
	"fmt"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

func ink() color.Color  { return color.RGBA{0x22, 0x2b, 0x36, 0xff} }
func grey() color.Color { return color.RGBA{0x7c, 0x86, 0x91, 0xff} }

func dashed() []vg.Length { return []vg.Length{vg.Points(5), vg.Points(3)} }
func dotted() []vg.Length { return []vg.Length{vg.Points(1.5), vg.Points(3)} }

// blank is an empty plot in the style of all.
func blank(x, y string) *chart {
	p := plot.New()
	p.BackgroundColor = color.White
	p.X.Label.Text, p.Y.Label.Text = x, y
	for _, style := range []*text.Style{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle,
		&p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		style.Font.Variant, style.Color = "Sans", ink()
		style.Font.Size = vg.Points(10)
	}
	p.Title.TextStyle.Font.Size = vg.Points(13)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.LineStyle.Color, axis.LineStyle.Width = grey(), vg.Points(0.6)
		axis.Tick.LineStyle.Color, axis.Tick.Length = grey(), vg.Points(3)
		axis.Label.Padding = vg.Points(6)
	}
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.Padding, p.Legend.ThumbnailWidth = vg.Points(2), vg.Points(22)
	grid := plotter.NewGrid()
	grid.Vertical.Color = nil
	grid.Horizontal = draw.LineStyle{Color: color.RGBA{0xe3, 0xe7, 0xeb, 0xff}, Width: vg.Points(0.6)}
	p.Add(grid)
	return &chart{Plot: p}
}

// logarithmicMicros names such an axis of latencies. It is short: the plotter takes the
// name to be in the middle of the values, and leaves room for where it would end there.
const logarithmicMicros = "µs, log scale"

// logarithmic makes an axis of positive values so.
func logarithmic(a *plot.Axis) {
	a.Scale, a.Tick.Marker = plot.LogScale{}, decades{}
	a.Min, a.Max = math.Inf(1), math.Inf(-1)
}

// visible is a number of microseconds on a logarithmic axis, which has no zero.
func visible(micros int64) float64 { return math.Max(float64(micros), 0.5) }

// decades are ticks at 1, 2 and 5 times the powers of ten.
type decades struct{}

// Ticks implements plot.Ticker.
func (decades) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for power := math.Pow(10, math.Floor(math.Log10(low))); power <= high; power *= 10 {
		for _, digit := range []float64{1, 2, 5} {
			if value := digit * power; value >= low && value <= high {
				ticks = append(ticks, plot.Tick{Value: value, Label: short(value)})
			}
		}
	}
	return ticks
}

// counted are ticks of large numbers.
type counted struct{}

// Ticks implements plot.Ticker.
func (counted) Ticks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i, t := range ticks {
		if t.Label != "" {
			ticks[i].Label = short(t.Value)
		}
	}
	return ticks
}

// shares are ticks in percent.
type shares struct{}

// Ticks implements plot.Ticker.
func (shares) Ticks(float64, float64) []plot.Tick {
	var ticks []plot.Tick
	for percent := 0; percent <= 100; percent += 25 {
		ticks = append(ticks, plot.Tick{Value: float64(percent) / 100, Label: fmt.Sprintf("%d%%", percent)})
	}
	return ticks
}

// short writes a number with three digits and a suffix.
func short(value float64) string {
	for _, unit := range []struct {
		size   float64
		suffix string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(value) >= unit.size {
			return strconv.FormatFloat(value/unit.size, 'g', 3, 64) + unit.suffix
		}
	}
	return strconv.FormatFloat(value, 'g', 3, 64)
}

// ranged is a line whose points may have a range.
type ranged struct {
	line plotter.XYs
	low  []float64
	high []float64
	// plain draws no mark at each point.
	plain bool
}

func (r *ranged) add(x, y, low, high float64) {
	r.line = append(r.line, plotter.XY{X: x, Y: y})
	r.low, r.high = append(r.low, low), append(r.high, high)
}

func (r *ranged) top() float64 {
	top := 0.0
	for i, p := range r.line {
		top = max(top, p.Y, r.high[i])
	}
	return top
}

// Len, XY and YError implement what error bars ask for.
func (r *ranged) Len() int                    { return r.line.Len() }
func (r *ranged) XY(i int) (float64, float64) { return r.line.XY(i) }
func (r *ranged) YError(i int) (low, high float64) {
	return r.line[i].Y - r.low[i], r.high[i] - r.line[i].Y
}

// addTo draws the line, with its ranges where it has some.
func (r *ranged) addTo(p *chart, name string, colour color.Color, dashes []vg.Length) error {
	line, points, err := plotter.NewLinePoints(r.line)
	if err != nil {
		return err
	}
	line.LineStyle = draw.LineStyle{Color: colour, Width: vg.Points(1.8), Dashes: dashes}
	points.GlyphStyle = draw.GlyphStyle{Color: colour, Radius: vg.Points(2.6), Shape: draw.CircleGlyph{}}
	p.Add(line)
	if r.plain {
		p.key(name, line)
		return nil
	}
	p.Add(points)
	p.key(name, line, points)
	if r.top() == 0 || r.high[0] == 0 {
		return nil
	}
	return r.whiskers(p, colour, 0)
}

// whiskersTo draws the ranges alone, shifted beside the middle.
func (r *ranged) whiskersTo(p *chart, shift vg.Length) error {
	if r.Len() == 0 {
		return nil
	}
	return r.whiskers(p, ink(), shift)
}

func (r *ranged) whiskers(p *chart, colour color.Color, shift vg.Length) error {
	whiskers, err := plotter.NewYErrorBars(r)
	if err != nil {
		return err
	}
	whiskers.LineStyle = draw.LineStyle{Color: colour, Width: vg.Points(1)}
	whiskers.CapWidth = vg.Points(6)
	p.Add(shifted{whiskers, shift})
	return nil
}

// shifted draws something beside where it is.
type shifted struct {
	plot.Plotter
	by vg.Length
}

// Plot implements plot.Plotter.
func (s shifted) Plot(c draw.Canvas, p *plot.Plot) {
	c.Push()
	defer c.Pop()
	c.Translate(vg.Point{X: s.by})
	s.Plotter.Plot(c, p)
}

// barWidth lets so many bars fit.
func barWidth(bars int) vg.Length {
	return vg.Points(math.Min(46, 330/math.Max(1, float64(bars))))
}

// offset is where the bar of one of several sides stands.
func offset(side, sides int, width vg.Length) vg.Length {
	return width * vg.Length(float64(side)-float64(sides-1)/2)
}

func bars(p *chart, name string, values plotter.Values, colour color.Color, width, offset vg.Length) error {
	chart, err := plotter.NewBarChart(values, width)
	if err != nil {
		return err
	}
	chart.Color, chart.LineStyle.Width, chart.Offset = colour, 0, offset
	p.Add(chart)
	p.key(name, chart)
	return nil
}
