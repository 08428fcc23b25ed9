package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"strconv"
	"strings"

	"felix.local/felix/bench"
)

//go:embed page.html
var pageText string

// tile is a number that the page begins with.
type tile struct{ Value, Unit, Name, Note string }

// pageRow is a line of a table.
type pageRow struct {
	Side, Round string
	bench.Row
	Low, High float64
}

// pageComparison is a line of the table of ratios.
type pageComparison struct {
	Point bench.Point
	Lines []pageRatio
}

type pageRatio struct {
	What, Interval, Pairs string
	bench.Estimate
}

type pageFigure struct {
	figure
	Picture template.HTML
}

// page renders the page.
func (d Document) page(figures []figure) ([]byte, error) {
	parsed, err := template.New("page").Funcs(template.FuncMap{
		"count": count, "fixed": fixed, "short": short,
	}).Parse(pageText)
	if err != nil {
		return nil, err
	}
	data := struct {
		Document
		Compared             bool
		Tiles                []tile
		Figures              []pageFigure
		Comparisons          []pageComparison
		Summaries, Rows      []pageRow
		Records              string
		RoundsText, LoopText string
	}{
		Document: d, Compared: d.compared(), Tiles: d.tiles(), Comparisons: d.comparisons(),
		RoundsText: plural(d.Results.Rounds, "rounds"), LoopText: d.loop(),
	}
	for _, f := range figures {
		// The SVG is ours, drawn from numbers and escaped names.
		data.Figures = append(data.Figures, pageFigure{f, template.HTML(inline(f.svg))})
	}
	for i := range d.Results.Points {
		for _, s := range d.summaries(i) {
			data.Summaries = append(data.Summaries, pageRow{Side: s.Side, Row: s.Row, Low: s.RateLow, High: s.RateHigh})
		}
	}
	verified := int64(0)
	for _, t := range d.Results.Taken {
		data.Rows = append(data.Rows, pageRow{Side: d.Results.Sides[t.Side], Round: strconv.Itoa(t.Round + 1), Row: t.Row})
		verified += t.Row.VerifiedRecords
	}
	data.Records = count(float64(verified))
	var b bytes.Buffer
	err = parsed.Execute(&b, data)
	return b.Bytes(), err
}

// inline is a picture without the head that a file of its own has.
func inline(svg []byte) string {
	text := string(svg)
	if at := strings.Index(text, "<svg"); at > 0 {
		text = text[at:]
	}
	return text
}

// tiles are the most important numbers: of a comparison the ratios, else the rates.
func (d Document) tiles() []tile {
	if d.compared() {
		c := d.Results.Compare(len(d.Results.Points) - 1)
		at := pointLabel(c.Point)
		return []tile{
			{fixed(3, c.Throughput.Ratio), "×", "throughput, A by B", interval(c.Throughput) + at},
			{fixed(3, c.CPU.Ratio), "×", "processor time per append", interval(c.CPU) + at},
			{fixed(3, c.P50.Ratio), "×", "median latency", interval(c.P50) + at},
			{fixed(3, c.P99.Ratio), "×", "99th percentile", interval(c.P99) + at},
		}
	}
	best := d.Results.Summarize(0, 0)
	for i := range d.Results.Points {
		if s := d.Results.Summarize(i, 0); s.Row.RecordsPerSecond > best.Row.RecordsPerSecond {
			best = s
		}
	}
	at := pointLabel(best.Point)
	return []tile{
		{short(best.Row.RecordsPerSecond), "/s", "records, acknowledged", at},
		{count(float64(best.Row.LatencyMicros.P50)), "µs", "median latency", at},
		{count(float64(best.Row.LatencyMicros.P99)), "µs", "99th percentile", at},
		{count(float64(best.Row.DeviceOverwriteMicros)), "µs", "the device alone", "one raw durable overwrite of 4 KiB"},
	}
}

func interval(e bench.Estimate) string {
	if len(e.Interval()) == 0 {
		return ""
	}
	return fmt.Sprintf("95%%: %.3f to %.3f; ", e.Low, e.High)
}

func (d Document) comparisons() []pageComparison {
	if !d.compared() {
		return nil
	}
	var list []pageComparison
	for i := range d.Results.Points {
		c := d.Results.Compare(i)
		of := pageComparison{Point: c.Point}
		for _, e := range []struct {
			what string
			bench.Estimate
		}{
			{"throughput", c.Throughput}, {"processor time per append", c.CPU}, {"median latency", c.P50}, {"99th percentile", c.P99},
		} {
			var pairs []string
			for _, pair := range e.Pairs {
				pairs = append(pairs, fixed(3, pair))
			}
			text := "–"
			if len(e.Interval()) > 0 {
				text = fixed(3, e.Low) + " to " + fixed(3, e.High)
			}
			of.Lines = append(of.Lines, pageRatio{e.what, text, strings.Join(pairs, ", "), e.Estimate})
		}
		list = append(list, of)
	}
	return list
}

// loop says what sort of load it was.
func (d Document) loop() string {
	row := d.Results.Taken[0].Row
	if row.RateAsked > 0 {
		return fmt.Sprintf("an open loop of %g appends per second: latency counts from when each was due", row.RateAsked)
	}
	return "a closed loop: every publisher has one append outstanding"
}

// plural counts things that are named in the plural.
func plural(n int, things string) string {
	if n == 1 {
		things = strings.TrimSuffix(things, "s")
	}
	return strconv.Itoa(n) + " " + things
}

// count writes a whole number with its thousands apart.
func count(value float64) string {
	digits := strconv.FormatInt(int64(value+0.5), 10)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "\u202f" + digits[at:]
	}
	return digits
}

func fixed(digits int, value float64) string { return strconv.FormatFloat(value, 'f', digits, 64) }
