package recovery

import (
	"slices"

	"felix.local/felix/segment"
	"felix.local/felix/sidecar"
)

// Snapshot is what Inspect read of a shard directory: everything Decide needs,
// and nothing it has to believe. Its rendering for people and programs is the
// plan's.
type Snapshot struct {
	// Dir is the directory's path, Label the name of the log in messages.
	Dir   string
	Label string
	// DirMissing says that the directory does not exist.
	DirMissing bool
	// Mark is nil when there is no usable durable.mark.
	Mark *Mark
	// Segments are in ascending order of their ids.
	Segments []Facts
	// OrphanIndexes are index files whose segment does not exist.
	OrphanIndexes []string
	// Leftovers are temporaries of ours that a crash left behind.
	Leftovers []string
	// SideCopies are what earlier recoveries cut off or set aside.
	SideCopies []string
	// Sidecars are files of the layers above.
	Sidecars []string
	// Offload names the segments that have a copy in the object store;
	// OffloadProblem is why the file that says so cannot be read.
	Offload        sidecar.Offload
	OffloadProblem error
	// Foreign are names that are not ours; they are left alone.
	Foreign []string
}

// Facts is what was read of one segment. A pointer is nil when that part was not
// looked at, because nothing depended on it.
type Facts struct {
	ID uint64
	// Size is the file's length in bytes.
	Size int64
	// Blank says that no header was ever written: the file is shorter than
	// one, or its first 32 bytes are zero.
	Blank bool
	// Header is valid when HeaderProblem is nil.
	Header        segment.Header
	HeaderProblem *segment.Corruption
	// RestZero says that a file with a blank header holds nothing but zeros
	// behind it.
	RestZero bool
	// End is the walk from the last index entry to the end of the file. It is
	// also nil when the index has no such entry.
	End *Walk
	// Full is the walk over all records.
	Full *Walk
}

// Walk is the outcome of a scan, with the index it would write compared to the
// one on disk.
type Walk struct {
	segment.ScanResult
	// IndexSame says that the index file holds exactly the bytes that the walk
	// would write. It is known for full walks only.
	IndexSame bool
	// HasEntries says that Entries was kept; it is dropped for all but the
	// newest segments, to bound memory.
	HasEntries bool
}

// reachesEnd says that every byte up to the end of the file is an intact record.
func (w *Walk) reachesEnd() bool { return w != nil && w.Damage == nil && w.ValidEnd == w.Size }

// facts gives the facts of a segment, nil when it is not there.
func (s *Snapshot) facts(id uint64) *Facts {
	at, found := slices.BinarySearchFunc(s.Segments, id, func(f Facts, id uint64) int {
		switch {
		case f.ID < id:
			return -1
		case f.ID > id:
			return 1
		default:
			return 0
		}
	})
	if !found {
		return nil
	}
	return &s.Segments[at]
}

// intact says that the segment's records were read and reach the end of the
// file. next is then the offset that follows them.
func (f *Facts) intact() (next uint64, ok bool) {
	switch {
	case f.HeaderProblem != nil:
		return 0, false
	case f.Full.reachesEnd():
		return f.Full.NextOffset, true
	case f.Full == nil && f.End.reachesEnd():
		return f.End.NextOffset, true
	default:
		return 0, false
	}
}
