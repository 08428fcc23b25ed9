package recovery

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"felix.local/felix/device"
)

// copyAside copies [from, to) of a segment to a new side copy and returns when
// the copy and its name are durable. Blocks of zeros are left out, as holes.
// After a failure nothing is left of the copy, as far as the disk lets that
// happen.
func (a *applier) copyAside(file device.File, id uint64, from, to int64) (name string, err error) {
	target, name, err := a.newSideCopy(id)
	if err != nil {
		return "", err
	}
	err = a.fillCopy(target, file, from, to)
	if err = errors.Join(err, target.Close()); err == nil {
		err = a.disk.flushDir(a.dir)
	}
	if err != nil {
		return "", errors.Join(err, a.disk.FS.Remove(filepath.Join(a.dir, name)))
	}
	return name, nil
}

// newSideCopy makes an empty file under a name that is not taken.
func (a *applier) newSideCopy(id uint64) (device.File, string, error) {
	for micros := a.p.NowMicros(); ; micros++ {
		name := sideCopyName(id, micros)
		f, err := a.disk.FS.OpenFile(filepath.Join(a.dir, name), device.CreateNew, a.p.FileMode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		return f, name, err
	}
}

func (a *applier) fillCopy(target, file device.File, from, to int64) error {
	buffer := a.readBuffer()
	for at := from; at < to; {
		n, err := readAvailable(file, buffer[:min(int64(len(buffer)), to-at)], at)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("%s ends before position %d: %w", file.Name(), to, io.ErrUnexpectedEOF)
		}
		if !zeros(buffer[:n]) {
			if err := a.disk.write(target, buffer[:n], at-from); err != nil {
				return err
			}
		}
		at += int64(n)
	}
	if err := target.Truncate(to - from); err != nil {
		return err
	}
	return a.disk.flush(target)
}

// unusedSideCopyName gives a name for a file that is renamed.
func (a *applier) unusedSideCopyName(id uint64) (string, error) {
	for micros := a.p.NowMicros(); ; micros++ {
		name := sideCopyName(id, micros)
		_, err := a.disk.FS.Lstat(filepath.Join(a.dir, name))
		if device.IsNotExist(err) {
			return name, nil
		}
		if err != nil {
			return "", err
		}
	}
}
