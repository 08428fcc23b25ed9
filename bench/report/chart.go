package report

import (
	"bytes"
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The size of a chart, and the dots per inch of its PNG.
const (
	chartWidth  = 7.2 * vg.Inch
	chartHeight = 4.2 * vg.Inch
	chartDots   = 160
)

// chart is a plot with its title and the keys to its lines above it, where they cover
// nothing.
type chart struct {
	*plot.Plot
	keys []key
}

// key names a line and shows what it looks like.
type key struct {
	name   string
	thumbs []plot.Thumbnailer
}

func (c *chart) key(name string, thumbs ...plot.Thumbnailer) {
	c.keys = append(c.keys, key{name, thumbs})
}

// keyGap is between two columns of keys, and headPadding below the title and the keys.
const (
	keyGap      = 18
	headPadding = 8
)

// columns parts the keys into as many columns as fit, and gives the size of all.
func (c *chart) columns(width vg.Length) (columns []plot.Legend, size vg.Point) {
	for n := len(c.keys); n > 0; n-- {
		columns, size = nil, vg.Point{X: -keyGap}
		for some := range slices.Chunk(c.keys, (len(c.keys)+n-1)/n) {
			column := c.Legend
			for _, k := range some {
				column.Add(k.name, k.thumbs...)
			}
			one := column.Rectangle(draw.Canvas{}).Size()
			size.X, size.Y = size.X+one.X+keyGap, max(size.Y, one.Y)
			columns = append(columns, column)
		}
		if size.X <= width {
			break
		}
	}
	return columns, size
}

// drawTo draws title, keys and plot, one below the other.
func (c *chart) drawTo(canvas draw.Canvas) {
	style, top := c.Title.TextStyle, canvas.Max.Y
	style.XAlign, style.YAlign = draw.XCenter, draw.YTop
	canvas.FillText(style, vg.Point{X: canvas.Center().X, Y: top}, c.Title.Text)
	top -= style.Height(c.Title.Text) + headPadding

	columns, size := c.columns(canvas.Size().X)
	at := max(canvas.Min.X, canvas.Center().X-size.X/2)
	for _, column := range columns {
		width := column.Rectangle(draw.Canvas{}).Size().X
		column.Draw(draw.Canvas{Canvas: canvas.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: at, Y: top - size.Y}, Max: vg.Point{X: at + width, Y: top},
		}})
		at += width + keyGap
	}
	top -= size.Y + 2*headPadding

	bare := *c.Plot
	bare.Title.Text = ""
	bare.Draw(draw.Crop(canvas, 0, 0, 0, top-canvas.Max.Y))
}

// files gives a chart as SVG and as PNG.
func (c *chart) files() (svg, png []byte, err error) {
	var b bytes.Buffer
	vector := vgsvg.New(chartWidth, chartHeight)
	c.drawTo(padded(draw.New(vector)))
	if _, err := vector.WriteTo(&b); err != nil {
		return nil, nil, err
	}
	svg = bytes.Clone(b.Bytes())
	b.Reset()
	raster := vgimg.NewWith(vgimg.UseWH(chartWidth, chartHeight), vgimg.UseDPI(chartDots), vgimg.UseBackgroundColor(color.White))
	c.drawTo(padded(draw.New(raster)))
	_, err = vgimg.PngCanvas{Canvas: raster}.WriteTo(&b)
	return svg, b.Bytes(), err
}

// padded leaves a margin, so that nothing ends at the edge.
func padded(c draw.Canvas) draw.Canvas {
	return draw.Crop(c, vg.Points(8), vg.Points(-14), vg.Points(8), vg.Points(-10))
}
