package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
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
	DurationMax      = 24 * time.Hour
	// RateMax bounds the appends per second of an open loop.
	RateMax = 10_000_000
)

// Load says what to append: so many records, or for so long.
type Load struct {
	// Records are measured, after WarmupRecords that are not; 0 when there is a
	// Duration.
	Records, WarmupRecords int64
	// Duration is measured, after Warmup that is not; 0 when there are Records.
	Duration, Warmup time.Duration
	PayloadBytes     int
	// Batch is the number of records per append.
	Batch int
	// Concurrency is the number of publishers, each with one append outstanding.
	Concurrency int
	// Rate makes an open loop: so many appends per second are due, at even
	// distances, whatever becomes of those before. 0 is a closed loop: a publisher
	// appends as soon as its last append returned.
	Rate float64
	// Remember keeps what verifying needs.
	Remember bool
}

// Validate names everything that is wrong with a load.
func (l Load) Validate() error {
	var problems []error
	check := func(name string, value, low, high int64) {
		if value < low || value > high {
			problems = append(problems, fmt.Errorf("%s must be between %d and %d, is %d", name, low, high, value))
		}
	}
	recordsMin := int64(1)
	if l.Duration != 0 {
		recordsMin = 0
	}
	check("records", l.Records, recordsMin, RecordsMax)
	check("warm-up records", l.WarmupRecords, 0, RecordsMax)
	check("milliseconds to measure", l.Duration.Milliseconds(), 0, DurationMax.Milliseconds())
	check("milliseconds of warm-up", l.Warmup.Milliseconds(), 0, DurationMax.Milliseconds())
	check("payload bytes", int64(l.PayloadBytes), LoadPayloadBytesMin, PayloadBytesMax)
	check("batch", int64(l.Batch), 1, BatchMax)
	check("concurrency", int64(l.Concurrency), 1, ConcurrencyMax)
	if l.Records > 0 && l.Duration > 0 {
		problems = append(problems, errors.New("records and a duration are both given; choose one"))
	}
	if math.IsNaN(l.Rate) || l.Rate < 0 || l.Rate > RateMax {
		problems = append(problems, fmt.Errorf("rate must be between 0 and %d appends per second, is %g", RateMax, l.Rate))
	} else if l.Rate > 0 && l.Duration == 0 {
		problems = append(problems, errors.New("a rate needs a duration: what is due does not depend on what was done"))
	}
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
// goroutine and may keep scratch space. Of n logs it uses number worker modulo n.
type Target func(worker int) Publisher

// Publisher appends one batch and returns the offset of its first record. The
// payloads are the caller's again when it returns.
type Publisher func(ctx context.Context, payloads [][]byte) (first uint64, err error)

// Hooks are told how a load goes on; each may be nil.
type Hooks struct {
	// Progress is called by all publishers with the number of records each append
	// added, warm-up included.
	Progress func(records int64)
	// Measuring is called after the warm-up, Measured after the last measured
	// acknowledgement; nothing is under way then.
	Measuring, Measured func()
}

// Result is what a run measured.
type Result struct {
	Load Load
	// Appends and Records were acknowledged while it was measured.
	Appends, Records int64
	// Unserved counts the appends of an open loop that were due and not begun when
	// the time was up. Their latency is counted as if they had ended then.
	Unserved int64
	// Elapsed runs from the first measured append to the last acknowledgement.
	Elapsed time.Duration
	// CPU is what the process used meanwhile, the kernel's workers behind its ring
	// and the load itself included.
	CPU     time.Duration
	Latency Latency
	// Distribution has the same latencies in full.
	Distribution *Distribution
	// Ledger is nil unless the load remembers.
	Ledger *Ledger
}

// RecordsPerSecond is the rate of acknowledged records.
func (r Result) RecordsPerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Records) / r.Elapsed.Seconds()
}

// Run puts the load on the target. The first failed append ends the run.
func (l Load) Run(ctx context.Context, target Target, hooks Hooks) (Result, error) {
	if err := l.Validate(); err != nil {
		return Result{}, err
	}
	result := Result{Load: l}
	if l.Remember {
		result.Ledger = newLedger(l)
	}
	publishers := make([]*publisher, l.Concurrency)
	for i := range publishers {
		publishers[i] = l.publisher(i, target(i), hooks.Progress)
		if l.Remember {
			publishers[i].acked = result.Ledger.publishers[i]
		}
	}
	if l.WarmupRecords > 0 || l.Warmup > 0 {
		if err := l.phase(l.WarmupRecords, l.Warmup).run(ctx, publishers); err != nil {
			return Result{}, err
		}
	}
	recorders := make([]*recorder, min(l.Concurrency, recordersMax))
	for i := range recorders {
		recorders[i] = newRecorder()
	}
	for i, p := range publishers {
		p.latencies, p.appends, p.records = recorders[i%len(recorders)], 0, 0
	}
	call(hooks.Measuring)
	measured, before := l.phase(l.Records, l.Duration), processCPU()
	if err := measured.run(ctx, publishers); err != nil {
		return Result{}, err
	}
	result.Elapsed, result.CPU = time.Since(measured.start), processCPU()-before
	call(hooks.Measured)
	for _, p := range publishers {
		result.Appends += p.appends
		result.Records += p.records
	}
	result.Unserved = measured.unserved.Load()
	total := newRecorder()
	for _, r := range recorders {
		total.merge(r)
	}
	result.Latency, result.Distribution = total.latency(), &Distribution{total}
	return result, nil
}

func call(hook func()) {
	if hook != nil {
		hook()
	}
}

type publisher struct {
	publish  Publisher
	stamp    stamp
	payloads [][]byte
	progress func(int64)
	// latencies is nil during warm-up.
	latencies        *recorder
	appends, records int64
	// acked is nil when nothing is to be verified.
	acked *acked
}

// publisher prepares payloads beforehand, so that an append costs the measurement
// no more of them than their stamps.
func (l Load) publisher(worker int, publish Publisher, progress func(int64)) *publisher {
	p := &publisher{publish: publish, stamp: stamp{publisher: uint32(worker)}, progress: progress}
	for range l.Batch {
		p.payloads = append(p.payloads, blankPayload(l.PayloadBytes))
	}
	return p
}

// append publishes the next n records and returns when they are acknowledged.
func (p *publisher) append(ctx context.Context, n int64) error {
	payloads := p.payloads[:n]
	for i, payload := range payloads {
		p.stamp.index = uint32(i)
		p.stamp.mark(payload)
	}
	first, err := p.publish(ctx, payloads)
	if err != nil {
		return err
	}
	if p.acked != nil {
		if err := p.acked.add(first, len(payloads)); err != nil {
			return err
		}
	}
	p.stamp.sequence++
	p.appends++
	p.records += n
	if p.progress != nil {
		p.progress(n)
	}
	return nil
}

// all runs what each publisher does, at once, and waits for them; the first error
// ends the context of the others.
func all(ctx context.Context, publishers []*publisher, loop func(context.Context, *publisher) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	for _, p := range publishers {
		wg.Go(func() {
			if err := loop(ctx, p); err != nil {
				stop(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
