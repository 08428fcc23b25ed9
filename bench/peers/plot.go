package main

import (
	"errors"
	"fmt"
	"image/color"
	"math"
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
		name := fmt.Sprintf("throughput-%dx%d", first.Batch, first.PayloadBytes)
		for _, format := range []string{"svg", "png"} {
			errs = append(errs, drawPicture(same, filepath.Join(dir, name+"."+format), format))
		}
		summaries = slices.DeleteFunc(slices.Clone(summaries), of)
	}
	return errors.Join(errs...)
}

// drawPicture draws rates against publishers of one log, and against logs with a publisher each.
func drawPicture(summaries []summary, path, format string) error {
	legend := plot.NewLegend()
	legend.Top, legend.Left = true, true
	one, several := newPanel("publishers of one log"), newPanel("logs, each with one publisher")
	styles := styles{variants: make(map[string]int)}
	for _, t := range targetsOf(summaries) {
		style := styles.of(t)
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
	canvas, err := draw.NewFormattedCanvas(2*panelWidth+legendWidth, pictureHeight, format)
	if err != nil {
		return err
	}
	whole := draw.NewCanvas(canvas, 2*panelWidth+legendWidth, pictureHeight)
	one.draw(draw.Crop(whole, 0, -panelWidth-legendWidth-vg.Centimeter/2, 0, 0))
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

func newPanel(x string) *panel {
	p := &panel{Plot: plot.New()}
	p.X.Label.Text, p.Y.Label.Text = x, "records/s, acknowledged durably"
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Add(plotter.NewGrid())
	return p
}

// add draws a target's rows of a panel. It returns what stands for it in a legend, nil
// when it has no row here.
func (p *panel) add(summaries []summary, target string, style draw.LineStyle, at func(summary) (int, bool)) ([]plot.Thumbnailer, error) {
	var medians plotter.XYs
	for _, s := range summaries {
		x, here := at(s)
		if !here || s.Target != target {
			continue
		}
		place, rate := float64(p.place(x)), s.RecordsPerSecond
		medians = append(medians, plotter.XY{X: place, Y: rate.Median})
		bar, err := plotter.NewLine(plotter.XYs{{X: place, Y: rate.Low}, {X: place, Y: rate.High}})
		if err != nil {
			return nil, err
		}
		bar.LineStyle = draw.LineStyle{Color: style.Color, Width: vg.Points(0.5)}
		p.Add(bar)
	}
	if len(medians) == 0 {
		return nil, nil
	}
	line, dots, err := plotter.NewLinePoints(medians)
	if err != nil {
		return nil, err
	}
	line.LineStyle = style
	dots.Color, dots.Shape, dots.Radius = style.Color, draw.CircleGlyph{}, vg.Points(2)
	p.Add(line, dots)
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
	// Ticks are powers of ten, and one outside the range would take its place all the same.
	p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(p.Y.Min))), math.Pow(10, math.Ceil(math.Log10(p.Y.Max)))
	p.Plot.Draw(c)
}

// styles gives each library a colour and its variants dashes. The first library is Felix,
// whose line is to be seen first.
type styles struct {
	libraries []string
	variants  map[string]int // met so far
}

func (s *styles) of(target string) draw.LineStyle {
	library, _, _ := strings.Cut(target, "/")
	place := slices.Index(s.libraries, library)
	if place < 0 {
		place = len(s.libraries)
		s.libraries = append(s.libraries, library)
	}
	style := draw.LineStyle{
		Color: plotutil.DarkColors[place%len(plotutil.DarkColors)], Width: vg.Points(1.2), Dashes: plotutil.Dashes(s.variants[library]),
	}
	s.variants[library]++
	if place == 0 {
		style.Color, style.Width = color.Black, vg.Points(2.5)
	}
	return style
}
