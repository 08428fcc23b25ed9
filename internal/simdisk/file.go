package simdisk

import (
	"io"
	"io/fs"
	"syscall"

	"felix.local/felix/device"
)

// file is an open file or directory. closed is under Disk.mu.
type file struct {
	disk   *Disk
	inode  *inode
	path   string
	mode   device.OpenMode
	closed bool
}

var _ device.File = (*file)(nil)

// Name is the path the file was opened with.
func (f *file) Name() string { return f.path }

// with runs do on the inode of an open file.
func (f *file) with(op string, pos int64, do func(*inode) error) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.closed {
		return device.NewError(op, f.path, pos, fs.ErrClosed)
	}
	return device.NewError(op, f.path, pos, do(f.inode))
}

// ReadAt follows io.ReaderAt and reads through the page cache.
func (f *file) ReadAt(p []byte, pos int64) (n int, err error) {
	err = f.with("read", pos, func(i *inode) error {
		if i.isDir() {
			return syscall.EISDIR
		}
		if pos < 0 {
			return syscall.EINVAL
		}
		n = i.read(p, pos)
		return nil
	})
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// Size is the current length.
func (f *file) Size() (size int64, err error) {
	err = f.with("size", -1, func(i *inode) error {
		size = i.size
		return nil
	})
	return size, err
}

// Linked reports whether the file has a name now.
func (f *file) Linked() (linked bool, err error) {
	err = f.with("linked", -1, func(i *inode) error {
		linked = i.links > 0
		return nil
	})
	return linked, err
}

// Named reports whether the path leads to the file now.
func (f *file) Named() (named bool, err error) {
	err = f.with("named", -1, func(i *inode) error {
		found, _ := f.disk.lookLocked(f.path)
		named = found == i
		return nil
	})
	return named, err
}

// TakesWrites fails when the file is closed: a simulated disk never stops.
func (f *file) TakesWrites() error {
	return f.with("look for writes", -1, func(*inode) error { return nil })
}

// Truncate sets the length, in the page cache.
func (f *file) Truncate(size int64) error {
	f.disk.before(Change{What: "truncate", Path: f.path, Pos: size})
	return f.with("truncate", size, func(i *inode) error {
		switch {
		case i.isDir() || f.mode == device.ReadOnly:
			return syscall.EINVAL
		case size < 0:
			return syscall.EINVAL
		case size > maxFileBytes:
			return syscall.EFBIG
		}
		f.disk.mu.counts.Truncates++
		i.truncate(size, f.disk.stepLocked())
		return nil
	})
}

// DropCache forgets clean pages from the one that holds pos on.
func (f *file) DropCache(pos int64) error {
	return f.with("drop_cache", pos, func(i *inode) error {
		if pos < 0 {
			return syscall.EINVAL
		}
		f.disk.freezeLocked(i)
		i.drop(pos)
		return nil
	})
}

// Perform runs op whole, at once. Whatever op names is this file, or wraps it.
func (f *file) Perform(op *device.Op) (int, error) {
	op.Pieces = 0
	fl, err := f.disk.issue(f, op)
	if err != nil {
		return 0, err
	}
	op.Pieces = 1
	f.disk.land(fl, len(fl.buf))
	if err := f.disk.settle(fl); err != nil {
		return 0, err
	}
	return fl.landed, nil
}

// fileOf looks through wrappers for the file of a disk.
func fileOf(f device.File) (*file, bool) {
	for f != nil {
		if own, ok := f.(*file); ok {
			return own, true
		}
		u, ok := f.(device.Unwrapper)
		if !ok {
			break
		}
		f = u.Unwrap()
	}
	return nil, false
}

// Close releases the file.
func (f *file) Close() error {
	return f.with("close", -1, func(*inode) error {
		f.closed = true
		return nil
	})
}
