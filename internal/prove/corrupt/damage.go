package corrupt

import (
	"errors"
	"fmt"
	"iter"
	"path/filepath"

	"felix.local/felix/device"
)

// Damage is one thing that is wrong with one file.
type Damage struct {
	// File is a name in the log's directory.
	File string
	// Position is the byte in which a bit is flipped, or the length to which the
	// file is cut.
	Position int64
	// Bit is the bit that is flipped, 0 the lowest; -1 cuts the file.
	Bit int
}

// String says what was done.
func (d Damage) String() string {
	if d.cuts() {
		return fmt.Sprintf("%s cut to %d bytes", d.File, d.Position)
	}
	return fmt.Sprintf("%s with bit %d of byte %d flipped", d.File, d.Bit, d.Position)
}

func (d Damage) cuts() bool { return d.Bit < 0 }

func (d Damage) what() string {
	if d.cuts() {
		return "cut"
	}
	return "flip"
}

const bitsPerByte = 8

// damages lists everything that is done to the files of a world: each bit
// flipped, and each shorter length, as far as the stride wants them.
func (w *world) damages() iter.Seq2[*fileTruth, Damage] {
	return func(yield func(*fileTruth, Damage) bool) {
		n := 0
		taken := func() bool {
			n++
			return (n-1)%w.o.Stride == w.o.Phase%w.o.Stride
		}
		for i := range w.files {
			f := &w.files[i]
			for position := range f.size {
				for bit := range bitsPerByte {
					if taken() && !yield(f, Damage{f.name, position, bit}) {
						return
					}
				}
			}
			for length := range f.size {
				if taken() && !yield(f, Damage{f.name, length, -1}) {
					return
				}
			}
		}
	}
}

// apply does the damage.
func (d Damage) apply(disk device.FS) error {
	path := filepath.Join(dir, d.File)
	f, err := disk.OpenFile(path, device.ReadWrite, 0)
	if err != nil {
		return err
	}
	if d.cuts() {
		return errors.Join(f.Truncate(d.Position), f.Close())
	}
	var b [1]byte
	_, err = f.ReadAt(b[:], d.Position)
	err = errors.Join(err, f.Close())
	if err != nil {
		return err
	}
	b[0] ^= 1 << d.Bit
	return overwrite(disk, path, d.Position, b[:])
}
