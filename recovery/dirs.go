package recovery

import (
	"errors"
	"io/fs"
	"path/filepath"

	"felix.local/felix/device"
)

// MakeDirs makes path and every missing directory above it, with perm, and
// returns when all their names are durable. The parent of path is flushed even
// when path exists: an earlier process may have made it and crashed before its
// name was durable, and a record in a directory without a name is lost.
func MakeDirs(disk Disk, path string, perm fs.FileMode) error {
	var missing []string
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		_, err := disk.FS.Lstat(at)
		if err == nil {
			break
		}
		if !device.IsNotExist(err) || filepath.Dir(at) == at {
			return err
		}
		missing = append(missing, at)
	}
	if len(missing) == 0 {
		return disk.flushParent(filepath.Clean(path))
	}
	// From the top down, each name durable before anything is made below it.
	for i := len(missing) - 1; i >= 0; i-- {
		if err := disk.FS.Mkdir(missing[i], perm); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := disk.flushParent(missing[i]); err != nil {
			return err
		}
	}
	return nil
}
