package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
)

// Floor is what one durable write costs on a device, without any log around
// it. Medians; 0 where it was not measured.
type Floor struct {
	// Bytes is the size of one write, Samples how many were made of each sort.
	// SequentialBytes is that of the writes of Sequential.
	Bytes, Samples, SequentialBytes int
	// Method is "dsync" (one write that is durable when it returns) or
	// "write+flush" where the filesystem does not take such writes.
	Method string
	// Inline is a write that makes a file longer, by the calling thread.
	Inline time.Duration
	// Queue is the same through the I/O backend.
	Queue time.Duration
	// Sequential is a plain write that makes a file longer, and an fdatasync.
	Sequential time.Duration
	// DirectOverwrite is a write over bytes already written, past the page
	// cache: the least a device can do.
	DirectOverwrite time.Duration
}

// FloorOptions say how to measure.
type FloorOptions struct {
	// Dir must be on the device in question and nobody else's meanwhile: a file
	// is made there and removed, and so is one that a killed run left.
	Dir string
	// Bytes per write; 0 is 4096. O_DIRECT asks for multiples of 4096.
	Bytes int
	// Samples per sort of write; 0 is 32.
	Samples int
	// SequentialBytes are written by each write of Sequential, which is not measured
	// when they are 0.
	SequentialBytes int
	// Queue is measured too when not nil.
	Queue device.Queue
}

// floorPrefix is what the names of the files begin with.
const floorPrefix = ".felix-floor-"

// MeasureFloor measures, until the context ends.
func MeasureFloor(ctx context.Context, o FloorOptions) (Floor, error) {
	if o.Bytes == 0 {
		o.Bytes = 4096
	}
	if o.Samples == 0 {
		o.Samples = 32
	}
	if err := removeFloors(o.Dir); err != nil {
		return Floor{}, err
	}
	disk := device.OS()
	path := filepath.Join(o.Dir, fmt.Sprintf("%s%d", floorPrefix, time.Now().UnixNano()))
	file, err := disk.OpenFile(path, device.CreateNew, 0o600)
	if err != nil {
		return Floor{}, err
	}
	defer disk.Remove(path)
	defer file.Close()
	arena := device.NewArena()
	buf, err := arena.Take(o.Bytes)
	if err != nil {
		return Floor{}, err
	}
	defer arena.Close()
	defer arena.Give(buf)
	buf = AppendPayload(buf[:0], 0, max(o.Bytes, PayloadBytesMin))[:o.Bytes]

	m := meter{ctx: ctx, file: file, buf: buf, samples: o.Samples}
	floor := Floor{Bytes: o.Bytes, Samples: o.Samples, SequentialBytes: o.SequentialBytes, Method: "dsync"}
	perform := func(op *device.Op) error { _, err := file.Perform(op); return err }
	floor.Inline, err = m.growing(perform)
	if errors.Is(err, device.ErrUnsupported) {
		m.flush, floor.Method = true, "write+flush"
		floor.Inline, err = m.growing(perform)
	}
	if err != nil {
		return Floor{}, err
	}
	if o.Queue != nil {
		if floor.Queue, err = m.growing(func(op *device.Op) error { return device.Do(o.Queue, op) }); err != nil {
			return Floor{}, err
		}
	}
	floor.DirectOverwrite = m.directOverwrite(path)
	if o.SequentialBytes > 0 {
		m.buf, m.flush = blankPayload(o.SequentialBytes), true
		if floor.Sequential, err = m.growing(perform); err != nil {
			return Floor{}, err
		}
	}
	return floor, ctx.Err()
}

// removeFloors removes the files of runs that were killed.
func removeFloors(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), floorPrefix) && e.Type().IsRegular() {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

type meter struct {
	ctx     context.Context
	file    device.File
	buf     []byte
	samples int
	flush   bool  // write, then flush, instead of one dsync write
	pos     int64 // bytes written so far
}

// growing is the median time of one durable write at the end of the file.
func (m *meter) growing(do func(*device.Op) error) (time.Duration, error) {
	var took []time.Duration
	var write, flush device.Op
	for range m.samples {
		if err := m.ctx.Err(); err != nil {
			return 0, err
		}
		write.Kind, write.File, write.Buf, write.Pos = device.WriteDsync, m.file, m.buf, m.pos
		if m.flush {
			write.Kind = device.Write
		}
		start := time.Now()
		if err := do(&write); err != nil {
			return 0, err
		}
		if m.flush {
			flush.Kind, flush.File = device.Flush, m.file
			if err := do(&flush); err != nil {
				return 0, err
			}
		}
		took = append(took, time.Since(start))
		m.pos += int64(len(m.buf))
	}
	return median(took), nil
}

// directOverwrite is the median time of a write over the file's first bytes past
// the page cache, or 0 where that is not to be had.
func (m *meter) directOverwrite(path string) time.Duration {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_DIRECT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	var took []time.Duration
	for range m.samples {
		if m.ctx.Err() != nil {
			return 0
		}
		start := time.Now()
		n, err := unix.Pwritev2(fd, [][]byte{m.buf}, 0, unix.RWF_DSYNC)
		if err != nil || n != len(m.buf) {
			return 0
		}
		took = append(took, time.Since(start))
	}
	return median(took)
}

func median(took []time.Duration) time.Duration {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)/2]
}
