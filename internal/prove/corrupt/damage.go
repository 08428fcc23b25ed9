package corrupt

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"felix.local/felix/device"
	"felix.local/felix/internal/simdisk"
)

// Damage is one thing that is wrong with a log's directory.
type Damage struct {
	Kind Kind
	// File is a name in the log's directory.
	File string
	// Position is the byte in which a bit is flipped, the length to which the file
	// is cut, or where the sector or page begins that is overwritten.
	Position int64
	// Bit is the bit that Flip turns, 0 the lowest.
	Bit int
	// From is where the other sector begins, for CopySector and SwapSectors.
	From int64
	// Other is the other file, for CopyFile and SwapFiles.
	Other string
}

// String says what was done.
func (d Damage) String() string {
	switch d.Kind {
	case Flip:
		return fmt.Sprintf("%s with bit %d of byte %d flipped", d.File, d.Bit, d.Position)
	case Cut:
		return fmt.Sprintf("%s cut to %d bytes", d.File, d.Position)
	case ZeroSector, ZeroPage, ZeroEnd:
		return fmt.Sprintf("%s with zeros from %d on (%s)", d.File, d.Position, d.Kind)
	case CopySector:
		return fmt.Sprintf("%s with the sector at %d copied over that at %d", d.File, d.From, d.Position)
	case SwapSectors:
		return fmt.Sprintf("%s with the sectors at %d and %d in each other's place", d.File, d.Position, d.From)
	case RemoveFile:
		return d.File + " removed"
	case CopyFile:
		return fmt.Sprintf("%s copied over %s", d.Other, d.File)
	case SwapFiles:
		return fmt.Sprintf("%s and %s under each other's names", d.File, d.Other)
	}
	return fmt.Sprintf("%s by an unknown kind of damage, %q", d.File, string(d.Kind))
}

// altered gives what a damage within a file makes of its content, in new bytes.
func (d Damage) altered(content []byte) []byte {
	b := bytes.Clone(content)
	switch d.Kind {
	case Flip:
		b[d.Position] ^= 1 << d.Bit
	case Cut:
		b = b[:d.Position]
	case ZeroSector:
		clear(piece(b, d.Position, sectorBytes))
	case ZeroPage:
		clear(piece(b, d.Position, pageBytes))
	case ZeroEnd:
		clear(b[d.Position:])
	case CopySector:
		copy(piece(b, d.Position, sectorBytes), piece(content, d.From, sectorBytes))
	case SwapSectors:
		copy(piece(b, d.Position, sectorBytes), piece(content, d.From, sectorBytes))
		copy(piece(b, d.From, sectorBytes), piece(content, d.Position, sectorBytes))
	}
	return b
}

// piece is a part of a file, shorter where the file ends.
func piece(b []byte, position, size int64) []byte {
	return b[position:min(position+size, int64(len(b)))]
}

// apply does the damage.
func (d Damage) apply(disk device.FS) error {
	path := filepath.Join(dir, d.File)
	if d.Kind == RemoveFile {
		return disk.Remove(path)
	}
	content, err := simdisk.ReadFile(disk, path)
	if err != nil {
		return err
	}
	if !d.Kind.ofTwoFiles() {
		return replace(disk, path, d.altered(content))
	}
	other := filepath.Join(dir, d.Other)
	theirs, err := simdisk.ReadFile(disk, other)
	if err != nil {
		return err
	}
	err = replace(disk, path, theirs)
	if d.Kind == SwapFiles {
		err = errors.Join(err, replace(disk, other, content))
	}
	return err
}

// replace gives a file another content.
func replace(disk device.FS, path string, content []byte) error {
	f, err := disk.OpenFile(path, device.ReadWrite, 0)
	if err != nil {
		return err
	}
	err = f.Truncate(int64(len(content)))
	if err == nil && len(content) > 0 {
		_, err = f.Perform(&device.Op{Kind: device.Write, File: f, Buf: content})
	}
	return errors.Join(err, f.Close())
}

// touches says whether a damage is about a file.
func (d Damage) touches(name string) bool {
	return d.File == name || d.Kind == SwapFiles && d.Other == name
}

// check says what is wrong with a damage to the files of a world.
func (d Damage) check(w *world) error {
	f, found := w.file(d.File)
	other, otherFound := w.file(d.Other)
	switch {
	case !slices.Contains(Kinds(), d.Kind):
		return fmt.Errorf("there is no damage of kind %q", string(d.Kind))
	case !found:
		return fmt.Errorf("there is no file %q", d.File)
	case d.Kind.ofTwoFiles() && (!otherFound || other == f):
		return fmt.Errorf("there is no other file %q", d.Other)
	case !d.Kind.ofFiles() && (d.Position < 0 || d.Position >= f.size),
		d.Kind.ofTwoSectors() && (d.From < 0 || d.From >= f.size):
		return fmt.Errorf("%s has only %d bytes", d.File, f.size)
	case d.Bit < 0 || d.Bit >= bitsPerByte:
		return fmt.Errorf("there is no bit %d", d.Bit)
	}
	return nil
}
