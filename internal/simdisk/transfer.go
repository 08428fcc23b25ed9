package simdisk

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"felix.local/felix/device"
)

// Import copies a directory of the operating system, with all below it, to a
// directory that exists on this disk. Everything counts as durable.
func (d *Disk) Import(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		info, err := e.Info()
		if err != nil {
			return err
		}
		switch {
		case e.IsDir():
			if err := d.Mkdir(target, info.Mode().Perm()); err != nil {
				return err
			}
			d.MakeDir(target)
			err = d.Import(source, target)
		case e.Type().IsRegular():
			err = d.importFile(source, target, info.Mode().Perm())
		default:
			err = fmt.Errorf("%s is neither a file nor a directory", source)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *Disk) importFile(source, target string, perm fs.FileMode) error {
	b, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	opened, err := d.OpenFile(target, device.CreateNew, perm)
	if err != nil {
		return err
	}
	defer opened.Close()
	if _, err := opened.Perform(&device.Op{Kind: device.WriteDsync, File: opened, Buf: b}); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	dir, base, err := d.parentLocked(target)
	if err != nil {
		return err
	}
	n := dir.names[base]
	n.synced, n.reached, n.version = n.now, n.version, 0
	return nil
}

// Export copies a directory of this disk, as it reads back, with all below it, to
// a directory of the operating system, which is made if need be. Holes stay
// holes.
func (d *Disk) Export(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	dir, err := d.dirLocked(from)
	if err != nil {
		return device.NewError("export", from, -1, err)
	}
	return dir.export(to)
}

func (f *inode) export(to string) error {
	if !f.isDir() {
		return f.exportFile(to)
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, base := range sortedNames(f) {
		if n := f.names[base]; n.now != nil {
			if err := n.now.export(filepath.Join(to, base)); err != nil {
				return err
			}
		}
	}
	return os.Chmod(to, f.mode.Perm())
}

func (f *inode) exportFile(to string) (err error) {
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := out.Close(); err == nil {
			err = closeErr
		}
	}()
	for i, ps := range f.pages {
		at := int64(i) * PageBytes
		if ps.cache == nil || at >= f.size {
			continue
		}
		if _, err := out.WriteAt(ps.cache.data[:min(PageBytes, f.size-at)], at); err != nil {
			return err
		}
	}
	if err := out.Truncate(f.size); err != nil {
		return err
	}
	return out.Chmod(f.mode.Perm())
}
