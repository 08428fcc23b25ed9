package main

import (
	"math"
	"slices"

	"felix.local/felix/bench"
)

// interval is a median and the order statistics around it: with probability Confidence, the
// median of what was sampled lies between Low and High, whatever its distribution.
type interval struct {
	Median     float64 `json:"median"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"`
}

// confidenceMin is what an interval is to reach; it is as narrow as that allows. Five
// samples reach 0.9375 with their least and greatest, fewer do not reach it.
const confidenceMin = 0.9

// intervalOf panics without values.
func intervalOf(values []float64) interval {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	// The median lies outside the k+1-th smallest and greatest when at most k of the values
	// are on one side of it: a fair coin tossed n times.
	k, outside := 0, math.Pow(0.5, float64(n))
	for term := outside; k+1 <= (n-1)/2; k++ {
		term *= float64(n-k) / float64(k+1)
		if 1-2*(outside+term) < confidenceMin {
			break
		}
		outside += term
	}
	return interval{Median: bench.MedianOf(sorted), Low: sorted[k], High: sorted[n-1-k], Confidence: max(0, 1-2*outside)}
}
