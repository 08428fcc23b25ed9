package main

import (
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The size of a picture: two panels, and the legend beside them.
const (
	panelWidth, legendWidth, pictureHeight = 13 * vg.Centimeter, 5 * vg.Centimeter, 11 * vg.Centimeter
)

// plotAll draws a picture for each batch and record size there are rows of.
func plotAll(summaries []summary, dir string) error {
	var errs []error
	for len(summaries) > 0 {
		first := summaries[0]
		of := func(s summary) bool { return s.Batch == first.Batch && s.PayloadBytes == first.PayloadBytes }
		var same []summary
		for _, s := range summaries {
			if of(s) {
				same = append(same, s)
			}
		}
		name := fmt.Sprintf("throughput-%dx%d.svg", first.Batch, first.PayloadBytes)
		errs = append(errs, drawPicture(same, filepath.Join(dir, name)))
		summaries = slices.DeleteFunc(slices.Clone(summaries), of)
	}
	return errors.Join(errs...)
}

// drawPicture draws rates against publishers of one log, and against logs with a publisher each.
func drawPicture(summaries []summary, path string) error {
	legend := plot.NewLegend()
	legend.Top, legend.Left = true, true
	one, several := newPanel("one log", "publishers"), newPanel("one publisher per log", "logs")
	for i, t := range targetsOf(summaries) {
		style := styleOf(t, i)
		thumbs, err := one.add(summaries, t, style, func(s summary) (int, bool) { return s.Publishers, s.Logs == 1 })
		if err != nil {
			return err
		}
		more, err := several.add(summaries, t, style, func(s summary) (int, bool) { return s.Logs, s.Publishers == s.Logs })
		if err != nil {
			return err
		}
		if thumbs == nil {
			thumbs = more
		}
		legend.Add(t, thumbs...)
	}
	canvas := vgsvg.New(2*panelWidth+legendWidth, pictureHeight)
	whole := draw.New(canvas)
	one.draw(draw.Crop(whole, 0, -panelWidth-legendWidth, 0, 0))
	several.draw(draw.Crop(whole, panelWidth, -legendWidth, 0, 0))
	legend.Draw(draw.Crop(whole, 2*panelWidth+vg.Centimeter/2, 0, 0, 0))
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = canvas.WriteTo(file)
	return errors.Join(err, file.Close())
}

// targetsOf lists targets in the order in which they appear.
func targetsOf(summaries []summary) []string {
	var names []string
	for _, s := range summaries {
		if !slices.Contains(names, s.Target) {
			names = append(names, s.Target)
		}
	}
	return names
}

// panel is one plot, with places on its x axis for the numbers that occur.
type panel struct {
	*plot.Plot
	places []int
}

func newPanel(title, x string) *panel {
	p := &panel{Plot: plot.New()}
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, "records/s, acknowledged durably"
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Add(plotter.NewGrid())
	return p
}

// points are medians with their intervals.
type points struct {
	plotter.XYs
	plotter.YErrors
}

// add draws a target's rows of a panel. It returns what stands for it in a legend, nil
// when it has no row here.
func (p *panel) add(summaries []summary, target string, style draw.LineStyle, at func(summary) (int, bool)) ([]plot.Thumbnailer, error) {
	var all points
	for _, s := range summaries {
		x, here := at(s)
		if !here || s.Target != target {
			continue
		}
		rate := s.RecordsPerSecond
		all.XYs = append(all.XYs, plotter.XY{X: float64(p.place(x)), Y: rate.Median})
		all.YErrors = append(all.YErrors, struct{ Low, High float64 }{rate.Median - rate.Low, rate.High - rate.Median})
	}
	if len(all.XYs) == 0 {
		return nil, nil
	}
	line, dots, err := plotter.NewLinePoints(all.XYs)
	if err != nil {
		return nil, err
	}
	bars, err := plotter.NewYErrorBars(all)
	if err != nil {
		return nil, err
	}
	line.LineStyle, bars.Color = style, style.Color
	dots.Color, dots.Shape, dots.Radius = style.Color, draw.CircleGlyph{}, vg.Points(2)
	p.Add(line, dots, bars)
	return []plot.Thumbnailer{line, dots}, nil
}

// place finds or makes the place of a number on the x axis.
func (p *panel) place(x int) int {
	if i := slices.Index(p.places, x); i >= 0 {
		return i
	}
	p.places = append(p.places, x)
	return len(p.places) - 1
}

// draw leaves an empty panel out.
func (p *panel) draw(c draw.Canvas) {
	if len(p.places) == 0 {
		return
	}
	var ticks plot.ConstantTicks
	for i, x := range p.places {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: strconv.Itoa(x)})
	}
	p.X.Tick.Marker = ticks
	p.Plot.Draw(c)
}

// styleOf gives each target a colour, variants dashes, and Felix a line that is seen first.
func styleOf(target string, i int) draw.LineStyle {
	style := draw.LineStyle{Color: plotutil.SoftColors[i%len(plotutil.SoftColors)], Width: vg.Points(1.2), Dashes: plotutil.Dashes(i / len(plotutil.SoftColors))}
	if library, _, variant := strings.Cut(target, "/"); library == felixTargets()[0].name && !variant {
		style.Color, style.Width, style.Dashes = color.Black, vg.Points(2.5), nil
	}
	return style
}
