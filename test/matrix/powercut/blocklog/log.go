package blocklog

import (
	"encoding/binary"
	"fmt"
	"io"
)

const (
	magic   = 0x6a736677736872
	version = 1
	// headerBytes is what is used of the sector in front of an operation's data.
	headerBytes = 32
	// sectorBytesMin and Max bound what a log may say of itself.
	sectorBytesMin, sectorBytesMax = 512, 64 << 10
)

// Flags say what an operation was.
type Flags uint64

// The flags.
const (
	Flush Flags = 1 << iota
	FUA
	Discard
	Mark
	knownFlags = Flush | FUA | Discard | Mark
)

// Entry is one operation on the disk.
type Entry struct {
	// Sector is the first, and Sectors how many, in sectors of the log.
	Sector, Sectors uint64
	Flags           Flags
	// at and bytes are where its data lies in the log.
	at, bytes int64
}

// Log is a log that was read.
type Log struct {
	// SectorBytes is the unit of all positions.
	SectorBytes int64
	Entries     []Entry
	data        io.ReaderAt
}

// FormatError says where a log is not what it should be.
type FormatError struct {
	// Entry is the operation's number, -1 for the log's first sector.
	Entry int
	// Position is in bytes.
	Position int64
	Reason   string
}

// Error names the place.
func (e *FormatError) Error() string {
	return fmt.Sprintf("block write log, operation %d at position %d: %s", e.Entry, e.Position, e.Reason)
}

// Read reads a log of size bytes, of a disk of diskBytes. It stays in use for as long as
// the Log is. What stands behind the number of operations in its first sector is left
// out: that number is brought up to date with each flush.
func Read(data io.ReaderAt, size, diskBytes int64) (*Log, error) {
	var b [headerBytes]byte
	if _, err := data.ReadAt(b[:], 0); err != nil {
		return nil, &FormatError{-1, 0, err.Error()}
	}
	le := binary.LittleEndian
	count, sector := le.Uint64(b[16:]), int64(le.Uint32(b[24:]))
	switch {
	case le.Uint64(b[:]) != magic:
		return nil, &FormatError{-1, 0, fmt.Sprintf("the magic number is %#x", le.Uint64(b[:]))}
	case le.Uint64(b[8:]) != version:
		return nil, &FormatError{-1, 8, fmt.Sprintf("the version is %d", le.Uint64(b[8:]))}
	case sector < sectorBytesMin || sector > sectorBytesMax || sector&(sector-1) != 0:
		return nil, &FormatError{-1, 24, fmt.Sprintf("sectors of %d bytes", sector)}
	case count > uint64(size/sector):
		return nil, &FormatError{-1, 16, fmt.Sprintf("%d operations in %d bytes", count, size)}
	}
	l := &Log{SectorBytes: sector, data: data}
	at := sector
	for i := range int(count) {
		e, next, err := l.read(i, at, size, uint64(diskBytes/sector))
		if err != nil {
			return nil, err
		}
		l.Entries = append(l.Entries, e)
		at = next
	}
	return l, nil
}

// read reads the entry at a position and says where the next one begins.
func (l *Log) read(i int, at, size int64, diskSectors uint64) (e Entry, next int64, err error) {
	var b [headerBytes]byte
	if _, err := l.data.ReadAt(b[:], at); err != nil {
		return e, 0, &FormatError{i, at, err.Error()}
	}
	le := binary.LittleEndian
	e = Entry{Sector: le.Uint64(b[:]), Sectors: le.Uint64(b[8:]), Flags: Flags(le.Uint64(b[16:])), at: at + l.SectorBytes}
	told := le.Uint64(b[24:])
	switch {
	case e.Flags&^knownFlags != 0:
		return e, 0, &FormatError{i, at, fmt.Sprintf("flags %#x", uint64(e.Flags))}
	case e.Sectors > diskSectors || e.Sector > diskSectors-e.Sectors:
		return e, 0, &FormatError{i, at, fmt.Sprintf("%d sectors at %d of a disk of %d", e.Sectors, e.Sector, diskSectors)}
	case told > uint64(size):
		return e, 0, &FormatError{i, at, fmt.Sprintf("%d bytes of data", told)}
	}
	switch {
	case e.Flags&Mark != 0:
		e.bytes = int64(told)
	case e.Flags&Discard == 0:
		e.bytes = int64(e.Sectors) * l.SectorBytes
	}
	next = e.at + (e.bytes+l.SectorBytes-1)/l.SectorBytes*l.SectorBytes
	if next > size {
		return e, 0, &FormatError{i, at, fmt.Sprintf("%d bytes of data end behind the log, at %d", e.bytes, next)}
	}
	return e, next, nil
}

// writes says that an operation puts its data on the disk.
func (e Entry) writes() bool { return e.Flags&(Discard|Mark) == 0 && e.Sectors > 0 }

// Read gives the data of an operation.
func (l *Log) Read(i int) ([]byte, error) {
	e := l.Entries[i]
	b := make([]byte, e.bytes)
	if n, err := l.data.ReadAt(b, e.at); n < len(b) {
		return nil, &FormatError{i, e.at, err.Error()}
	}
	return b, nil
}

// LastAt is the number of the last write before a moment that began at a sector.
func (l *Log) LastAt(sector uint64, before int) (i int, ok bool) {
	for i = before - 1; i >= 0; i-- {
		if e := l.Entries[i]; e.Sector == sector && e.writes() {
			return i, true
		}
	}
	return 0, false
}
