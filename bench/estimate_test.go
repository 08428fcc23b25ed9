package bench

import (
	"math"
	"testing"
)

func near(a, b float64) bool { return math.Abs(a-b) < 0.0005 }

// The interval by hand: the logarithms of 1, 1.1, 1.21, 1.331 and 1.4641 have the
// mean 2·ln 1.1 and the deviation √2.5·ln 1.1; t of four degrees is 2.776.
func TestAnEstimateIsTheOneComputedByHand(t *testing.T) {
	b := []float64{100, 200, 50, 400, 10}
	a := []float64{100, 220, 60.5, 532.4, 14.641}
	got := Compare(a, b)
	half := 2.776 * math.Sqrt(2.5) * math.Log(1.1) / math.Sqrt(5)
	want := Estimate{Ratio: 1, Mean: 1.21, Low: 1.21 * math.Exp(-half), High: 1.21 * math.Exp(half)}
	if !near(got.Ratio, want.Ratio) || !near(got.Mean, want.Mean) || !near(got.Low, want.Low) || !near(got.High, want.High) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for i, ratio := range []float64{1, 1.1, 1.21, 1.331, 1.4641} {
		if !near(got.Pairs[i], ratio) {
			t.Errorf("pair %d is %g, want %g", i, got.Pairs[i], ratio)
		}
	}
}

func TestPairsThatDriftTogetherHaveANarrowInterval(t *testing.T) {
	got := Compare([]float64{200, 400, 800, 100, 1600}, []float64{100, 200, 400, 50, 800})
	if !near(got.Ratio, 2) || !near(got.Low, 2) || !near(got.High, 2) {
		t.Errorf("got %+v", got)
	}
}

func TestOnePairHasNoInterval(t *testing.T) {
	got := Compare([]float64{3}, []float64{2})
	if got.Ratio != 1.5 || len(got.Interval()) != 0 {
		t.Errorf("got %+v", got)
	}
	if got := Compare([]float64{3, 0}, []float64{2, 1}); got.Ratio != 0 || len(got.Interval()) != 0 {
		t.Errorf("a side without a measurement gave %+v", got)
	}
	if got := Compare(nil, nil); got.Ratio != 0 {
		t.Errorf("nothing gave %+v", got)
	}
}

func TestTheMedianOfAnEvenNumberIsInBetween(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{5, 1}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 9, 2}, 3}} {
		if got := MedianOf(test.values); got != test.want {
			t.Errorf("the median of %v is %g, want %g", test.values, got, test.want)
		}
	}
}

func TestStudentTNeverNarrowsAnInterval(t *testing.T) {
	if studentT(1) != 12.706 || studentT(4) != 2.776 || studentT(27) != studentT(25) || studentT(10_000) != 1.980 {
		t.Error("the table is not read as it is written")
	}
	for degrees := 1; degrees < 200; degrees++ {
		if studentT(degrees+1) > studentT(degrees) {
			t.Errorf("t of %d is above t of %d", degrees+1, degrees)
		}
	}
}
