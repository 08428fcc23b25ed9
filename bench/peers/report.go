package main

import (
	"fmt"
	"strings"

	"felix.local/felix/bench"
)

// summary is what the rounds of one target on one row say.
type summary struct {
	Row    string `json:"row"`
	Target string `json:"target"`
	row
	Rounds             int      `json:"rounds"`
	RecordsPerSecond   interval `json:"records_per_second"`
	P50Micros          interval `json:"p50_us"`
	P99Micros          interval `json:"p99_us"`
	CPUMicrosPerAppend interval `json:"cpu_us_per_append"`
	// FelixRatio is Felix's rate divided by this one's, by bench.Compare of the rounds.
	FelixRatio *interval `json:"felix_ratio,omitempty"`
	// DeviceOverwriteMicros and DeviceDsyncMicros are over all runs of the row.
	DeviceOverwriteMicros interval `json:"device_overwrite_us"`
	DeviceDsyncMicros     interval `json:"device_dsync_us"`
}

// report is everything a run measured.
type report struct {
	Host      host      `json:"host"`
	Summaries []summary `json:"summaries"`
	Samples   []sample  `json:"samples"`
}

// summarize groups samples by row and target, in the order in which these were listed.
func summarize(rows []row, list []target, samples []sample) []summary {
	type group struct{ row, target string }
	groups := make(map[group][]sample)
	byRow := make(map[string][]sample)
	for _, s := range samples {
		groups[group{s.Row, s.Target}] = append(groups[group{s.Row, s.Target}], s)
		byRow[s.Row] = append(byRow[s.Row], s)
	}
	var out []summary
	for _, r := range rows {
		felix := groups[group{r.name(), list[0].name}]
		for _, t := range list {
			runs := groups[group{r.name(), t.name}]
			if len(runs) == 0 {
				continue
			}
			s := summary{Row: r.name(), Target: t.name, row: r, Rounds: len(runs)}
			s.RecordsPerSecond = over(runs, func(s sample) float64 { return s.RecordsPerSecond })
			s.P50Micros = over(runs, func(s sample) float64 { return float64(s.LatencyMicros.P50) })
			s.P99Micros = over(runs, func(s sample) float64 { return float64(s.LatencyMicros.P99) })
			s.CPUMicrosPerAppend = over(runs, func(s sample) float64 { return s.CPUMicrosPerAppend })
			s.DeviceOverwriteMicros = over(byRow[s.Row], func(s sample) float64 { return s.DeviceOverwriteMicros })
			s.DeviceDsyncMicros = over(byRow[s.Row], func(s sample) float64 { return s.DeviceDsyncMicros })
			s.FelixRatio = ratio(felix, runs)
			out = append(out, s)
		}
	}
	return out
}

func over(samples []sample, value func(sample) float64) interval {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = value(s)
	}
	return intervalOf(values)
}

// ratio pairs runs of the same round. It is nil without pairs, and for the first
// target itself.
func ratio(first, runs []sample) *interval {
	byRound := make(map[int]sample)
	for _, s := range first {
		byRound[s.Round] = s
	}
	var a, b []float64
	for _, s := range runs {
		if f, ok := byRound[s.Round]; ok && f.Target != s.Target {
			a, b = append(a, f.RecordsPerSecond), append(b, s.RecordsPerSecond)
		}
	}
	if len(a) == 0 {
		return nil
	}
	e := bench.Compare(a, b)
	return &interval{Median: e.Ratio, Low: e.Low, High: e.High, Confidence: compareConfidence}
}

// compareConfidence is that of the intervals of bench.Compare.
const compareConfidence = 0.95

// markdown renders summaries as a table.
func markdown(summaries []summary) string {
	var b strings.Builder
	b.WriteString("| logs | publishers | batch | bytes | target | records/s | interval | p50 µs | p99 µs | CPU µs/append | Felix ÷ it | interval | device overwrite µs | device dsync µs |\n")
	b.WriteString("|--:|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, s := range summaries {
		times, around := "", ""
		if s.FelixRatio != nil {
			times = fmt.Sprintf("%.2f", s.FelixRatio.Median)
			if s.FelixRatio.Low > 0 { // one pair has no interval
				around = fmt.Sprintf("%.2f–%.2f", s.FelixRatio.Low, s.FelixRatio.High)
			}
		}
		fmt.Fprintf(&b, "| %d | %d | %d | %d | %s | %.0f | %.0f–%.0f | %.0f | %.0f | %.1f | %s | %s | %.0f | %.0f |\n",
			s.Logs, s.Publishers, s.Batch, s.PayloadBytes, s.Target,
			s.RecordsPerSecond.Median, s.RecordsPerSecond.Low, s.RecordsPerSecond.High,
			s.P50Micros.Median, s.P99Micros.Median, s.CPUMicrosPerAppend.Median, times, around,
			s.DeviceOverwriteMicros.Median, s.DeviceDsyncMicros.Median)
	}
	return b.String()
}
