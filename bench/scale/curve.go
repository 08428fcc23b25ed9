package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"felix.local/felix/bench"
	"felix.local/felix/bench/internal/rig"
)

// curve is one way in which Felix grows.
type curve struct {
	name, about string
	// axis names what grows, and show gives a value of it.
	axis    string
	show    func(int64) string
	columns []column
	measure func(ctx context.Context, into *lines) error
}

// column is something that is measured. Its key is the one in JSON.
type column struct {
	key, title string
	digits     int
}

// sample is what one round found, by the key of the column. What it does not have was
// not measured.
type sample map[string]float64

// line is a point of a curve, in one way to have it: all of its rounds.
type line struct {
	at      int64
	side    string
	samples []sample
}

// of lists what the rounds found for a column.
func (l line) of(c column) []float64 {
	var values []float64
	for _, s := range l.samples {
		if v, measured := s[c.key]; measured {
			values = append(values, v)
		}
	}
	return values
}

// lines are those of a curve, in the order in which they were first measured.
type lines []line

// add notes a round of a point.
func (l *lines) add(at int64, side string, s sample) {
	i := slices.IndexFunc(*l, func(l line) bool { return l.at == at && l.side == side })
	if i < 0 {
		i = len(*l)
		*l = append(*l, line{at: at, side: side})
	}
	(*l)[i].samples = append((*l)[i].samples, s)
}

// drawing is a curve that was measured, as far as err let it.
type drawing struct {
	curve
	lines lines
	err   error
}

// sizes are the points of the curves.
type sizes struct {
	shards, publishers, payloads, segments, subscribers []int
	logs                                                []int64
}

func defaultSizes() sizes {
	return sizes{
		shards:      []int{1, 16, 64, 256, 1024, 4096},
		publishers:  []int{1, 4, 16, 64, 256, 1024},
		payloads:    []int{16, 128, 1 << 10, 4 << 10, 64 << 10, 1 << 20, 16 << 20},
		segments:    []int{1, 10, 100, 1000, 10_000},
		logs:        []int64{64 << 20, 256 << 20, 1 << 30},
		subscribers: []int{1, 10, 100, 1000},
	}
}

// measurer measures in a directory: each load for a slice, each point so many rounds.
type measurer struct {
	dir      string
	slice    time.Duration
	rounds   int
	sizes    sizes
	modes    []mode
	progress io.Writer
}

// curves lists all of them.
func (m measurer) curves() []curve {
	return []curve{
		m.shardsCurve(), m.publishersCurve(), m.recordsCurve(),
		m.segmentsCurve(), m.logSizeCurve(), m.subscribersCurve(),
	}
}

// note says what is being measured.
func (m measurer) note(format string, args ...any) {
	fmt.Fprintf(m.progress, "scale: "+format+"\n", args...)
}

// within makes a directory for a measurement and removes it afterwards.
func (m measurer) within(do func(dir string) error) error { return rig.Within(m.dir, "point-", do) }

// floorSamples are enough for a device that is only shown beside what is measured.
const floorSamples = 8

// trial measures a load on a system, and the device around it.
func (m measurer) trial(open func(ctx context.Context) (*bench.System, error), load bench.Load) bench.Trial {
	return bench.Trial{Dir: m.dir, Open: open, Load: load, FloorSamples: floorSamples}
}

func count(n int64) string { return strconv.FormatInt(n, 10) }

// binary gives a number of bytes in the largest unit that it is a multiple of.
func binary(bytes int64) string {
	units := []string{"B", "KiB", "MiB", "GiB"}
	for bytes >= 1024 && bytes%1024 == 0 && len(units) > 1 {
		bytes, units = bytes/1024, units[1:]
	}
	return fmt.Sprintf("%d %s", bytes, units[0])
}

// root is the directory of a store within one of a measurement.
func root(dir string) string { return filepath.Join(dir, "root") }
