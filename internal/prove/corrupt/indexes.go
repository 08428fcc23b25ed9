package corrupt

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/segment"
)

// indexes are the contents of the indexes of all segments, nil where one is
// missing.
func (w *world) indexes(disk *simdisk.Disk) ([][]byte, error) {
	var all [][]byte
	for _, t := range w.logs {
		b, err := simdisk.ReadFile(disk, filepath.Join(dir, segment.IndexName(t.id)))
		if err != nil && !device.IsNotExist(err) {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

// reopen notes what the indexes are when the undamaged log is opened and closed:
// that of the newest segment may have been unfinished.
func (w *world) reopen() error {
	disk := w.disk.Crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath})
	if err := with(disk, w.o, func(*engine.Log) error { return nil }); err != nil {
		return fmt.Errorf("opening the undamaged log: %w", err)
	}
	var err error
	w.sound, err = w.indexes(disk)
	return err
}

// checkIndexes holds that opening left no index that leads nowhere. One of a
// sealed segment that can be begun with may stay as it was: an entry in front of
// its last one is not looked at, and a reader that is led astray by it starts over.
func (j *judgement) checkIndexes() error {
	after, err := j.indexes(j.disk)
	if err != nil {
		return err
	}
	for place, b := range after {
		if bytes.Equal(b, j.sound[place]) {
			continue
		}
		kept := place < len(j.logs)-1 && bytes.Equal(b, j.before[place])
		if !kept || !usable(b, j.sound[place]) {
			return fmt.Errorf("the index of segment %d was to be made again and is %x, not %x", j.logs[place].id, b, j.sound[place])
		}
	}
	return nil
}

const (
	// indexMagicBytes is how many bytes an index begins with that are the same in
	// all; its base offset lies from indexBaseAt to indexReservedAt.
	indexMagicBytes = 4
	indexBaseAt     = 8
	indexReservedAt = 16
)

// usable says that an index may be taken for one of its segment, and that its last
// entry leads to a record. Opening walks the segment from there.
func usable(got, sound []byte) bool {
	entries := (len(got) - segment.IndexHeaderSize) / segment.IndexEntrySize
	if entries < 1 || !bytes.Equal(got[:indexMagicBytes], sound[:indexMagicBytes]) ||
		!bytes.Equal(got[indexBaseAt:indexReservedAt], sound[indexBaseAt:indexReservedAt]) {
		return false
	}
	last := got[segment.IndexHeaderSize+(entries-1)*segment.IndexEntrySize:][:segment.IndexEntrySize]
	for entry := range slices.Chunk(sound[segment.IndexHeaderSize:], segment.IndexEntrySize) {
		if bytes.Equal(last, entry) {
			return true
		}
	}
	return false
}
