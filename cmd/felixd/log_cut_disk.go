package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/sidecar"
)

// rootOf finds the data directory that a shard lies in: the one above it, or the one
// above the part that it lies in. found is false for a shard that lies in none; root is
// the directory above it then.
func rootOf(shard string) (root string, found bool) {
	parent := filepath.Dir(shard)
	if above := filepath.Dir(parent); isPart(filepath.Base(parent)) && isRoot(above) {
		return above, true
	}
	return parent, isRoot(parent)
}

// isRoot says that a directory is one that a store was opened in. Its storage-id alone
// may have been moved away. What cannot be looked at is taken for there.
func isRoot(dir string) bool {
	return slices.ContainsFunc([]string{sidecar.StorageIDName, sidecar.RunStateName, engine.RestoringName}, func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR)
	})
}

// cutDisk is the disk for a command that holds locks across several steps of the
// engine, which takes them for each: what is held already is granted.
//
// Run by root on the directory of a service, it leaves no file that the service cannot
// write: a file that is made gets owner and permissions of the one whose place it takes,
// or the owner of its directory.
type cutDisk struct {
	device.FS
	held map[string]io.Closer
}

func newCutDisk() *cutDisk { return &cutDisk{FS: device.OS(), held: make(map[string]io.Closer)} }

// hold locks a directory until unlock.
func (d *cutDisk) hold(dir string) error {
	lock, err := d.FS.Lock(dir, false)
	if err == nil {
		d.held[dir] = lock
	}
	return err
}

func (d *cutDisk) unlock() error {
	var errs []error
	for _, lock := range d.held {
		errs = append(errs, lock.Close())
	}
	return errors.Join(errs...)
}

// Lock grants what is held.
func (d *cutDisk) Lock(dir string, shared bool) (io.Closer, error) {
	if d.held[dir] != nil {
		return io.NopCloser(nil), nil
	}
	return d.FS.Lock(dir, shared)
}

// OpenFile gives what it makes to whom it belongs, before anything is written to it.
func (d *cutDisk) OpenFile(path string, mode device.OpenMode, perm fs.FileMode) (device.File, error) {
	_, there := os.Lstat(path)
	if there == nil || mode == device.ReadOnly || mode == device.ReadWrite {
		return d.FS.OpenFile(path, mode, perm)
	}
	like, err := modelOf(path)
	if err != nil {
		return nil, device.NewError("open", path, -1, err)
	}
	if !like.IsDir() {
		perm = like.Mode().Perm()
	}
	file, err := d.FS.OpenFile(path, mode, perm)
	if err != nil {
		return nil, err
	}
	if err := own(path, like); err != nil {
		return nil, errors.Join(device.NewError("open", path, -1, err), file.Close(), d.FS.Remove(path))
	}
	return file, nil
}

// modelOf is what a file that is to be made takes after: the one that it will replace,
// or its directory. A temporary is called like what it replaces, which has no extension.
func modelOf(path string) (fs.FileInfo, error) {
	if former, temporary := strings.CutSuffix(path, ".tmp"); temporary {
		if info, err := os.Lstat(former); err == nil && info.Mode().IsRegular() {
			return info, nil
		}
	}
	return os.Stat(filepath.Dir(path))
}
