package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestEveryRecordIsAppendedOnceAndTheLastBatchIsCut(t *testing.T) {
	defer goleak.VerifyNone(t)
	load := Load{Records: 101, WarmupRecords: 10, PayloadBytes: 34, Batch: 16, Concurrency: 3}
	var records, appends, progressed atomic.Int64
	result, err := load.Run(t.Context(), func(int) Publisher {
		return func(_ context.Context, payloads [][]byte) (uint64, error) {
			records.Add(int64(len(payloads)))
			appends.Add(1)
			return 0, nil
		}
	}, Hooks{Progress: func(n int64) { progressed.Add(n) }})
	if err != nil {
		t.Fatal(err)
	}
	if records.Load() != 111 || progressed.Load() != 111 {
		t.Errorf("%d records appended and %d reported, want 111", records.Load(), progressed.Load())
	}
	if result.Appends != 7 || result.Records != 101 || appends.Load() != 8 {
		t.Errorf("%d measured of %d appends, want 7 of 8 (one was warm-up)", result.Appends, appends.Load())
	}
}

func TestWarmupEndsBeforeAnyMeasuredAppend(t *testing.T) {
	const warmup = 40
	load := Load{Records: 40, WarmupRecords: warmup, PayloadBytes: 34, Batch: 1, Concurrency: 4}
	var mu sync.Mutex
	started, ended := 0, 0
	_, err := load.Run(t.Context(), func(int) Publisher {
		return func(context.Context, [][]byte) (uint64, error) {
			mu.Lock()
			started++
			if started > warmup && ended < warmup {
				t.Errorf("append %d started while only %d warm-up appends had ended", started, ended)
			}
			mu.Unlock()
			mu.Lock()
			ended++
			mu.Unlock()
			return 0, nil
		}
	}, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAFailedAppendEndsTheRunWithItsError(t *testing.T) {
	defer goleak.VerifyNone(t)
	broken := errors.New("broken")
	load := Load{Records: RecordsMax, PayloadBytes: 34, Batch: 1, Concurrency: 8}
	_, err := load.Run(t.Context(), func(worker int) Publisher {
		return func(context.Context, [][]byte) (uint64, error) {
			if worker == 5 {
				return 0, broken
			}
			return 0, nil
		}
	}, Hooks{})
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want the publisher's error", err)
	}
}

func TestAnInvalidLoadNamesAllItsProblems(t *testing.T) {
	_, err := Load{WarmupRecords: -1}.Run(t.Context(), nil, Hooks{})
	if err == nil {
		t.Fatal("an empty load was accepted")
	}
	for _, name := range []string{"records", "warm-up", "payload bytes", "batch", "concurrency"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%q is not named in %v", name, err)
		}
	}
}

func TestALoadAsksForNoMoreThanThereIs(t *testing.T) {
	fits := Load{Records: 1, PayloadBytes: 1 << 10, Batch: 1 << 10, Concurrency: 1 << 10}
	if err := fits.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Load){
		"records":         func(l *Load) { l.Records = RecordsMax + 1 },
		"warm-up records": func(l *Load) { l.WarmupRecords = RecordsMax + 1 },
		"payload bytes":   func(l *Load) { l.PayloadBytes = PayloadBytesMax + 1 },
		"batch":           func(l *Load) { l.Batch = BatchMax + 1 },
		"concurrency":     func(l *Load) { l.Concurrency = ConcurrencyMax + 1 },
		"payload bytes × batch × concurrency must": func(l *Load) { l.Concurrency++ },
		// The product of these wraps to a small number.
		"payload bytes × batch × concurrency": func(l *Load) {
			l.PayloadBytes, l.Batch, l.Concurrency = PayloadBytesMax, BatchMax, ConcurrencyMax
		},
	} {
		load := fits
		change(&load)
		if err := load.Validate(); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%+v: got %v, want it to name %q", load, err, name)
		}
	}
}

// With a histogram each, these took gigabytes.
func TestManyPublishersShareHistograms(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	load := Load{Records: 20_000, WarmupRecords: 1, PayloadBytes: 34, Batch: 1, Concurrency: 20_000}
	result, err := load.Run(t.Context(), func(int) Publisher {
		return func(context.Context, [][]byte) (uint64, error) { return 0, nil }
	}, Hooks{})
	runtime.ReadMemStats(&after)
	if err != nil || result.Appends != load.Records {
		t.Fatalf("%d appends: %v", result.Appends, err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 200<<20 {
		t.Errorf("%d publishers took %d MiB", load.Concurrency, took>>20)
	}
}

func TestPercentilesAreNearestRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Below 2048 a histogram of three digits is exact.
		micros := rapid.SliceOfN(rapid.Int64Range(0, 2047), 1, 2000).Draw(t, "micros")
		r := newRecorder()
		for _, m := range micros {
			r.record(time.Duration(m) * time.Microsecond)
		}
		slices.Sort(micros)
		n := len(micros)
		at := func(numerator, denominator int) int64 { // nearest rank in whole numbers
			return micros[(numerator*n+denominator-1)/denominator-1]
		}
		want := Latency{at(1, 2), at(9, 10), at(99, 100), at(999, 1000), micros[n-1]}
		if got := r.latency(); got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

func TestAnEmptyRecorderHasZeroPercentiles(t *testing.T) {
	if got := newRecorder().latency(); got != (Latency{}) {
		t.Errorf("got %+v", got)
	}
}

func TestFloorLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	floor, err := MeasureFloor(t.Context(), FloorOptions{Dir: dir, Samples: 3})
	if err != nil {
		t.Fatal(err)
	}
	if floor.Inline <= 0 || floor.Bytes != 4096 {
		t.Errorf("got %+v", floor)
	}
	assertEmpty(t, dir)
}

func TestFloorRemovesWhatAKilledRunLeft(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, floorPrefix+"1"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := MeasureFloor(t.Context(), FloorOptions{Dir: dir, Samples: 1}); err != nil {
		t.Fatal(err)
	}
	assertEmpty(t, dir)
}

func TestFloorEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	_, err := MeasureFloor(ctx, FloorOptions{Dir: dir, Samples: 1 << 30})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	assertEmpty(t, dir)
}
