package sidecar

import (
	"errors"
	"io/fs"
	"testing"

	"felix.local/felix/device"
)

// lostQueue carries ops out itself, but for one kind, which it answers as a ring
// that broke: nobody knows what became of the op.
type lostQueue struct {
	device.Queue
	lost device.Kind
}

func (q lostQueue) Submit(ops ...*device.Op) {
	for _, op := range ops {
		op.Prepare()
		if op.Kind == q.lost {
			op.Complete(0, device.NewError(op.Kind.String(), op.File.Name(), -1, device.ErrOutcomeUnknown))
			continue
		}
		op.Complete(op.File.Perform(op))
	}
}

// watchedFS counts what was opened and closed.
type watchedFS struct {
	device.FS
	open *int
}

func (w watchedFS) watch(f device.File, err error) (device.File, error) {
	if err != nil {
		return nil, err
	}
	*w.open++
	return watchedFile{f, w.open}, nil
}

func (w watchedFS) OpenFile(path string, mode device.OpenMode, perm fs.FileMode) (device.File, error) {
	return w.watch(w.FS.OpenFile(path, mode, perm))
}

func (w watchedFS) OpenDir(path string) (device.File, error) { return w.watch(w.FS.OpenDir(path)) }

type watchedFile struct {
	device.File
	open *int
}

func (f watchedFile) Close() error {
	*f.open--
	return f.File.Close()
}

// TestWhatALostBackendMayStillWriteToIsKept: the kernel may go on with an
// operation after the ring is gone, so its file is neither closed nor removed.
func TestWhatALostBackendMayStillWriteToIsKept(t *testing.T) {
	old, replacement := filled('o', 28), filled('n', 28)
	for _, c := range []struct {
		lost  device.Kind
		step  Step
		left  int
		which string
	}{
		{device.Write, StepWrite, 1, "old"},
		{device.Flush, StepFlush, 1, "old"},
		{device.FlushAll, StepDirectory, 1, "new"},
		{device.Allocate, "", 0, "new"}, // none is asked for: nothing is lost
	} {
		t.Run(c.lost.String(), func(t *testing.T) {
			d := newDisk(t, old)
			open := 0
			err := Replace(watchedFS{d, &open}, lostQueue{lost: c.lost}, dir, name, replacement, perm, true)
			if c.step == "" {
				must(t, err)
			} else if told := (*ChangeError)(nil); !errors.As(err, &told) || told.Step != c.step || !errors.Is(err, device.ErrOutcomeUnknown) {
				t.Fatalf("%v", err)
			}
			if open != c.left {
				t.Errorf("%d files are open, want %d", open, c.left)
			}
			if which, err := is(d, old, replacement); err != nil || which != c.which {
				t.Errorf("%q, %v; want %s", which, err, c.which)
			}
			_, err = d.Lstat(dir + "/" + TempName(name))
			if kept := c.lost == device.Write || c.lost == device.Flush; (err == nil) != kept {
				t.Errorf("the temporary: %v", err)
			}
		})
	}
}
