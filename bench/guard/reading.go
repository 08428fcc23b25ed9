package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"time"

	"felix.local/felix/bench"
	"felix.local/felix/bench/internal/rig"
	"felix.local/felix/engine"
	"felix.local/felix/segment"
)

const (
	// readingRate is how much payload is written to be read, in bytes per second of a
	// slice, readingBytesMax the most: 128 MiB for the slice that is the default.
	readingRate     = 320 << 20
	readingBytesMax = 1 << 30
	// chunkBytes are asked for at a time.
	chunkBytes = 1 << 20
)

// readingBytes is how much payload is read for a bar.
func (m measurer) readingBytes() int64 {
	return int64(min(m.slice.Seconds()*readingRate, readingBytesMax))
}

// library is a log that was written and closed, and its segment files.
type library struct {
	dir   string
	files []string
	bytes int64
}

// reader reads a library in one way and says how long it took.
type reader func(ctx context.Context, l library) (time.Duration, error)

// fill writes a log with records of a size.
func (m measurer) fill(ctx context.Context, payloadBytes int) (l library, err error) {
	if l.dir, err = os.MkdirTemp(m.dir, "read-"); err != nil {
		return l, err
	}
	trial := bench.Trial{
		Dir: m.dir, FloorSamples: 1,
		Load: bench.Load{
			Records: max(1, m.readingBytes()/int64(payloadBytes)), PayloadBytes: payloadBytes,
			Batch: max(1, 256<<10/payloadBytes), Concurrency: 1,
		},
		Open: func(ctx context.Context) (*bench.System, error) {
			return bench.OpenLogs(ctx, bench.LogOptions{Dir: l.dir, Config: rig.Config(engine.FsyncNone), Logs: 1, Single: true})
		},
	}
	if _, err = trial.Run(ctx); err != nil {
		return l, err
	}
	if l.files, err = filepath.Glob(filepath.Join(l.dir, "*"+filepath.Ext(segment.LogName(0)))); err != nil {
		return l, err
	}
	for _, path := range l.files {
		info, err := os.Stat(path)
		if err != nil {
			return l, err
		}
		l.bytes += info.Size()
	}
	if l.bytes < trial.Load.Records*int64(payloadBytes) {
		return l, fmt.Errorf("the segments in %s hold %d bytes, fewer than were written", l.dir, l.bytes)
	}
	return l, nil
}

// plain reads all bytes and computes one checksum: what any reader has to do at
// least.
func plain(_ context.Context, l library) (time.Duration, error) {
	buf, sum := make([]byte, chunkBytes), uint32(0)
	began := time.Now()
	for _, path := range l.files {
		err := withFile(path, func(f *os.File, size int64) error {
			for pos := int64(0); pos < size; {
				n, err := f.ReadAt(buf[:min(chunkBytes, size-pos)], pos)
				if n == 0 {
					return err
				}
				sum = crc32.Update(sum, crc32.IEEETable, buf[:n])
				pos += int64(n)
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

// scan checks every record as recovery does.
func scan(_ context.Context, l library) (time.Duration, error) {
	began := time.Now()
	for _, path := range l.files {
		err := withFile(path, func(f *os.File, size int64) error {
			result, err := segment.Scan(f, size, segment.ScanOptions{Spacing: engine.DefaultIndexSpacingBytes})
			if err == nil && result.ValidEnd != size {
				err = fmt.Errorf("%s is valid up to %d of %d bytes", path, result.ValidEnd, size)
			}
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

func withFile(path string, do func(f *os.File, size int64) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() // it was only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return do(f, info.Size())
}

// catchUp reads all records as a subscriber that is far behind does. Opening is not
// counted.
func catchUp(ctx context.Context, l library) (took time.Duration, err error) {
	store, log, err := engine.OpenSingle(ctx, l.dir, "guard", rig.Config(engine.FsyncNone))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close(context.WithoutCancel(ctx))) }()
	memory := make([]byte, chunkBytes+chunkBytes/4)
	began := time.Now()
	for next := log.BaseOffset(); next < log.TailOffset(); {
		page, after, err := log.ReadInto(ctx, next, chunkBytes, engine.DefaultMaxRecordsPerRead, memory)
		if err != nil {
			return 0, err
		}
		if len(page) == 0 {
			return 0, fmt.Errorf("nothing was read at offset %d, below the tail %d", next, log.TailOffset())
		}
		next = after
	}
	return time.Since(began), nil
}

// read fills a library, reads it in two ways by turns, and removes it. Both find it in
// the page cache: what is compared is the code, not the device.
func (m measurer) read(ctx context.Context, payloadBytes int, ways ...reader) (seconds [][]float64, bytes int64, err error) {
	l, err := m.fill(ctx, payloadBytes)
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	if err != nil {
		return nil, 0, err
	}
	seconds = make([][]float64, len(ways))
	for range m.rounds + 1 {
		for i, way := range ways {
			took, err := way(ctx, l)
			if err != nil {
				return nil, 0, err
			}
			seconds[i] = append(seconds[i], took.Seconds())
		}
	}
	for i := range seconds {
		seconds[i] = seconds[i][1:] // the first round was warm-up
	}
	return seconds, l.bytes, nil
}

// reading is the speed of a way to read by that of reading alone.
func (m measurer) reading(payloadBytes int, way reader) measure {
	return func(ctx context.Context) (measured, error) {
		seconds, bytes, err := m.read(ctx, payloadBytes, way, plain)
		if err != nil {
			return measured{}, err
		}
		speed := func(seconds []float64) float64 { return float64(bytes) / bench.MedianOf(seconds) / 1e9 }
		out := compared("seconds of the lower bound by seconds", seconds[1], seconds[0])
		out.Detail = fmt.Sprintf("%.1f by %.1f GB/s", speed(seconds[0]), speed(seconds[1]))
		return out, nil
	}
}

// scanSeconds is how long recovery scans a GiB.
func (m measurer) scanSeconds(payloadBytes int) measure {
	return func(ctx context.Context) (measured, error) {
		seconds, bytes, err := m.read(ctx, payloadBytes, scan)
		if err != nil {
			return measured{}, err
		}
		out := measured{Value: bench.MedianOf(seconds[0]) / float64(bytes) * (1 << 30), Unit: "seconds", A: seconds[0]}
		out.Detail = "in the page cache"
		return out, nil
	}
}
