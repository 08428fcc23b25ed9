package report

import (
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// blankThumb shows nothing.
type blankThumb struct{}

func (blankThumb) Thumbnail(*draw.Canvas) {}

func TestKeysStandInAsManyColumnsAsFit(t *testing.T) {
	for _, test := range []struct {
		name                string
		length, count, want int
	}{
		{"none", 5, 0, 0},
		{"all in a row", 5, 4, 4},
		{"two rows", 10, 8, 4},
		{"long names", 30, 5, 2},
		{"too long for the chart", 200, 3, 1},
	} {
		c := blank("x", "y")
		for range test.count {
			c.key(strings.Repeat("n", test.length), blankThumb{})
		}
		columns, size := c.columns(chartWidth)
		if len(columns) != test.want {
			t.Errorf("%s: %d columns, want %d", test.name, len(columns), test.want)
		}
		if size.X > chartWidth && test.want > 1 || size.Y > chartHeight/4 {
			t.Errorf("%s: they take %v by %v points", test.name, size.X/vg.Points(1), size.Y/vg.Points(1))
		}
	}
}
