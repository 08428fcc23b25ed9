package engine_test

import (
	"io/fs"
	"syscall"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
)

// noDsyncFS is a filesystem that calls a write with RWF_DSYNC invalid.
type noDsyncFS struct{ device.FS }

func (f noDsyncFS) OpenFile(path string, mode device.OpenMode, perm fs.FileMode) (device.File, error) {
	file, err := f.FS.OpenFile(path, mode, perm)
	if err != nil {
		return nil, err
	}
	return noDsyncFile{file}, nil
}

type noDsyncFile struct{ device.File }

func (f noDsyncFile) Perform(op *device.Op) (int, error) {
	if op.Kind == device.WriteDsync {
		return 0, device.NewError(op.Kind.String(), f.Name(), op.Pos, syscall.EINVAL)
	}
	return f.File.Perform(op)
}

func TestAFilesystemWithoutDsyncWritesServesFromTheFirstOpenOn(t *testing.T) {
	eachMode(t, func(t *testing.T, choose func(*engine.Config)) {
		for _, threshold := range []int{100, 50} {
			r := newRig(t, choose, func(c *engine.Config) {
				c.FS, c.RolloverThresholdPercent = noDsyncFS{device.OS()}, threshold
			})
			if b := r.store.Backend(); b.DsyncWrite {
				t.Fatalf("the backend is taken for one with dsync writes: %+v", b)
			}
			for range 60 {
				r.appendSizes(200)
			}
			if n := len(r.log.Segments()); n < 2 {
				t.Fatalf("%d segments", n)
			}
			if _, err := r.log.Seal(r.ctx); err != nil {
				t.Fatal(err)
			}
			if err := r.log.Truncate(r.ctx, 50); err != nil {
				t.Fatal(err)
			}
			r.reopen()
			if tail := r.log.TailOffset(); tail != 50 {
				t.Fatalf("tail %d", tail)
			}
			r.checkPayloads(func(uint64) int { return 200 })
		}
	})
}
