package engine

import (
	"errors"
	"fmt"
	"path/filepath"

	"felix.local/felix/device"
	"felix.local/felix/segment"
	"felix.local/felix/sidecar"
)

// CheckKeysIndex reads keys.idx in the directory of a log of these segments, oldest
// first, and says why it is of no use to whoever keeps a cache in that log; nil and
// nil when there is none. This engine keeps none: what is of use is left alone.
//
// Offsets do not tell this log from one that was cut back and filled again to the
// same length, so the record in front of what is covered is compared as well.
func CheckKeysIndex(disk device.FS, dir string, segments []segment.Descriptor) (index *sidecar.KeysSummary, problem error) {
	index, err := sidecar.LoadKeysIndex(disk, dir)
	switch {
	case errors.Is(err, device.ErrNotRegular):
		return nil, nil // nobody's index
	case index == nil:
		return nil, err
	}
	base, tail := segments[0].BaseOffset, segments[len(segments)-1].NextOffset
	covered := index.CoveredThrough
	switch {
	case covered < base || covered > tail:
		return index, fmt.Errorf("it covers the log up to offset %d, and that is [%d, %d)", covered, base, tail)
	case index.Entries > 0 && (index.OffsetMin < base || index.OffsetMax >= covered):
		return index, fmt.Errorf("its keys lie at offsets %d to %d, and it covers [%d, %d)", index.OffsetMin, index.OffsetMax, base, covered)
	case covered == base:
		return index, nil
	}
	checksum, err := checksumOf(disk, dir, segments, covered-1)
	if err == nil && checksum != index.LastChecksum {
		err = fmt.Errorf("record %d has the checksum %08x, and in the log that it was made of %08x", covered-1, checksum, index.LastChecksum)
	}
	return index, err
}

// checksumOf gives the checksum that stands in a record.
func checksumOf(disk device.FS, dir string, segments []segment.Descriptor, offset uint64) (uint32, error) {
	at := len(segments) - 1
	for segments[at].BaseOffset > offset {
		at--
	}
	d := segments[at]
	file, err := disk.OpenFile(filepath.Join(dir, segment.LogName(d.ID)), device.ReadOnly, 0)
	if err != nil {
		return 0, err
	}
	defer file.Close() // it was read only
	position, err := segment.FindPosition(file, segment.HeaderSize, d.Size, offset)
	if err != nil {
		return 0, err
	}
	b := make([]byte, segment.RecordHeaderSize)
	if _, err := file.ReadAt(b, position); err != nil {
		return 0, err
	}
	h, err := segment.DecodeRecordHeader(b)
	if err == nil && h.Offset != offset {
		err = fmt.Errorf("%s holds no record %d", segment.LogName(d.ID), offset)
	}
	return h.Checksum, err
}

// dropUnfitKeys removes keys.idx, durably, when it is of no use, before the log can
// grow back to what it covers. It runs at open, once the tail is known.
func (l *Log) dropUnfitKeys() error {
	_, problem := CheckKeysIndex(l.store.fs, l.dir, l.Segments())
	if problem == nil {
		return nil
	}
	l.store.logger.Warn("the index of keys is not usable and is removed", "log", l.label, "cause", problem)
	return sidecar.Remove(l.store.fs, l.store.queue, l.dir, sidecar.KeysIndexName)
}
