package engine

import (
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/fallback"
	"felix.local/felix/segment"
	"felix.local/felix/uring"
)

// Config is everything a Store can be told. Start from DefaultConfig: a zero
// Config has no segment size and is refused.
type Config struct {
	// FsyncMode is what an acknowledgement means.
	FsyncMode FsyncMode
	// FsyncInterval is the time between flushes under FsyncPeriodic.
	FsyncInterval time.Duration

	// SegmentBytes is the size at which the active segment is rolled.
	SegmentBytes int64
	// IndexSpacingBytes is the distance between two entries of the sparse index.
	IndexSpacingBytes int64
	// MaxRecordsPerRead bounds the records one read returns, because its byte
	// budget does not bound records without a payload.
	MaxRecordsPerRead int
	// Preallocate reserves blocks ahead of the write position.
	Preallocate bool
	// RolloverThresholdPercent of SegmentBytes starts a background roll; 100
	// rolls inline only.
	RolloverThresholdPercent int
	// MaxOvershootPercent is how far past SegmentBytes a segment may grow while
	// its successor is being prepared.
	MaxOvershootPercent int

	// RepairChecksumTail lets recovery cut a complete last record that fails
	// its checksum. Under FsyncOnCommit that record may have been acknowledged.
	RepairChecksumTail bool
	// VerifyAllOnOpen checks every record of every segment at open.
	VerifyAllOnOpen bool
	// SideCopiesKept is how many copies of bytes that recovery cut are kept
	// per shard.
	SideCopiesKept int
	// ProducerDigests keeps a digest of every batch of an idempotent producer in
	// the snapshots of producers, so that a sequence that is used again for other
	// records is noticed after a restart too. Builds of Felix that know the first
	// version of the snapshot only read the log anew for it.
	ProducerDigests bool
	// MarkSyncInterval is how often the durable mark of a log that moved is
	// itself made durable; 0 leaves it to rolls and to closing.
	MarkSyncInterval time.Duration

	// RetentionBytes deletes the oldest sealed segments of a log that is larger; 0 keeps all.
	RetentionBytes int64
	// RetentionAge deletes sealed segments whose records are all older; 0 keeps all.
	RetentionAge time.Duration
	// RetentionInterval is the time between two looks at the bounds.
	RetentionInterval time.Duration

	// MinFreeBytes and MinFreeInodes make appends fail with ErrFull while the
	// filesystem has less, so that recovery, retention and sidecars can still
	// write; 0 turns the guard off.
	MinFreeBytes, MinFreeInodes int64

	// OpenSealedMax bounds the sealed segments a store keeps open for reading.
	OpenSealedMax int
	// OpenFilesMax bounds all descriptors a store keeps; 0 derives it from
	// RLIMIT_NOFILE.
	OpenFilesMax int
	// StagedBytesMax and StagedBytesPerLogMax bound the bytes that are staged
	// and not yet written, per store and per log. Appends beyond wait; an append
	// larger than the bound is admitted alone.
	StagedBytesMax, StagedBytesPerLogMax int64

	// Journal says whether appends under FsyncOnCommit may commit through one journal
	// for all logs, of JournalBytes on disk.
	Journal      JournalMode
	JournalBytes int64

	// IOURing chooses the I/O backend.
	IOURing IOURingMode
	// RingEntries is the size of the submission queue.
	RingEntries int
	// RingWorkersMax bounds the kernel's worker threads behind the ring.
	RingWorkersMax int
	// PoolWorkers is the most operations the blocking pool has under way.
	PoolWorkers int

	// FileMode and DirMode are the permissions of what the store creates.
	FileMode, DirMode fs.FileMode

	// NodeIncarnation is what the control plane holds for this node, asked for before
	// the store is opened; 0 outside a cluster. When it is ahead of the directory's
	// registration, the directory is older and gets a new storage id.
	NodeIncarnation uint64

	// Random gives the bytes of new ids; nil is the system's.
	Random io.Reader
	// NowMicros is the wall clock, in microseconds since 1970: it stamps records
	// without a timestamp, segment headers and side copies. nil is the system's.
	NowMicros func() uint64
	// Observer is told of events as they happen; nil for none. Its methods must
	// not block.
	Observer Observer
	// Logger receives what an operator should know; nil is slog.Default.
	Logger *slog.Logger
	// FS is the namespace; nil is the operating system.
	FS device.FS
	// Queue carries data-path operations; nil selects one by IOURing. A queue
	// that was passed in is not closed by the store.
	Queue device.Queue
}

// The defaults, and the limits that validation holds.
const (
	DefaultFsyncInterval        = 250 * time.Millisecond
	DefaultSegmentBytes         = 256 << 20
	DefaultIndexSpacingBytes    = 4096
	DefaultMaxRecordsPerRead    = 10_000
	DefaultMaxOvershootPercent  = 100
	DefaultSideCopiesKept       = 8
	DefaultMarkSyncInterval     = time.Second
	DefaultRetentionInterval    = 60 * time.Second
	DefaultMinFreeBytes         = 64 << 20
	DefaultMinFreeInodes        = 1024
	DefaultOpenSealedMax        = 256
	DefaultStagedBytesMax       = 64 << 20
	DefaultStagedBytesPerLogMax = 16 << 20
	DefaultJournalBytes         = 64 << 20
	DefaultRingEntries          = uring.DefaultEntries
	DefaultRingWorkersMax       = uring.DefaultWorkers
	DefaultPoolWorkers          = fallback.WorkersDefault
	DefaultFileMode             = fs.FileMode(0o640)
	DefaultDirMode              = fs.FileMode(0o750)

	// SegmentBytesMin holds a header and one record header.
	SegmentBytesMin = segment.HeaderSize + segment.RecordHeaderSize
	// SegmentBytesMax is the largest file ext4 holds; it also keeps every
	// position far from the end of int64.
	SegmentBytesMax = 16 << 40
	// JournalBytesMin has room in each of the journal's files for some frames.
	JournalBytesMin, JournalBytesMax = 256 << 10, 64 << 30
	// OpenFilesMin is what a store needs to roll one log while it reads.
	OpenFilesMin = 16
	// RingEntriesMin leaves one entry beside the ring's own, RingEntriesMax
	// bounds the memory a ring pins.
	RingEntriesMin, RingEntriesMax = 2, 4096
	// WorkersMax bounds kernel workers and pool workers alike.
	WorkersMax = 1024
)

// DefaultConfig returns the documented defaults.
func DefaultConfig() Config {
	return Config{
		FsyncMode:                FsyncPeriodic,
		FsyncInterval:            DefaultFsyncInterval,
		SegmentBytes:             DefaultSegmentBytes,
		IndexSpacingBytes:        DefaultIndexSpacingBytes,
		MaxRecordsPerRead:        DefaultMaxRecordsPerRead,
		Preallocate:              true,
		RolloverThresholdPercent: 100,
		MaxOvershootPercent:      DefaultMaxOvershootPercent,
		SideCopiesKept:           DefaultSideCopiesKept,
		MarkSyncInterval:         DefaultMarkSyncInterval,
		RetentionInterval:        DefaultRetentionInterval,
		MinFreeBytes:             DefaultMinFreeBytes,
		MinFreeInodes:            DefaultMinFreeInodes,
		OpenSealedMax:            DefaultOpenSealedMax,
		StagedBytesMax:           DefaultStagedBytesMax,
		StagedBytesPerLogMax:     DefaultStagedBytesPerLogMax,
		Journal:                  JournalAuto,
		JournalBytes:             DefaultJournalBytes,
		IOURing:                  IOURingAuto,
		RingEntries:              DefaultRingEntries,
		RingWorkersMax:           DefaultRingWorkersMax,
		PoolWorkers:              DefaultPoolWorkers,
		FileMode:                 DefaultFileMode,
		DirMode:                  DefaultDirMode,
	}
}

// Fsync renders the mode with its interval: none, periodic:250ms, on_commit.
func (c Config) Fsync() string {
	if c.FsyncMode == FsyncPeriodic {
		return fmt.Sprintf("periodic:%dms", c.FsyncInterval.Milliseconds())
	}
	return c.FsyncMode.String()
}

// ConfigError lists everything wrong with a configuration, so that one start is
// enough to learn it all.
type ConfigError struct {
	// Problems are sentences that name the setting, its value and what is allowed.
	Problems []string
}

// Error joins the problems in one line.
func (e *ConfigError) Error() string {
	return "invalid configuration: " + strings.Join(e.Problems, "; ")
}

// Validate reports every invalid value and combination as one *ConfigError.
func (c Config) Validate() error {
	problems := c.problems()
	if len(problems) == 0 {
		return nil
	}
	return &ConfigError{Problems: problems}
}

func (c Config) problems() []string {
	v := validation{bounds: bounds()}
	if c.FsyncMode > FsyncOnCommit {
		v.add("FsyncMode", c.FsyncMode, "is not one of none, periodic, on_commit")
	}
	if c.FsyncMode == FsyncPeriodic && c.FsyncInterval == 0 {
		v.add("FsyncInterval", c.FsyncInterval, "must be above 0 under periodic")
	}
	v.duration("FsyncInterval", c.FsyncInterval)
	v.number("SegmentBytes", c.SegmentBytes)
	v.number("IndexSpacingBytes", c.IndexSpacingBytes)
	v.number("MaxRecordsPerRead", int64(c.MaxRecordsPerRead))
	v.number("RolloverThresholdPercent", int64(c.RolloverThresholdPercent))
	v.number("MaxOvershootPercent", int64(c.MaxOvershootPercent))
	v.number("SideCopiesKept", int64(c.SideCopiesKept))
	v.duration("MarkSyncInterval", c.MarkSyncInterval)

	v.number("RetentionBytes", c.RetentionBytes)
	v.duration("RetentionAge", c.RetentionAge)
	if (c.RetentionBytes > 0 || c.RetentionAge > 0) && c.RetentionInterval == 0 {
		v.add("RetentionInterval", c.RetentionInterval, "must be above 0 while a retention bound is set")
	}
	v.duration("RetentionInterval", c.RetentionInterval)
	v.number("MinFreeBytes", c.MinFreeBytes)
	v.number("MinFreeInodes", c.MinFreeInodes)

	v.number("OpenSealedMax", int64(c.OpenSealedMax))
	v.number("OpenFilesMax", int64(c.OpenFilesMax))
	v.number("StagedBytesPerLogMax", c.StagedBytesPerLogMax)
	v.number("StagedBytesMax", c.StagedBytesMax)
	if c.StagedBytesPerLogMax > c.StagedBytesMax {
		v.add("StagedBytesPerLogMax", c.StagedBytesPerLogMax,
			fmt.Sprintf("must not exceed StagedBytesMax, which is %d", c.StagedBytesMax))
	}

	if c.Journal > JournalRequire {
		v.add("Journal", c.Journal, "is not one of off, auto, require")
	}
	v.number("JournalBytes", c.JournalBytes)
	if c.IOURing > IOURingRequire {
		v.add("IOURing", c.IOURing, "is not one of auto, off, require")
	}
	v.number("RingEntries", int64(c.RingEntries))
	v.number("RingWorkersMax", int64(c.RingWorkersMax))
	v.number("PoolWorkers", int64(c.PoolWorkers))
	v.mode("FileMode", c.FileMode, 0o600)
	v.mode("DirMode", c.DirMode, 0o700)
	return v.problems
}

// validation collects problems; each names the field and the variable that sets it.
type validation struct {
	bounds   map[string]bound
	problems []string
}

func (v *validation) add(field string, value any, reason string) {
	name := field
	if variable := variableOf(field); variable != "" {
		name = variable + " (" + field + ")"
	}
	v.problems = append(v.problems, fmt.Sprintf("%s: %v %s", name, value, reason))
}

func (v *validation) number(field string, value int64) {
	v.within(field, value, func(n int64) string { return strconv.FormatInt(n, 10) })
}

func (v *validation) duration(field string, value time.Duration) {
	v.within(field, int64(value), func(n int64) string { return time.Duration(n).String() })
}

func (v *validation) within(field string, value int64, show func(int64) string) {
	if b := v.bounds[field]; !b.holds(value) {
		v.add(field, show(value), "must be "+b.text(show))
	}
}

// mode refuses permissions under which the store could not use its own files.
func (v *validation) mode(field string, value, owner fs.FileMode) {
	switch {
	case value&^fs.ModePerm != 0:
		v.add(field, fmt.Sprintf("%#o", uint32(value)), "must be permission bits only, at most 0777")
	case value&owner != owner:
		v.add(field, fmt.Sprintf("%#o", uint32(value)), fmt.Sprintf("must leave the owner %#o", uint32(owner)))
	}
}
