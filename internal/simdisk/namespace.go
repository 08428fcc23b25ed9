package simdisk

import (
	"fmt"
	"io/fs"
	"sort"
	"syscall"

	"felix.local/felix/device"
)

// OpenFile opens or makes a regular file.
func (d *Disk) OpenFile(path string, mode device.OpenMode, perm fs.FileMode) (device.File, error) {
	if mode == device.CreateNew || mode == device.OpenOrCreate {
		d.before(Change{What: "create", Path: path})
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	found, err := d.openLocked(path, mode, perm)
	if err != nil {
		return nil, device.NewError("open", path, -1, err)
	}
	return &file{disk: d, inode: found, path: path, mode: mode}, nil
}

func (d *Disk) openLocked(path string, mode device.OpenMode, perm fs.FileMode) (*inode, error) {
	found, err := d.lookLocked(path)
	switch {
	case err == nil && mode == device.CreateNew:
		return nil, syscall.EEXIST
	case err == nil && found.isDir():
		return nil, fmt.Errorf("%w, it is a directory", device.ErrNotRegular)
	case err == nil:
		return found, nil
	case err != syscall.ENOENT || mode != device.CreateNew && mode != device.OpenOrCreate:
		return nil, err
	}
	dir, base, err := d.parentLocked(path)
	if err != nil {
		return nil, err
	}
	made := d.newInodeLocked(perm.Perm())
	d.setLocked(dir, base, made)
	d.mu.counts.Creates++
	return made, nil
}

// OpenDir opens a directory.
func (d *Disk) OpenDir(path string) (device.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, err := d.dirLocked(path)
	if err != nil {
		return nil, device.NewError("open_dir", path, -1, err)
	}
	return &file{disk: d, inode: found, path: path, mode: device.ReadOnly}, nil
}

func (d *Disk) dirLocked(path string) (*inode, error) {
	found, err := d.lookLocked(path)
	if err == nil && !found.isDir() {
		err = syscall.ENOTDIR
	}
	return found, err
}

// Mkdir makes one directory.
func (d *Disk) Mkdir(path string, perm fs.FileMode) error {
	d.before(Change{What: "mkdir", Path: path})
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.lookLocked(path)
	if err == nil {
		return device.NewError("mkdir", path, -1, syscall.EEXIST)
	}
	dir, base, err := d.parentLocked(path)
	if err != nil {
		return device.NewError("mkdir", path, -1, err)
	}
	d.setLocked(dir, base, d.newInodeLocked(fs.ModeDir|perm.Perm()))
	d.mu.counts.Mkdirs++
	return nil
}

// Rename replaces newPath by oldPath.
func (d *Disk) Rename(oldPath, newPath string) error {
	d.before(Change{What: "rename", Path: oldPath})
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.renameLocked(oldPath, newPath); err != nil {
		return device.NewError("rename", oldPath, -1, fmt.Errorf("to %s: %w", newPath, err))
	}
	d.mu.counts.Renames++
	return nil
}

func (d *Disk) renameLocked(oldPath, newPath string) error {
	moved, err := d.lookLocked(oldPath)
	if err != nil {
		return err
	}
	fromDir, fromBase, err := d.parentLocked(oldPath)
	if err != nil {
		return err
	}
	toDir, toBase, err := d.parentLocked(newPath)
	if err != nil {
		return err
	}
	if moved.isDir() && moved.holds(toDir) {
		return syscall.EINVAL
	}
	if target := toDir.names[toBase]; target != nil && target.now != nil {
		switch replaced := target.now; {
		case replaced == moved:
			return nil
		case replaced.isDir() && !moved.isDir():
			return syscall.EISDIR
		case moved.isDir() && !replaced.isDir():
			return syscall.ENOTDIR
		case replaced.isDir() && !replaced.empty():
			return syscall.ENOTEMPTY
		}
	}
	d.setLocked(fromDir, fromBase, nil)
	d.setLocked(toDir, toBase, moved)
	return nil
}

// holds reports whether other is this directory or lies below it.
func (f *inode) holds(other *inode) bool {
	if f == other {
		return true
	}
	for _, n := range f.names {
		if n.now != nil && n.now.isDir() && n.now.holds(other) {
			return true
		}
	}
	return false
}

func (f *inode) empty() bool {
	for _, n := range f.names {
		if n.now != nil {
			return false
		}
	}
	return true
}

// Remove unlinks a file or an empty directory.
func (d *Disk) Remove(path string) error {
	d.before(Change{What: "remove", Path: path})
	d.mu.Lock()
	defer d.mu.Unlock()
	found, err := d.lookLocked(path)
	var dir *inode
	var base string
	if err == nil {
		dir, base, err = d.parentLocked(path)
	}
	if err == nil && found.isDir() && !found.empty() {
		err = syscall.ENOTEMPTY
	}
	if err != nil {
		return device.NewError("remove", path, -1, err)
	}
	d.setLocked(dir, base, nil)
	d.mu.counts.Removes++
	return nil
}

// ReadDir lists a directory, sorted by name.
func (d *Disk) ReadDir(path string) ([]device.Entry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, err := d.dirLocked(path)
	if err != nil {
		return nil, device.NewError("read_dir", path, -1, err)
	}
	entries := make([]device.Entry, 0, len(found.names))
	for base, n := range found.names {
		if n.now != nil {
			entries = append(entries, device.Entry{Name: base, Type: n.now.mode.Type()})
		}
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].Name < entries[j].Name })
	return entries, nil
}

// Lstat describes a name.
func (d *Disk) Lstat(path string) (device.Info, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, err := d.lookLocked(path)
	if err != nil {
		return device.Info{}, device.NewError("lstat", path, -1, err)
	}
	return device.Info{Mode: found.mode, Size: found.size, Dev: deviceNumber, Ino: found.id}, nil
}

// deviceNumber is that of all simulated disks.
const deviceNumber = 0x5d

// Space reports a disk that is never full: that a disk is full is for faultdisk
// to say.
func (d *Disk) Space(path string) (device.Space, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.lookLocked(path); err != nil {
		return device.Space{}, device.NewError("space", path, -1, err)
	}
	return device.Space{Type: "simdisk", FreeBytes: 1 << 40, FreeInodes: 1 << 30, TotalBytes: 1 << 41}, nil
}
