package bench

import (
	"math"
	"slices"
)

// Estimate is how two sides compare in something, from paired measurements.
type Estimate struct {
	// Ratio is the median of one side divided by the median of the other: what a
	// limit is held against.
	Ratio float64
	// Mean is the geometric mean of the pairs' ratios. Low and High are its 95%
	// interval, by Student's t of the logarithms of the ratios: a pair is measured
	// within seconds, so that what drifts for both is not counted as a difference.
	// With fewer than two pairs there is none, and both are 0.
	Mean, Low, High float64
	// Pairs are the ratios of the pairs, in their order.
	Pairs []float64
}

// Interval has the bounds, or nothing where there is none.
func (e Estimate) Interval() []float64 {
	if e.Low == 0 && e.High == 0 {
		return []float64{}
	}
	return []float64{e.Low, e.High}
}

// Compare estimates a/b of positive measurements that were made in pairs. Where one
// is not positive there is nothing to estimate: all is 0.
func Compare(a, b []float64) Estimate {
	n := min(len(a), len(b))
	e := Estimate{Pairs: make([]float64, 0, n)}
	logs := make([]float64, 0, n)
	for i := range n {
		if a[i] <= 0 || b[i] <= 0 {
			return Estimate{}
		}
		e.Pairs = append(e.Pairs, a[i]/b[i])
		logs = append(logs, math.Log(a[i]/b[i]))
	}
	if n == 0 {
		return Estimate{}
	}
	e.Ratio = MedianOf(a[:n]) / MedianOf(b[:n])
	mean, deviation := meanAndDeviation(logs)
	e.Mean = math.Exp(mean)
	if n > 1 {
		half := studentT(n-1) * deviation / math.Sqrt(float64(n))
		e.Low, e.High = math.Exp(mean-half), math.Exp(mean+half)
	}
	return e
}

// MedianOf is the value in the middle, or the mean of the two there; 0 of none.
func MedianOf(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	high := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[high]
	}
	return (sorted[high-1] + sorted[high]) / 2
}

// meanAndDeviation is the mean and the deviation of a sample.
func meanAndDeviation(sample []float64) (mean, deviation float64) {
	for _, x := range sample {
		mean += x / float64(len(sample))
	}
	if len(sample) < 2 {
		return mean, 0
	}
	for _, x := range sample {
		deviation += (x - mean) * (x - mean) / float64(len(sample)-1)
	}
	return mean, math.Sqrt(deviation)
}

// studentT is the two-sided 95% quantile of Student's distribution. Between the
// degrees that are listed it takes the lower one, whose interval is wider.
func studentT(degrees int) float64 {
	table := []struct {
		degrees  int
		quantile float64
	}{
		{1, 12.706},
		{2, 4.303},
		{3, 3.182},
		{4, 2.776},
		{5, 2.571},
		{6, 2.447},
		{7, 2.365},
		{8, 2.306},
		{9, 2.262},
		{10, 2.228},
		{11, 2.201},
		{12, 2.179},
		{13, 2.160},
		{14, 2.145},
		{15, 2.131},
		{16, 2.120},
		{17, 2.110},
		{18, 2.101},
		{19, 2.093},
		{20, 2.086},
		{25, 2.060},
		{30, 2.042},
		{40, 2.021},
		{60, 2.000},
		{120, 1.980},
	}
	quantile := table[0].quantile
	for _, row := range table {
		if row.degrees <= degrees {
			quantile = row.quantile
		}
	}
	return quantile
}
