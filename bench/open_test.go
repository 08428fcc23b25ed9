package bench

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// A target stalls once. In a closed loop that is one slow append; in an open one it
// is as many as were due meanwhile, each counted from when it was due.
func TestAStallIsChargedForAllThatWasDue(t *testing.T) {
	defer goleak.VerifyNone(t)
	const stall = 200 * time.Millisecond
	stalling := func() Target {
		var calls atomic.Int64
		return func(int) Publisher {
			return func(context.Context, [][]byte) (uint64, error) {
				if calls.Add(1) == 10 {
					time.Sleep(stall)
				}
				return 0, nil
			}
		}
	}
	load := Load{Duration: 500 * time.Millisecond, PayloadBytes: 34, Batch: 1, Concurrency: 1, Rate: 1000}
	open, err := load.Run(t.Context(), stalling(), Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	// 100 were due in the first half of the stall, and each waited for the second.
	if n := slowerThan(open, stall/2); n < 100 {
		t.Errorf("%d appends of an open loop took more than half the stall, want at least 100", n)
	}
	if got := open.Appends + open.Unserved; got != 500 {
		t.Errorf("%d appends and %d unserved, of 500 that were due", open.Appends, open.Unserved)
	}
	load.Rate, load.Duration, load.Records = 0, 0, 500
	closed, err := load.Run(t.Context(), stalling(), Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	if closed.Latency.P99 >= open.Latency.P99 || open.Latency.P90 < (stall/4).Microseconds() {
		t.Errorf("the open loop shows %+v, the closed one %+v", open.Latency, closed.Latency)
	}
}

// slowerThan counts latencies.
func slowerThan(r Result, limit time.Duration) (n int64) {
	for _, bar := range r.Distribution.recorder.mu.histogram.Distribution() {
		if bar.From > limit.Microseconds() {
			n += bar.Count
		}
	}
	return n
}

// A target that never keeps up does not make the run longer, and what it did not
// come to is counted.
func TestWhatWasNotServedIsCounted(t *testing.T) {
	defer goleak.VerifyNone(t)
	load := Load{Duration: 100 * time.Millisecond, PayloadBytes: 34, Batch: 1, Concurrency: 2, Rate: 100_000}
	result, err := load.Run(t.Context(), func(int) Publisher {
		return func(context.Context, [][]byte) (uint64, error) { time.Sleep(time.Millisecond); return 0, nil }
	}, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	total := result.Distribution.recorder.mu.histogram.TotalCount()
	if result.Appends+result.Unserved != 10_000 || total != 10_000 || result.Unserved < 9_000 {
		t.Errorf("%d appends, %d unserved, %d latencies, of 10000 that were due", result.Appends, result.Unserved, total)
	}
}

func TestNothingOfAnOpenLoopIsEarly(t *testing.T) {
	var n atomic.Int64
	var start time.Time
	load := Load{Duration: 100 * time.Millisecond, PayloadBytes: 34, Batch: 1, Concurrency: 4, Rate: 500}
	result, err := load.Run(t.Context(), func(int) Publisher {
		return func(context.Context, [][]byte) (uint64, error) {
			if k := n.Add(1) - 1; time.Since(start) < time.Duration(k)*2*time.Millisecond {
				t.Errorf("append %d came early", k)
			}
			return 0, nil
		}
	}, Hooks{Measuring: func() { start = time.Now() }})
	if err != nil || result.Appends+result.Unserved != 50 {
		t.Errorf("%d appends, %d unserved, of 50 that were due: %v", result.Appends, result.Unserved, err)
	}
}

func TestAnOpenLoopEndsWithItsFirstError(t *testing.T) {
	defer goleak.VerifyNone(t)
	broken := errors.New("broken")
	load := Load{Duration: DurationMax, Warmup: time.Millisecond, PayloadBytes: 34, Batch: 1, Concurrency: 3, Rate: 100}
	var calls atomic.Int64
	_, err := load.Run(t.Context(), func(int) Publisher {
		return func(context.Context, [][]byte) (uint64, error) {
			if calls.Add(1) == 5 {
				return 0, broken
			}
			return 0, nil
		}
	}, Hooks{})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = load.Run(ctx, func(int) Publisher {
		return func(context.Context, [][]byte) (uint64, error) { return 0, nil }
	}, Hooks{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAClosedLoopEndsWithItsTime(t *testing.T) {
	load := Load{Duration: 50 * time.Millisecond, Warmup: 10 * time.Millisecond, PayloadBytes: 34, Batch: 3, Concurrency: 2}
	var acked atomic.Int64
	result, err := load.Run(t.Context(), func(int) Publisher {
		return func(context.Context, [][]byte) (uint64, error) { acked.Add(3); return 0, nil }
	}, Hooks{Measuring: func() { acked.Store(0) }})
	if err != nil || result.Records != acked.Load() || result.Records != 3*result.Appends || result.Elapsed < load.Duration {
		t.Errorf("%d records in %d appends and %v, %d acknowledged: %v", result.Records, result.Appends, result.Elapsed, acked.Load(), err)
	}
}

func TestALoadHasRecordsOrADuration(t *testing.T) {
	base := Load{PayloadBytes: 34, Batch: 1, Concurrency: 1}
	for name, change := range map[string]func(*Load){
		"neither":              func(*Load) {},
		"both":                 func(l *Load) { l.Records, l.Duration = 1, time.Second },
		"a rate with records":  func(l *Load) { l.Records, l.Rate = 1, 5 },
		"a negative rate":      func(l *Load) { l.Duration, l.Rate = time.Second, -1 },
		"a rate without bound": func(l *Load) { l.Duration, l.Rate = time.Second, RateMax+1 },
		"a negative duration":  func(l *Load) { l.Records, l.Duration = 1, -time.Second },
		"a payload too small":  func(l *Load) { l.Records, l.PayloadBytes = 1, LoadPayloadBytesMin-1 },
	} {
		load := base
		change(&load)
		if err := load.Validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
