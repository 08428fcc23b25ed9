package victim

import (
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// blockBytes is the filesystem's, and the unit of Arm.Blocks.
const blockBytes = 4096

// directoryBlocks are the blocks of all files in a directory.
func directoryBlocks(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var blocks []uint64
	for _, e := range entries {
		more, err := fileBlocks(filepath.Join(dir, e.Name()), 0)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, more...)
	}
	return blocks, nil
}

// The kernel's struct fiemap, with room for some extents, and its flags.
type (
	fiemapExtent struct {
		Logical, Physical, Length uint64
		_                         [2]uint64
		Flags                     uint32
		_                         [3]uint32
	}
	fiemap struct {
		Start, Length         uint64
		Flags, Mapped, Counts uint32
		_                     uint32
		Extents               [fiemapExtents]fiemapExtent
	}
)

const (
	fiemapExtents = 512
	fiemapIoctl   = 0xc020660b
	// fiemapUnplaced: the extent has no place on the disk yet.
	fiemapUnplaced = 0x2 | 0x4
)

// fileBlocks are the places on the disk of a file's blocks, from one on, reserved ones
// that were never written included.
func fileBlocks(path string, from int64) ([]uint64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only asked
	m := fiemap{Length: ^uint64(0), Counts: fiemapExtents}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), fiemapIoctl, uintptr(unsafe.Pointer(&m))); errno != 0 {
		return nil, fmt.Errorf("%s: where its blocks are: %w", path, errno)
	}
	if m.Mapped == fiemapExtents {
		return nil, fmt.Errorf("%s lies in %d pieces or more", path, fiemapExtents)
	}
	var blocks []uint64
	for _, e := range m.Extents[:m.Mapped] {
		if e.Flags&fiemapUnplaced != 0 {
			return nil, fmt.Errorf("%s: bytes at %d have no place on the disk yet", path, e.Logical)
		}
		for at := uint64(0); at < e.Length; at += blockBytes {
			if e.Logical+at >= uint64(from)*blockBytes {
				blocks = append(blocks, (e.Physical+at)/blockBytes)
			}
		}
	}
	return blocks, nil
}
