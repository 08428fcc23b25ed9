package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/segment"
)

// Defaults of a Policy.
const (
	DefaultSideCopiesKept    = 8
	DefaultIndexSpacingBytes = 4096
	DefaultFileMode          = fs.FileMode(0o640)
	DefaultDirMode           = fs.FileMode(0o750)
)

// Policy is what the operator and the log's owner decide. Its zero value is
// safe: strict, with the defaults above.
type Policy struct {
	// RepairChecksumTail lets recovery cut a complete last record that fails
	// its checks although nothing proves that it was never acknowledged.
	RepairChecksumTail bool
	// VerifyAllOnOpen reads every byte of every segment instead of the newest
	// one and the ends of the others.
	VerifyAllOnOpen bool
	// IndexSpacingBytes is the distance between index entries, in bytes of
	// segment data. Indexes written with another distance stay as they are
	// while their segment is sealed. Default 4096.
	IndexSpacingBytes int64
	// PlacedBase is the first offset of a log that has no segment yet.
	PlacedBase uint64
	// SideCopiesKept is how many side copies a directory keeps, newest first.
	// Default 8.
	SideCopiesKept int
	// FileMode and DirMode are the permissions of what is made here. Defaults
	// 0o640 and 0o750.
	FileMode, DirMode fs.FileMode
	// NowMicros is the wall clock, in microseconds since 1970. It names side
	// copies and stamps the header of a fresh segment. Default: the system's.
	NowMicros func() uint64
	// Marked, if set, is called when a segment that may become the active one begins
	// to be read whole, and gives what is called for each intact record with a mark
	// of a producer, in offset order: who wants those of the active segment need not
	// read it again. A segment may be read more than once, and then begins anew. The
	// payload is valid until the call returns. Records past damage are left out, so
	// that what was given is what the segment holds after recovery.
	Marked func(segmentID, base uint64) func(segment.Record)
}

// withDefaults fills what was left at its zero value.
func (p Policy) withDefaults() Policy {
	if p.SideCopiesKept == 0 {
		p.SideCopiesKept = DefaultSideCopiesKept
	}
	if p.IndexSpacingBytes == 0 {
		p.IndexSpacingBytes = DefaultIndexSpacingBytes
	}
	if p.FileMode == 0 {
		p.FileMode = DefaultFileMode
	}
	if p.DirMode == 0 {
		p.DirMode = DefaultDirMode
	}
	if p.NowMicros == nil {
		p.NowMicros = func() uint64 { return uint64(time.Now().UnixMicro()) }
	}
	return p
}

// validate lists everything that is wrong with the policy.
func (p Policy) validate() error {
	var problems []error
	if p.IndexSpacingBytes < 0 {
		problems = append(problems, fmt.Errorf("index spacing is %d bytes; it must be positive", p.IndexSpacingBytes))
	}
	if p.SideCopiesKept < 0 {
		problems = append(problems, fmt.Errorf("side copies kept is %d; it must be positive", p.SideCopiesKept))
	}
	return errors.Join(problems...)
}

// Disk is what recovery works on: names and reads go through FS, writes and
// flushes through Queue.
type Disk struct {
	FS    device.FS
	Queue device.Queue
	// NoDsync says that a write which is durable by itself was tried here and
	// cannot be had; writes are followed by a flush then. Left false, one is
	// submitted, and only an answer of device.ErrUnsupported falls back: EINVAL,
	// which some filesystems give instead, may as well mean a mistake.
	NoDsync bool
	// IndexFailed, when set, hears of an index file that CreateSegment could
	// not make. That fails nothing: an index is rebuilt at the next open.
	IndexFailed func(path string, err error)
}
