package report

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/plot"

	"felix.local/felix/bench"
)

// measured makes results of a target that only sleeps; the second side is slower.
func measured(t *testing.T, sides int, points ...bench.Point) bench.Results {
	t.Helper()
	var list []bench.Side
	for side := range sides {
		open := func(context.Context, string, bench.Point) (*bench.System, error) {
			next := uint64(0)
			return &bench.System{
				Logs: 1, Backend: "ring/<test>", Fsync: "on_commit", Close: func(context.Context) error { return nil },
				Target: func(int) bench.Publisher {
					return func(context.Context, [][]byte) (uint64, error) {
						time.Sleep(time.Duration(1+side) * 200 * time.Microsecond)
						next++
						return next, nil
					}
				},
			}, nil
		}
		list = append(list, bench.Side{Name: fmt.Sprintf("SIDE=%d & <b>", side), Open: open})
	}
	plan := bench.Plan{Dir: t.TempDir(), Points: points, Sides: list, Rounds: 2, FloorSamples: 1, NoVerify: true}
	results, err := plan.Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func point(axis string, value int) bench.Point {
	return bench.Point{Axis: axis, Value: value, Logs: 1, Load: bench.Load{Records: 20, PayloadBytes: 64, Batch: 1, Concurrency: 1}}
}

func write(t *testing.T, results bench.Results) (dir, page string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "report")
	err := Write(dir, Document{
		Title: "A page", Command: "felixd bench --dir '<x>'", Made: "today", Facts: []Fact{{"kernel", "6 <x>"}}, Results: results,
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	return dir, string(text)
}

func TestAPageOfASweepHasItsPlotsInIt(t *testing.T) {
	results := measured(t, 2, point("publishers", 1), point("publishers", 8), point("logs", 1), point("logs", 16))
	dir, page := write(t, results)
	names := []string{"throughput-publishers", "latency-publishers", "throughput-logs", "latency-logs", "latency-cdf", "ratios"}
	if got := strings.Count(page, "<svg"); got != len(names) {
		t.Errorf("the page has %d plots, want %d", got, len(names))
	}
	for _, name := range names {
		picture, err := os.ReadFile(filepath.Join(dir, name+".png"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := png.Decode(bytes.NewReader(picture)); err != nil {
			t.Errorf("%s.png: %v", name, err)
		}
		drawing, err := os.ReadFile(filepath.Join(dir, name+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		for decoder := xml.NewDecoder(bytes.NewReader(drawing)); ; {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s.svg: %v", name, err)
			}
		}
	}
	// 4 points on 2 sides in 2 rounds; the medians are 8 more, the ratios 4 per point.
	if got := strings.Count(page, "<tr><td"); got != 16+8+16 {
		t.Errorf("the tables have %d rows, want 40", got)
	}
}

func TestAPageNeedsNothingFromElsewhere(t *testing.T) {
	_, page := write(t, measured(t, 1, point("", 0)))
	if found := regexp.MustCompile(`(?i)(src|href)\s*=|@import|url\(|<script`).FindString(page); found != "" {
		t.Errorf("the page asks for something: %q", found)
	}
	// A name is text, not markup: in the tables and in the plots.
	for _, part := range []string{"&lt;x&gt;", "SIDE=0 &amp; &lt;b&gt;", "ring/&lt;test&gt;"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	if strings.Contains(page, "& <b>") || strings.Contains(page, "<test>") {
		t.Error("the page has a name as markup")
	}
}

func TestTheRawResultsHaveEveryMeasurement(t *testing.T) {
	dir, _ := write(t, measured(t, 2, point("logs", 1)))
	text, err := os.ReadFile(filepath.Join(dir, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	var raw struct {
		Rows []struct {
			Round     int     `json:"round"`
			Side      string  `json:"side"`
			Rate      float64 `json:"records_per_second"`
			Quantiles []struct {
				Share float64 `json:"share"`
			} `json:"latency_quantiles"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		t.Fatal(err)
	}
	if len(raw.Rows) != 4 || raw.Rows[3].Round != 2 || raw.Rows[0].Rate <= 0 || len(raw.Rows[0].Quantiles) < 50 {
		t.Errorf("got %+v", raw.Rows)
	}
}

func TestAReportOfNothingIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "report")
	if err := Write(dir, Document{}); err == nil {
		t.Error("a page without a measurement was written")
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory was made: %v", err)
	}
}

func TestNumbersAreWrittenForPeople(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{count(0), "0"},
		{count(999.6), "1\u202f000"},
		{count(1234567), "1\u202f234\u202f567"},
		{short(950), "950"},
		{short(186_000), "186k"},
		{short(4.53e6), "4.53M"},
		{short(2e9), "2G"},
		{plural(1, "logs"), "1 log"},
		{plural(2, "logs"), "2 logs"},
		{fixed(3, 0.97), "0.970"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}

func TestLogarithmicTicksAreAt1And2And5(t *testing.T) {
	var got []string
	for _, tick := range (decades{}).Ticks(40, 2500) {
		got = append(got, tick.Label)
	}
	if text := strings.Join(got, " "); text != "50 100 200 500 1k 2k" {
		t.Errorf("got %q", text)
	}
	if visible(0) <= 0 || math.IsInf(math.Log(visible(0)), 0) {
		t.Error("no time at all is not to be drawn")
	}
	var _ plot.Ticker = decades{}
}

func TestCurvesAreSpreadOverASweep(t *testing.T) {
	for _, test := range []struct {
		count, n int
		want     string
	}{{3, 8, "[0 1 2]"}, {9, 3, "[0 4 8]"}, {5, 1, "[0]"}, {1, 4, "[0]"}, {4, 4, "[0 1 2 3]"}} {
		if got := fmt.Sprint(spread(test.count, test.n)); got != test.want {
			t.Errorf("%d of %d: got %s, want %s", test.n, test.count, got, test.want)
		}
	}
}
