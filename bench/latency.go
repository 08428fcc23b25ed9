package bench

import (
	"math"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latency are nearest-rank percentiles in microseconds, exact to three digits.
type Latency struct {
	P50  int64 `json:"p50"`
	P90  int64 `json:"p90"`
	P99  int64 `json:"p99"`
	P999 int64 `json:"p999"`
	Max  int64 `json:"max"`
}

// latencyMax is the longest time a recorder tells apart; longer ones count as it.
const latencyMax = 10 * time.Minute

// recordersMax bounds the recorders of a run, each of which takes about 160 KiB.
// One for each publisher would push the code under test out of the caches, and
// those of a hundred thousand publishers would take 16 GiB.
const recordersMax = 8

// recorder collects the latencies of one publisher, or of several when there are
// more than recordersMax.
type recorder struct {
	mu struct {
		sync.Mutex
		histogram *hdrhistogram.Histogram
		max       int64 // exact, where the histogram rounds up
	}
}

func newRecorder() *recorder {
	r := new(recorder)
	r.mu.histogram = hdrhistogram.New(1, latencyMax.Microseconds(), 3)
	return r
}

func (r *recorder) record(took time.Duration) {
	micros := min(took, latencyMax).Microseconds()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.max = max(r.mu.max, micros)
	if err := r.mu.histogram.RecordValue(micros); err != nil {
		panic("bench: a clamped latency is out of range: " + err.Error())
	}
}

// merge, latency and rank are for when all publishers have ended.
func (r *recorder) merge(other *recorder) {
	r.mu.max = max(r.mu.max, other.mu.max)
	r.mu.histogram.Merge(other.mu.histogram)
}

func (r *recorder) latency() Latency {
	return Latency{P50: r.rank(0.5), P90: r.rank(0.9), P99: r.rank(0.99), P999: r.rank(0.999), Max: r.mu.max}
}

// rank is the value of nearest rank. The histogram rounds a percentile to the
// closest rank, so it is asked for exactly the share that this rank is.
func (r *recorder) rank(share float64) int64 {
	total := r.mu.histogram.TotalCount()
	if total == 0 {
		return 0
	}
	rank := math.Ceil(share * float64(total))
	return min(r.mu.histogram.ValueAtPercentile(100*rank/float64(total)), r.mu.max)
}

// Distribution is all latencies of a run, or of several.
type Distribution struct{ recorder *recorder }

// Quantile says that this share of all latencies is at most so many microseconds.
type Quantile struct {
	Share  float64 `json:"share"`
	Micros int64   `json:"us"`
}

// Latency gives the percentiles that every report has.
func (d *Distribution) Latency() Latency { return d.recorder.latency() }

// Quantiles are enough of them to draw a curve, more towards the slow end.
func (d *Distribution) Quantiles() []Quantile {
	if d.recorder.mu.histogram.TotalCount() == 0 {
		return nil
	}
	var curve []Quantile
	add := func(share float64) { curve = append(curve, Quantile{share, d.recorder.rank(share)}) }
	for percent := 1; percent < 99; percent++ {
		add(float64(percent) / 100)
	}
	for rest := 0.01; rest > 0.00005; rest /= 1.5 {
		add(1 - rest)
	}
	return append(curve, Quantile{1, d.recorder.mu.max})
}

// Merged is the distribution of all latencies of several runs.
func Merged(of ...*Distribution) *Distribution {
	all := newRecorder()
	for _, d := range of {
		all.merge(d.recorder)
	}
	return &Distribution{all}
}
