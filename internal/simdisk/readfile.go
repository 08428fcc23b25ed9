package simdisk

import (
	"fmt"

	"felix.local/felix/device"
)

// ReadFile reads a whole file of any disk, for looking at what a crash left.
func ReadFile(disk device.FS, path string) ([]byte, error) {
	f, err := disk.OpenFile(path, device.ReadOnly, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n != len(b) {
		return nil, fmt.Errorf("read %d of %d bytes: %w", n, size, err)
	}
	return b, nil
}
