package simdisk

import (
	"io"
	"io/fs"

	"felix.local/felix/device"
)

// recordedFS is the namespace of a Recorder. The real call comes first; the
// model follows when it succeeded.
type recordedFS struct{ *Recorder }

var _ device.FS = recordedFS{}

func (r recordedFS) OpenFile(path string, mode device.OpenMode, perm fs.FileMode) (device.File, error) {
	return r.open(path, func() (device.File, error) { return r.fs.OpenFile(path, mode, perm) },
		func() (device.File, error) { return r.model.OpenFile(path, mode, perm) })
}

func (r recordedFS) OpenDir(path string) (device.File, error) {
	return r.open(path, func() (device.File, error) { return r.fs.OpenDir(path) },
		func() (device.File, error) { return r.model.OpenDir(path) })
}

func (r recordedFS) open(path string, disk, model func() (device.File, error)) (device.File, error) {
	r.names.Lock()
	defer r.names.Unlock()
	inner, err := disk()
	if err != nil {
		return nil, err
	}
	recorded := &recordedFile{recorder: r.Recorder, inner: inner}
	followed, err := model()
	if r.follow(path, err); err == nil {
		recorded.model = followed.(*file)
	}
	return recorded, nil
}

func (r recordedFS) call(path string, disk, model func() error) error {
	r.names.Lock()
	defer r.names.Unlock()
	if err := disk(); err != nil {
		return err
	}
	r.follow(path, model())
	return nil
}

func (r recordedFS) Mkdir(path string, perm fs.FileMode) error {
	return r.call(path, func() error { return r.fs.Mkdir(path, perm) }, func() error { return r.model.Mkdir(path, perm) })
}

func (r recordedFS) Rename(oldPath, newPath string) error {
	return r.call(oldPath, func() error { return r.fs.Rename(oldPath, newPath) },
		func() error { return r.model.Rename(oldPath, newPath) })
}

func (r recordedFS) Remove(path string) error {
	return r.call(path, func() error { return r.fs.Remove(path) }, func() error { return r.model.Remove(path) })
}

func (r recordedFS) ReadDir(path string) ([]device.Entry, error)     { return r.fs.ReadDir(path) }
func (r recordedFS) Lstat(path string) (device.Info, error)          { return r.fs.Lstat(path) }
func (r recordedFS) Lock(dir string, shared bool) (io.Closer, error) { return r.fs.Lock(dir, shared) }
func (r recordedFS) Space(path string) (device.Space, error)         { return r.fs.Space(path) }

// recordedFile is a real file and its model, which is nil when the model does
// not know it.
type recordedFile struct {
	recorder *Recorder
	inner    device.File
	model    *file
}

var (
	_ device.File      = (*recordedFile)(nil)
	_ device.Unwrapper = (*recordedFile)(nil)
)

// Unwrap gives the real file, so that its descriptor can be found.
func (f *recordedFile) Unwrap() device.File { return f.inner }

func (f *recordedFile) Name() string                            { return f.inner.Name() }
func (f *recordedFile) ReadAt(p []byte, pos int64) (int, error) { return f.inner.ReadAt(p, pos) }
func (f *recordedFile) Size() (int64, error)                    { return f.inner.Size() }
func (f *recordedFile) Linked() (bool, error)                   { return f.inner.Linked() }
func (f *recordedFile) Named() (bool, error)                    { return f.inner.Named() }
func (f *recordedFile) TakesWrites() error                      { return f.inner.TakesWrites() }

// both calls the real file and lets the model follow.
func (f *recordedFile) both(call func(device.File) error) error {
	if err := call(f.inner); err != nil {
		return err
	}
	if f.model != nil {
		f.recorder.follow(f.Name(), call(f.model))
	}
	return nil
}

func (f *recordedFile) Truncate(size int64) error {
	return f.both(func(file device.File) error { return file.Truncate(size) })
}

func (f *recordedFile) DropCache(pos int64) error {
	return f.both(func(file device.File) error { return file.DropCache(pos) })
}

func (f *recordedFile) Close() error {
	return f.both(func(file device.File) error { return file.Close() })
}

// Perform runs op on the caller's goroutine.
func (f *recordedFile) Perform(op *device.Op) (int, error) {
	c := f.recorder.begin(f, op)
	n, err := f.inner.Perform(&c.shadow)
	op.Pieces = c.shadow.Pieces
	c.end(n, err)
	return n, err
}

// recordedOf looks through wrappers for the file of a recorder.
func recordedOf(f device.File) *recordedFile {
	for f != nil {
		if own, ok := f.(*recordedFile); ok {
			return own
		}
		u, ok := f.(device.Unwrapper)
		if !ok {
			break
		}
		f = u.Unwrap()
	}
	return nil
}
