package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"felix.local/felix/segment"
)

// The most that a load may ask for. Payloads are made beforehand, so what is
// asked for is memory.
const (
	PayloadBytesMax = segment.MaxPayloadBytes
	BatchMax        = 1_000_000
	// PreparedBytesMax bounds the payloads of one batch, and those of all
	// publishers together.
	PreparedBytesMax = 1 << 30
	ConcurrencyMax   = 100_000
	RecordsMax       = 1_000_000_000_000
)

// Load says what to append.
type Load struct {
	// Records are measured, after WarmupRecords that are not.
	Records, WarmupRecords int64
	PayloadBytes           int
	// Batch is the number of records per append.
	Batch int
	// Concurrency is the number of publishers, each with one append outstanding.
	Concurrency int
}

// Validate names everything that is wrong with a load.
func (l Load) Validate() error {
	var problems []error
	check := func(name string, value, low, high int64) {
		if value < low || value > high {
			problems = append(problems, fmt.Errorf("%s must be between %d and %d, is %d", name, low, high, value))
		}
	}
	check("records", l.Records, 1, RecordsMax)
	check("warm-up records", l.WarmupRecords, 0, RecordsMax)
	check("payload bytes", int64(l.PayloadBytes), int64(PayloadBytesMin), PayloadBytesMax)
	check("batch", int64(l.Batch), 1, BatchMax)
	check("concurrency", int64(l.Concurrency), 1, ConcurrencyMax)
	if len(problems) == 0 && !Preparable(l.PayloadBytes, l.Batch, l.Concurrency) {
		problems = append(problems, fmt.Errorf("payload bytes × batch × concurrency must be at most %d, is %d × %d × %d",
			PreparedBytesMax, l.PayloadBytes, l.Batch, l.Concurrency))
	}
	return errors.Join(problems...)
}

// Preparable says that the product of positive factors is at most
// PreparedBytesMax, without computing one that wraps.
func Preparable(factors ...int) bool {
	left := PreparedBytesMax
	for _, f := range factors {
		left /= f
	}
	return left > 0
}

// Target makes the publisher number worker. A publisher appends the payloads as
// one batch and returns when they are acknowledged; it is called by one
// goroutine and may keep scratch space.
type Target func(worker int) Publisher

// Publisher appends one batch.
type Publisher func(ctx context.Context, payloads [][]byte) error

// Result is what a run measured.
type Result struct {
	Load    Load
	Appends int64
	// Elapsed runs from the first measured append to the last acknowledgement.
	Elapsed time.Duration
	Latency Latency
}

// RecordsPerSecond is the rate of acknowledged records.
func (r Result) RecordsPerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Load.Records) / r.Elapsed.Seconds()
}

// Run puts the load on the target. progress, when not nil, is called by all
// publishers with the number of records each append added, warm-up included.
// The first failed append ends the run.
func (l Load) Run(ctx context.Context, target Target, progress func(records int64)) (Result, error) {
	if err := l.Validate(); err != nil {
		return Result{}, err
	}
	if progress == nil {
		progress = func(int64) {}
	}
	publishers := make([]*publisher, l.Concurrency)
	for i := range publishers {
		publishers[i] = l.publisher(i, target(i), progress)
	}
	if _, err := phase(ctx, publishers, l.WarmupRecords); err != nil {
		return Result{}, err
	}
	recorders := make([]*recorder, min(l.Concurrency, recordersMax))
	for i := range recorders {
		recorders[i] = newRecorder()
	}
	for i, p := range publishers {
		p.latencies, p.appends = recorders[i%len(recorders)], 0
	}
	elapsed, err := phase(ctx, publishers, l.Records)
	if err != nil {
		return Result{}, err
	}
	total := newRecorder()
	result := Result{Load: l, Elapsed: elapsed}
	for _, r := range recorders {
		total.merge(r)
	}
	for _, p := range publishers {
		result.Appends += p.appends
	}
	result.Latency = total.latency()
	return result, nil
}

type publisher struct {
	publish  Publisher
	payloads [][]byte
	progress func(int64)
	// latencies is nil during warm-up.
	latencies *recorder
	appends   int64
}

// publisher prepares payloads beforehand, so that making them costs the
// measurement nothing.
func (l Load) publisher(worker int, publish Publisher, progress func(int64)) *publisher {
	p := &publisher{publish: publish, progress: progress}
	for i := range l.Batch {
		offset := uint64(worker)*uint64(l.Batch) + uint64(i)
		p.payloads = append(p.payloads, AppendPayload(make([]byte, 0, l.PayloadBytes), offset, l.PayloadBytes))
	}
	return p
}

// phase lets all publishers append until records are spent, and waits for them.
func phase(ctx context.Context, publishers []*publisher, records int64) (time.Duration, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var left atomic.Int64
	left.Store(records)
	var wg sync.WaitGroup
	start := time.Now()
	for _, p := range publishers {
		wg.Go(func() {
			if err := p.loop(ctx, &left); err != nil {
				stop(err)
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	return elapsed, context.Cause(ctx)
}

// loop reads the clock once per append: the end of one is the start of the next,
// so noting a latency counts as part of the append that follows.
func (p *publisher) loop(ctx context.Context, left *atomic.Int64) error {
	batch := int64(len(p.payloads))
	begun, last := time.Now(), time.Duration(0)
	for ctx.Err() == nil {
		n := min(batch, left.Add(-batch)+batch)
		if n <= 0 {
			return nil
		}
		if err := p.publish(ctx, p.payloads[:n]); err != nil {
			return err
		}
		if p.latencies != nil {
			now := time.Since(begun)
			p.latencies.record(now - last)
			last = now
		}
		p.appends++
		p.progress(n)
	}
	return nil
}
