package corrupt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// world is an undamaged log and the truth about it. Nothing in it changes once it
// was made.
type world struct {
	format Format
	state  State
	o      Options
	disk   *simdisk.Disk
	files  []fileTruth
	logs   []segmentTruth
	// mark is nil when there is none.
	mark *recovery.Mark
	// records are those of all segments.
	records []segment.Record
	// sound are the indexes as they are once the undamaged log was opened.
	sound [][]byte
	// sabotage, when set, does more harm to every image than its damage. It lets
	// a test show that what a broken recovery would do is noticed.
	sabotage func(*simdisk.Disk) error
}

// fileTruth is a file that may be damaged.
type fileTruth struct {
	name string
	size int64
	kind fileKind
	// place is which segment it belongs to, counted from zero.
	place int
}

// fileKind is what a file is for.
type fileKind string

const (
	segmentFile fileKind = "segment"
	indexFile   fileKind = "index"
	markFile    fileKind = "mark"
	// producersFile is the snapshot of producers, which the log can do without.
	producersFile fileKind = "producers"
)

// segmentTruth is what a segment holds.
type segmentTruth struct {
	id      uint64
	version uint16
	content []byte
	// starts are the positions of the records, and last the end of the file.
	starts  []int64
	records []segment.Record
	// first is the number of records in the segments before.
	first int
	// resumed is where the last entry of the index leads: opening a sealed segment
	// walks it from there.
	resumed int64
}

// file finds a file by its name.
func (w *world) file(name string) (*fileTruth, bool) {
	at := slices.IndexFunc(w.files, func(f fileTruth) bool { return f.name == name })
	if at < 0 {
		return nil, false
	}
	return &w.files[at], true
}

// caseOf names an image.
func (w *world) caseOf(d Damage) Case {
	return Case{Format: w.format, State: w.state, SegmentBytes: w.o.SegmentBytes, VerifyAll: w.o.VerifyAll, Damage: d}
}

// newWorld builds a log and looks at what was written.
func newWorld(f Format, s State, o Options) (*world, error) {
	disk, err := build(f, s, o)
	if err != nil {
		return nil, fmt.Errorf("building a log: %w", err)
	}
	w := &world{format: f, state: s, o: o, disk: disk}
	ids, err := segmentIDs(disk)
	if err != nil {
		return nil, err
	}
	for place, id := range ids {
		t, err := readTruth(disk, id)
		if err != nil {
			return nil, err
		}
		if t.version != f.version(place) {
			return nil, fmt.Errorf("segment %d is of version %d, %d was meant to be written", place, t.version, f.version(place))
		}
		t.first = len(w.records)
		w.records = append(w.records, t.records...)
		w.logs = append(w.logs, t)
		w.add(segment.LogName(id), segmentFile, place, int64(len(t.content)))
		if err := w.addIndex(id, place); err != nil {
			return nil, err
		}
	}
	if err := w.readMark(); err != nil {
		return nil, err
	}
	if err := w.addProducers(); err != nil {
		return nil, err
	}
	return w, w.reopen()
}

func (w *world) add(name string, kind fileKind, place int, size int64) {
	w.files = append(w.files, fileTruth{name: name, size: size, kind: kind, place: place})
}

// addIndex takes note of an index, and of its last eight bytes, which are the
// position that it leads to.
func (w *world) addIndex(id uint64, place int) error {
	name := segment.IndexName(id)
	b, err := simdisk.ReadFile(w.disk, filepath.Join(dir, name))
	if err != nil {
		return err
	}
	w.add(name, indexFile, place, int64(len(b)))
	w.logs[place].resumed = int64(binary.BigEndian.Uint64(b[len(b)-8:]))
	return nil
}

// addProducers takes note of the snapshot of producers, which is there once a log rolled.
func (w *world) addProducers() error {
	b, err := simdisk.ReadFile(w.disk, filepath.Join(dir, engine.ProducersName))
	if device.IsNotExist(err) {
		return nil
	}
	w.add(engine.ProducersName, producersFile, 0, int64(len(b)))
	return err
}

func (w *world) readMark() error {
	b, err := simdisk.ReadFile(w.disk, filepath.Join(dir, recovery.MarkName))
	if device.IsNotExist(err) && w.state == Unmarked {
		return nil
	}
	if err != nil {
		return err
	}
	mark, ok := recovery.DecodeMark(b)
	if !ok {
		return fmt.Errorf("the mark of an undamaged log cannot be read: %x", b)
	}
	w.mark = &mark
	w.add(recovery.MarkName, markFile, 0, int64(len(b)))
	return w.checkMark()
}

// checkMark holds that the mark is where the state wants it.
func (w *world) checkMark() error {
	place, low, high := len(w.logs)-1, int64(0), int64(0)
	switch w.state {
	case Closed:
		low = w.logs[place].size()
		high = low
	case Rolling:
		place--
		fallthrough
	default: // somewhere among the records
		low, high = segment.HeaderSize+1, w.logs[place].size()-1
	}
	if w.mark.Segment != w.logs[place].id || w.mark.Synced < low || w.mark.Synced > high {
		return fmt.Errorf("a %s log has the mark %+v", w.state, *w.mark)
	}
	return nil
}

// readTruth walks the records of an undamaged segment.
func readTruth(disk device.FS, id uint64) (segmentTruth, error) {
	t := segmentTruth{id: id}
	content, err := simdisk.ReadFile(disk, filepath.Join(dir, segment.LogName(id)))
	if err != nil {
		return t, err
	}
	t.content = content
	result, err := segment.Scan(bytes.NewReader(content), t.size(), segment.ScanOptions{Each: func(position int64, r segment.Record) error {
		r.Payload = bytes.Clone(r.Payload)
		t.starts, t.records = append(t.starts, position), append(t.records, r)
		return nil
	}})
	if err == nil && result.Damage != nil {
		err = result.Damage.Cause
	}
	t.version = result.Header.Version
	t.starts = append(t.starts, t.size())
	return t, err
}

func (t segmentTruth) size() int64 { return int64(len(t.content)) }

// holding is which record a byte belongs to, counted within the segment; the
// number of records for the position at the end. The position lies behind the
// header.
func (t segmentTruth) holding(position int64) int {
	n := 0
	for t.starts[n+1] <= position {
		if n++; n == len(t.records) {
			break
		}
	}
	return n
}

// vouched is how much of a segment the mark vouches for.
func (w *world) vouched(place int) int64 {
	if w.mark == nil {
		return 0
	}
	return min(w.mark.SyncedThrough(w.logs[place].id), w.logs[place].size())
}
