package faultdisk

import (
	"syscall"

	"felix.local/felix/device"
)

// file wraps an open file or directory.
type file struct {
	disk  *Disk
	inner device.File
	dir   bool
	node  *node // nil unless dirty bytes are tracked
}

var (
	_ device.File      = (*file)(nil)
	_ device.Unwrapper = (*file)(nil)
)

// ownFile finds the Disk's file behind the wrappers that a caller put around it;
// nil when it is not one of a Disk's.
func ownFile(f device.File) *file {
	for f != nil {
		if own, ok := f.(*file); ok {
			return own
		}
		u, ok := f.(device.Unwrapper)
		if !ok {
			return nil
		}
		f = u.Unwrap()
	}
	return nil
}

// Unwrap gives the wrapped file, so that its descriptor can be found.
func (f *file) Unwrap() device.File { return f.inner }

func (f *file) Name() string          { return f.inner.Name() }
func (f *file) Size() (int64, error)  { return f.inner.Size() }
func (f *file) Linked() (bool, error) { return f.inner.Linked() }
func (f *file) Named() (bool, error)  { return f.inner.Named() }
func (f *file) Close() error          { return f.inner.Close() }

// TakesWrites fails from StopTakingWrites on.
func (f *file) TakesWrites() error {
	if errno := f.disk.stopped.Load(); errno != 0 {
		return device.NewError("look for writes", f.Name(), -1, syscall.Errno(errno))
	}
	return f.inner.TakesWrites()
}

// call carries out one call that a fault may hit.
func (f *file) call(e Event, do func() error) error {
	e.Path = f.Name()
	t := f.disk.begin(e, e.Path)
	err := device.NewError(e.Kind.String(), e.Path, e.Pos, t.hold())
	if err == nil {
		err = do()
	}
	t.end(err)
	return err
}

func (f *file) ReadAt(p []byte, pos int64) (n int, err error) {
	err = f.call(Event{Kind: Read, Pos: pos, Len: int64(len(p))}, func() error {
		n, err = f.inner.ReadAt(p, pos)
		return err
	})
	return n, err
}

func (f *file) Truncate(size int64) error {
	return f.call(Event{Kind: Truncate, Pos: size}, func() error {
		err := f.inner.Truncate(size)
		if err == nil && f.node != nil {
			f.node.truncated(size)
		}
		return err
	})
}

func (f *file) DropCache(pos int64) error {
	return f.call(Event{Kind: DropCache, Pos: pos}, func() error { return f.inner.DropCache(pos) })
}

// Perform runs op on the caller's goroutine, which is where a stall holds it.
func (f *file) Perform(op *device.Op) (int, error) {
	c := f.disk.carry(op)
	n, err := c.run(func(shadow *device.Op) (int, error) { return f.inner.Perform(shadow) })
	op.Pieces = c.shadow.Pieces
	return n, err
}
