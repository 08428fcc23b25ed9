package bench

import (
	"math"
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

// recorder collects latencies of one publisher.
type recorder struct {
	histogram *hdrhistogram.Histogram
	max       int64 // exact, where the histogram rounds up
}

func newRecorder() *recorder {
	return &recorder{histogram: hdrhistogram.New(1, latencyMax.Microseconds(), 3)}
}

func (r *recorder) record(took time.Duration) {
	micros := min(took, latencyMax).Microseconds()
	r.max = max(r.max, micros)
	if err := r.histogram.RecordValue(micros); err != nil {
		panic("bench: a clamped latency is out of range: " + err.Error())
	}
}

func (r *recorder) merge(other *recorder) {
	r.max = max(r.max, other.max)
	r.histogram.Merge(other.histogram)
}

func (r *recorder) latency() Latency {
	return Latency{P50: r.rank(0.5), P90: r.rank(0.9), P99: r.rank(0.99), P999: r.rank(0.999), Max: r.max}
}

// rank is the value of nearest rank. The histogram rounds a percentile to the
// closest rank, so it is asked for exactly the share that this rank is.
func (r *recorder) rank(share float64) int64 {
	total := r.histogram.TotalCount()
	if total == 0 {
		return 0
	}
	rank := math.Ceil(share * float64(total))
	return min(r.histogram.ValueAtPercentile(100*rank/float64(total)), r.max)
}
