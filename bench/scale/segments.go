package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"felix.local/felix/bench"
	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

const (
	// smallSegmentBytes holds one batch of smallBatch records and not two.
	smallSegmentBytes = 4096
	smallBatch        = 16
	// looks is how often something is read of a log that was opened.
	looks = 32
)

func (m measurer) segmentsCurve() curve {
	return curve{
		name: "segments", axis: "segments", show: count,
		columns: []column{
			{"open_ms", "open ms", 1},
			{"heap_kib", "heap KiB", 0},
			{"resident_kib", "RSS KiB", 0},
			{"descriptors", "descriptors", 0},
			{"first_read_us", "first read µs", 0},
			{"read_us", "read µs", 0},
			{"first_time_us", "first time µs", 0},
			{"time_us", "offset for time µs", 0},
			{"page_us", "page µs", 0},
		},
		about: "Segments of 16 records in one shard of a stream, closed cleanly: opening the broker, what that added to memory, reading 16 records " +
			"from the earliest on and looking up the offset for a time, the first of each and the median of 32 after it; and the median of reading a page " +
			"of 1 MiB from the earliest on, for which up to 512 segments are opened.",
		measure: func(ctx context.Context, into *lines) error {
			for _, n := range m.sizes.segments {
				if err := m.within(func(dir string) error { return m.segments(ctx, dir, n, into) }); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (m measurer) segments(ctx context.Context, dir string, n int, into *lines) error {
	m.note("segments: making %d", n)
	o := bench.BrokerOptions{Dir: root(dir), Broker: brokerConfig(noneMode), Shards: 1}
	o.Broker.Engine.SegmentBytes = smallSegmentBytes
	load := bench.Load{Records: int64(n) * smallBatch, PayloadBytes: payloadBytes, Batch: smallBatch, Concurrency: 1}
	trial := m.trial(func(ctx context.Context) (*bench.System, error) { return bench.OpenBroker(ctx, o) }, load)
	if _, err := trial.Run(ctx); err != nil {
		return err
	}
	var times []uint64
	err := withStream(ctx, o, func(b *broker.Broker, s *broker.Stream) (err error) {
		if got := b.Store().Stats().Segments; got != n {
			return fmt.Errorf("the log has %d segments, %d were to be made", got, n)
		}
		times, err = timesOf(ctx, s, load.Records)
		return err
	})
	for round := range m.rounds {
		if err != nil {
			return err
		}
		m.note("segments: %d, round %d", n, round+1)
		var found sample
		if found, err = segmentsOnce(ctx, o, times, load.Records); err == nil {
			into.add(int64(n), noneMode.name, found)
		}
	}
	return err
}

// segmentsOnce opens the broker and looks at the stream. It has so many records, and
// times are those of some of them.
func segmentsOnce(ctx context.Context, o bench.BrokerOptions, times []uint64, records int64) (sample, error) {
	before, err := held()
	if err != nil {
		return nil, err
	}
	found, began := make(sample), time.Now()
	return found, withStream(ctx, o, func(_ *broker.Broker, s *broker.Stream) error {
		found["open_ms"] = time.Since(began).Seconds() * 1e3
		opened, err := held()
		if err != nil {
			return err
		}
		found["heap_kib"] = kibEach(opened.heap, before.heap, 1)
		found["resident_kib"] = kibEach(opened.resident, before.resident, 1)
		if found["first_read_us"], found["read_us"], err = timed(func(int) error { return readEarliest(ctx, s, smallBatch, records) }); err != nil {
			return err
		}
		if found["first_time_us"], found["time_us"], err = timed(func(i int) error { return lookUp(ctx, s, times[i%len(times)]) }); err != nil {
			return err
		}
		if _, found["page_us"], err = timed(func(int) error { return readEarliest(ctx, s, engine.DefaultMaxRecordsPerRead, records) }); err != nil {
			return err
		}
		looked, err := held()
		found["descriptors"] = float64(looked.descriptors - before.descriptors)
		return err
	})
}

// withStream opens the broker and its stream, lets it be used, and closes it.
func withStream(ctx context.Context, o bench.BrokerOptions, use func(*broker.Broker, *broker.Stream) error) (err error) {
	config := o.Broker
	config.Root = o.Dir
	b, err := broker.Open(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close(context.WithoutCancel(ctx))) }()
	streams := b.Streams()
	if len(streams) != 1 {
		return fmt.Errorf("%s has %d streams, want the one that was made", o.Dir, len(streams))
	}
	stream, err := b.Stream(streams[0].Name)
	if err != nil {
		return err
	}
	return use(b, stream)
}

// timesOf reads the times of records all over a shard, in an order in which neighbours
// are far apart.
func timesOf(ctx context.Context, s *broker.Stream, records int64) (times []uint64, err error) {
	const stride = 13 // has no divisor in common with looks
	for i := range looks {
		offset := uint64(records) * uint64(i*stride%looks) / looks
		page, err := s.Read(ctx, 0, offset, 1, 1)
		if err != nil {
			return nil, err
		}
		if len(page.Records) == 0 {
			return nil, fmt.Errorf("there is no record at offset %d of %d", offset, records)
		}
		times = append(times, page.Records[0].TimestampMicros)
	}
	return times, nil
}

// readEarliest reads a page of up to atMost records, of a stream that has so many.
func readEarliest(ctx context.Context, s *broker.Stream, atMost int, records int64) error {
	want := int(min(int64(atMost), records, pageBytes/payloadBytes))
	page, err := s.Read(ctx, 0, 0, pageBytes, atMost)
	if err == nil && (len(page.Records) != want || page.Records[0].Offset != 0 || page.Next != uint64(records)) {
		err = fmt.Errorf("a page of %d records from the earliest, of a log that ends at %d, want %d of %d", len(page.Records), page.Next, want, records)
	}
	return err
}

// lookUp finds the first record of a time that some record has.
func lookUp(ctx context.Context, s *broker.Stream, micros uint64) error {
	offset, err := s.Resolve(ctx, 0, broker.AtTime(micros))
	if err != nil {
		return err
	}
	page, err := s.Read(ctx, 0, offset, 1, 1)
	if err == nil && (len(page.Records) == 0 || page.Records[0].TimestampMicros != micros) {
		err = fmt.Errorf("offset %d was found for the time %d, which another record has", offset, micros)
	}
	return err
}

// timed does something once, and then some times more: what the first took, and the
// median of the others, in microseconds.
func timed(do func(i int) error) (first, then float64, err error) {
	var took []float64
	for i := range looks + 1 {
		began := time.Now()
		if err := do(i); err != nil {
			return 0, 0, err
		}
		took = append(took, float64(time.Since(began).Nanoseconds())/1e3)
	}
	return took[0], bench.MedianOf(took[1:]), nil
}

// brokerConfig is a broker of the default but for the mode.
func brokerConfig(mode mode) broker.Config {
	config := mode.config()
	return broker.Config{Engine: config, Logger: config.Logger}
}
