package engine

import (
	"io"
	"io/fs"

	"felix.local/felix/device"
)

// limitedFS bounds how many goroutines of a store are inside a namespace call,
// and how many inside a read, at once. Each of them may hold a thread while it
// blocks; ten thousand shards must not become ten thousand threads.
type limitedFS struct {
	device.FS
	names, reads, asks chan struct{}
}

const (
	namesAtOnce = 8
	readsAtOnce = 16
	// asksAtOnce is for the question whether a file takes writes, which a frozen
	// filesystem answers when it thaws.
	asksAtOnce = 8
)

func newLimitedFS(fs device.FS) *limitedFS {
	return &limitedFS{FS: fs, names: make(chan struct{}, namesAtOnce), reads: make(chan struct{}, readsAtOnce), asks: make(chan struct{}, asksAtOnce)}
}

func within[T any](tokens chan struct{}, call func() (T, error)) (T, error) {
	tokens <- struct{}{}
	defer func() { <-tokens }()
	return call()
}

func (f *limitedFS) OpenFile(path string, mode device.OpenMode, perm fs.FileMode) (device.File, error) {
	file, err := within(f.names, func() (device.File, error) { return f.FS.OpenFile(path, mode, perm) })
	if err != nil {
		return nil, err
	}
	return &limitedFile{File: file, fs: f}, nil
}

func (f *limitedFS) OpenDir(path string) (device.File, error) {
	return within(f.names, func() (device.File, error) { return f.FS.OpenDir(path) })
}

func (f *limitedFS) Mkdir(path string, perm fs.FileMode) error {
	_, err := within(f.names, func() (struct{}, error) { return struct{}{}, f.FS.Mkdir(path, perm) })
	return err
}

func (f *limitedFS) Rename(oldPath, newPath string) error {
	_, err := within(f.names, func() (struct{}, error) { return struct{}{}, f.FS.Rename(oldPath, newPath) })
	return err
}

func (f *limitedFS) Remove(path string) error {
	_, err := within(f.names, func() (struct{}, error) { return struct{}{}, f.FS.Remove(path) })
	return err
}

func (f *limitedFS) ReadDir(path string) ([]device.Entry, error) {
	return within(f.names, func() ([]device.Entry, error) { return f.FS.ReadDir(path) })
}

func (f *limitedFS) Lstat(path string) (device.Info, error) {
	return within(f.names, func() (device.Info, error) { return f.FS.Lstat(path) })
}

func (f *limitedFS) Lock(dir string, shared bool) (io.Closer, error) {
	return within(f.names, func() (io.Closer, error) { return f.FS.Lock(dir, shared) })
}

func (f *limitedFS) Space(path string) (device.Space, error) {
	return within(f.names, func() (device.Space, error) { return f.FS.Space(path) })
}

type limitedFile struct {
	device.File
	fs *limitedFS
}

// Unwrap gives the file below, for its descriptor.
func (f *limitedFile) Unwrap() device.File { return f.File }

func (f *limitedFile) ReadAt(p []byte, pos int64) (int, error) {
	f.fs.reads <- struct{}{}
	defer func() { <-f.fs.reads }()
	return f.File.ReadAt(p, pos)
}

func (f *limitedFile) TakesWrites() error {
	f.fs.asks <- struct{}{}
	defer func() { <-f.fs.asks }()
	return f.File.TakesWrites()
}

func (f *limitedFile) Truncate(size int64) error {
	_, err := within(f.fs.names, func() (struct{}, error) { return struct{}{}, f.File.Truncate(size) })
	return err
}
