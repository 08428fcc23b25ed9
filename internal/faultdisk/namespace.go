package faultdisk

import (
	"io"
	"io/fs"

	"felix.local/felix/device"
)

// namespace is the device.FS of a Disk.
type namespace struct{ disk *Disk }

var _ device.FS = namespace{}

// call carries out one call that a fault may hit.
func (n namespace) call(e Event, name string, do func() error, paths ...string) error {
	t := n.disk.begin(e, append(paths, e.Path)...)
	err := device.NewError(name, e.Path, -1, t.hold())
	if err == nil {
		err = do()
	}
	t.end(err)
	return err
}

// OpenFile counts as Create or as Open, by what it is about to do.
func (n namespace) OpenFile(path string, mode device.OpenMode, perm fs.FileMode) (device.File, error) {
	kind := Open
	if mode == device.CreateNew || mode == device.OpenOrCreate && n.missing(path) {
		kind = Create
	}
	var opened device.File
	err := n.call(Event{Kind: kind, Path: path}, "open", func() error {
		inner, err := n.disk.fs.OpenFile(path, mode, perm)
		if err != nil {
			return err
		}
		f := &file{disk: n.disk, inner: inner}
		if n.disk.options.TrackDirty {
			if f.node, err = n.disk.nodeOf(inner, kind == Create); err != nil {
				inner.Close()
				return err
			}
		}
		opened = f
		return nil
	})
	return opened, err
}

func (n namespace) missing(path string) bool {
	_, err := n.disk.fs.Lstat(path)
	return device.IsNotExist(err)
}

func (n namespace) OpenDir(path string) (device.File, error) {
	var opened device.File
	err := n.call(Event{Kind: OpenDir, Path: path}, "open_dir", func() error {
		inner, err := n.disk.fs.OpenDir(path)
		if err == nil {
			opened = &file{disk: n.disk, inner: inner, dir: true}
		}
		return err
	})
	return opened, err
}

func (n namespace) Mkdir(path string, perm fs.FileMode) error {
	return n.call(Event{Kind: Mkdir, Path: path}, "mkdir", func() error { return n.disk.fs.Mkdir(path, perm) })
}

func (n namespace) Rename(oldPath, newPath string) error {
	return n.call(Event{Kind: Rename, Path: oldPath, To: newPath}, "rename",
		func() error {
			err := n.disk.fs.Rename(oldPath, newPath)
			if err == nil && n.disk.options.TrackDirty {
				n.disk.renamed(newPath)
			}
			return err
		}, newPath)
}

func (n namespace) Remove(path string) error {
	return n.call(Event{Kind: Remove, Path: path}, "remove", func() error { return n.disk.fs.Remove(path) })
}

func (n namespace) ReadDir(path string) (entries []device.Entry, err error) {
	err = n.call(Event{Kind: ReadDir, Path: path}, "read_dir", func() error {
		entries, err = n.disk.fs.ReadDir(path)
		return err
	})
	return entries, err
}

func (n namespace) Lstat(path string) (info device.Info, err error) {
	err = n.call(Event{Kind: Lstat, Path: path}, "lstat", func() error {
		info, err = n.disk.fs.Lstat(path)
		return err
	})
	return info, err
}

func (n namespace) Lock(dir string, shared bool) (lock io.Closer, err error) {
	err = n.call(Event{Kind: Lock, Path: dir}, "lock", func() error {
		lock, err = n.disk.fs.Lock(dir, shared)
		return err
	})
	return lock, err
}

func (n namespace) Space(path string) (space device.Space, err error) {
	err = n.call(Event{Kind: Space, Path: path}, "space", func() error {
		space, err = n.disk.fs.Space(path)
		return err
	})
	return space, err
}
