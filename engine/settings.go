package engine

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RootVariable names the directory a server stores under. The engine takes the
// directory as an argument; the name is here so that there is one list.
const RootVariable = "FELIX_DURABLE_STORAGE_DIR"

// Variable is one environment variable that configures storage.
type Variable struct {
	Name string
	// Default is the value in effect when the variable is unset or blank, as
	// it would be written; empty when there is none.
	Default string
	// Meaning is one line for help and tables, with the unit.
	Meaning string

	field string // the Config field it sets
	parse func(c *Config, text string) error
}

// Variables lists every storage variable in the order documents show them.
func Variables() []Variable {
	return []Variable{
		{
			RootVariable, "", "directory that holds the shards; unset: felixd serve uses ./felix-data", "",
			func(*Config, string) error { return nil },
		},
		{
			"FELIX_DURABLE_FSYNC_MODE", "periodic", "what an acknowledgement means: none, periodic or on_commit", "FsyncMode",
			func(c *Config, text string) (err error) { c.FsyncMode, err = ParseFsyncMode(text); return err },
		},
		duration("FELIX_DURABLE_FSYNC_INTERVAL_MS", "250", "milliseconds between flushes under periodic; set alone it implies periodic", "FsyncInterval",
			time.Millisecond, func(c *Config) *time.Duration { return &c.FsyncInterval }),
		integer("FELIX_DURABLE_SEGMENT_BYTES", "268435456", "bytes at which a segment is rolled", "SegmentBytes",
			func(c *Config) *int64 { return &c.SegmentBytes }),
		integer("FELIX_DURABLE_INDEX_SPACING_BYTES", "4096", "bytes between entries of the sparse index", "IndexSpacingBytes",
			func(c *Config) *int64 { return &c.IndexSpacingBytes }),
		integer("FELIX_DURABLE_MAX_RECORDS_PER_READ", "10000", "records one read returns at most", "MaxRecordsPerRead",
			func(c *Config) *int { return &c.MaxRecordsPerRead }),
		boolean("FELIX_DURABLE_PREALLOCATE", "true", "reserve blocks ahead of the write position", "Preallocate",
			func(c *Config) *bool { return &c.Preallocate }),
		integer("FELIX_DURABLE_ROLLOVER_THRESHOLD_PERCENT", "100", "percent of the segment size at which a background roll starts; 100: roll inline only", "RolloverThresholdPercent",
			func(c *Config) *int { return &c.RolloverThresholdPercent }),
		integer("FELIX_DURABLE_MAX_OVERSHOOT_PERCENT", "100", "percent a segment may grow past its size while a background roll is pending", "MaxOvershootPercent",
			func(c *Config) *int { return &c.MaxOvershootPercent }),
		boolean("FELIX_DURABLE_REPAIR_CHECKSUM_TAIL", "false", "let recovery cut a complete last record that fails its checksum", "RepairChecksumTail",
			func(c *Config) *bool { return &c.RepairChecksumTail }),
		boolean("FELIX_DURABLE_VERIFY_ALL_ON_OPEN", "false", "checksum every segment at start", "VerifyAllOnOpen",
			func(c *Config) *bool { return &c.VerifyAllOnOpen }),
		integer("FELIX_DURABLE_SIDE_COPIES_KEPT", "8", "copies of bytes that recovery cut, kept per shard", "SideCopiesKept",
			func(c *Config) *int { return &c.SideCopiesKept }),
		boolean("FELIX_DURABLE_PRODUCER_DIGESTS", "false", "keep digests of producers' batches in snapshots, which makes them version 2", "ProducerDigests",
			func(c *Config) *bool { return &c.ProducerDigests }),
		duration("FELIX_DURABLE_MARK_SYNC_INTERVAL_MS", "1000", "milliseconds between syncs of a moved log's durable.mark; 0: at rolls and close only", "MarkSyncInterval",
			time.Millisecond, func(c *Config) *time.Duration { return &c.MarkSyncInterval }),
		integer("FELIX_DURABLE_RETENTION_BYTES", "", "bytes per shard above which the oldest sealed segments are deleted; unset: keep all", "RetentionBytes",
			func(c *Config) *int64 { return &c.RetentionBytes }),
		duration("FELIX_DURABLE_RETENTION_SECONDS", "", "seconds after which sealed segments are deleted; unset: keep all", "RetentionAge",
			time.Second, func(c *Config) *time.Duration { return &c.RetentionAge }),
		duration("FELIX_DURABLE_RETENTION_INTERVAL_SECONDS", "60", "seconds between two looks at the retention bounds", "RetentionInterval",
			time.Second, func(c *Config) *time.Duration { return &c.RetentionInterval }),
		integer("FELIX_DURABLE_MIN_FREE_BYTES", "67108864", "bytes free below which appends are refused as full; 0: off", "MinFreeBytes",
			func(c *Config) *int64 { return &c.MinFreeBytes }),
		integer("FELIX_DURABLE_MIN_FREE_INODES", "1024", "inodes free below which appends are refused as full; 0: off", "MinFreeInodes",
			func(c *Config) *int64 { return &c.MinFreeInodes }),
		integer("FELIX_DURABLE_OPEN_SEALED_MAX", "256", "sealed segments kept open for reading, per store", "OpenSealedMax",
			func(c *Config) *int { return &c.OpenSealedMax }),
		integer("FELIX_DURABLE_OPEN_FILES_MAX", "0", "descriptors kept per store; 0: derived from the process's limit", "OpenFilesMax",
			func(c *Config) *int { return &c.OpenFilesMax }),
		integer("FELIX_DURABLE_STAGED_BYTES_MAX", "67108864", "bytes staged and not yet written, per store; appends beyond wait", "StagedBytesMax",
			func(c *Config) *int64 { return &c.StagedBytesMax }),
		integer("FELIX_DURABLE_STAGED_BYTES_PER_LOG_MAX", "16777216", "the same per log", "StagedBytesPerLogMax",
			func(c *Config) *int64 { return &c.StagedBytesPerLogMax }),
		mode("FELIX_DURABLE_FILE_MODE", "0640", "permissions of new files, octal", "FileMode",
			func(c *Config) *fs.FileMode { return &c.FileMode }),
		mode("FELIX_DURABLE_DIR_MODE", "0750", "permissions of new directories, octal", "DirMode",
			func(c *Config) *fs.FileMode { return &c.DirMode }),
		{
			"FELIX_DURABLE_COMMIT_JOURNAL", "auto", "off: each log commits in its segments; auto: on_commit appends of all logs share one journal where it pays; require: share it or refuse to start", "Journal",
			func(c *Config, text string) (err error) { c.Journal, err = ParseJournalMode(text); return err },
		},
		integer("FELIX_DURABLE_COMMIT_JOURNAL_BYTES", "67108864", "bytes of disk the commit journal takes", "JournalBytes",
			func(c *Config) *int64 { return &c.JournalBytes }),
		{
			"FELIX_STORAGE_IO_URING", "1", "1: io_uring, else the blocking pool; 0: the pool; require: io_uring or refuse to start", "IOURing",
			func(c *Config, text string) (err error) { c.IOURing, err = ParseIOURingMode(text); return err },
		},
		integer("FELIX_STORAGE_RING_ENTRIES", "256", "entries of the submission queue", "RingEntries",
			func(c *Config) *int { return &c.RingEntries }),
		integer("FELIX_STORAGE_RING_WORKERS_MAX", "64", "kernel worker threads behind the ring at most; fewer under a limit on threads", "RingWorkersMax",
			func(c *Config) *int { return &c.RingWorkersMax }),
		integer("FELIX_STORAGE_POOL_WORKERS", "32", "operations the blocking pool has under way at most; fewer under a limit on threads", "PoolWorkers",
			func(c *Config) *int { return &c.PoolWorkers }),
	}
}

// ParseConfig makes a Config from variable names and their text. A blank value
// counts as unset. Every unreadable value, every name that is no storage
// variable, and every invalid value or combination is in the one *ConfigError.
func ParseConfig(settings map[string]string) (Config, error) {
	c := DefaultConfig()
	var problems []string
	known := make(map[string]bool)
	set := make(map[string]bool)
	for _, v := range Variables() {
		known[v.Name] = true
		text := strings.TrimSpace(settings[v.Name])
		if text == "" {
			continue
		}
		set[v.Name] = true
		parsed := c
		if err := v.parse(&parsed, text); err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", v.Name, err))
			continue
		}
		c = parsed
	}
	if set["FELIX_DURABLE_FSYNC_INTERVAL_MS"] && !set["FELIX_DURABLE_FSYNC_MODE"] {
		c.FsyncMode = FsyncPeriodic
	}
	var strangers []string
	for name := range settings {
		if !known[name] {
			strangers = append(strangers, name)
		}
	}
	slices.Sort(strangers)
	for _, name := range strangers {
		problems = append(problems, name+": is not a storage variable")
	}
	problems = append(problems, c.problems()...)
	if len(problems) > 0 {
		return Config{}, &ConfigError{Problems: problems}
	}
	return c, nil
}

// variableOf names the variable that sets a field, or "".
func variableOf(field string) string {
	for _, v := range Variables() {
		if v.field == field {
			return v.Name
		}
	}
	return ""
}

func integer[T int | int64](name, byDefault, meaning, field string, at func(*Config) *T) Variable {
	return Variable{name, byDefault, meaning, field, func(c *Config, text string) error {
		n, err := parseInteger(text, boundOf(field))
		*at(c) = T(n)
		return err
	}}
}

func duration(name, byDefault, meaning, field string, unit time.Duration, at func(*Config) *time.Duration) Variable {
	return Variable{name, byDefault, meaning, field, func(c *Config, text string) error {
		n, err := parseInteger(text, boundOf(field).in(unit))
		*at(c) = time.Duration(n) * unit
		return err
	}}
}

func boolean(name, byDefault, meaning, field string, at func(*Config) *bool) Variable {
	return Variable{name, byDefault, meaning, field, func(c *Config, text string) (err error) {
		*at(c), err = parseBool(text)
		return err
	}}
}

func mode(name, byDefault, meaning, field string, at func(*Config) *fs.FileMode) Variable {
	return Variable{name, byDefault, meaning, field, func(c *Config, text string) error {
		bits, err := strconv.ParseUint(strings.TrimPrefix(text, "0o"), 8, 32)
		if err != nil {
			return fmt.Errorf("%q is not an octal file mode such as %s", text, byDefault)
		}
		*at(c) = fs.FileMode(bits)
		return nil
	}}
}

// parseInteger reads a decimal number and never lets it wrap.
func parseInteger(text string, b bound) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch allowed := b.text(func(n int64) string { return strconv.FormatInt(n, 10) }); {
	case err != nil:
		return 0, fmt.Errorf("%q is not a whole number; it must be %s", text, allowed)
	case !b.holds(n):
		return 0, fmt.Errorf("%d must be %s", n, allowed)
	default:
		return n, nil
	}
}

func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "1", "true", "yes", "on":
		return true, nil
	case "0", "false", "no", "off":
		return false, nil
	default:
		return false, fmt.Errorf("%q is not one of 1, true, yes, on, 0, false, no, off", text)
	}
}
