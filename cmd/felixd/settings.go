package main

import (
	"maps"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"

	"felix.local/felix/engine"
)

// recoveryFlags are the settings that change what opening a log does to it.
type recoveryFlags struct {
	IndexSpacing       string  `name:"index-spacing-bytes" aliases:"index-spacing" env:"FELIX_DURABLE_INDEX_SPACING_BYTES" placeholder:"BYTES" group:"storage" help:"${FELIX_DURABLE_INDEX_SPACING_BYTES}"`
	RepairChecksumTail rawBool `name:"repair-checksum-tail" env:"FELIX_DURABLE_REPAIR_CHECKSUM_TAIL" group:"storage" help:"${FELIX_DURABLE_REPAIR_CHECKSUM_TAIL}"`
	VerifyAllOnOpen    rawBool `name:"verify-all-on-open" env:"FELIX_DURABLE_VERIFY_ALL_ON_OPEN" group:"storage" help:"${FELIX_DURABLE_VERIFY_ALL_ON_OPEN}"`
	SideCopiesKept     string  `name:"side-copies-kept" env:"FELIX_DURABLE_SIDE_COPIES_KEPT" placeholder:"N" group:"storage" help:"${FELIX_DURABLE_SIDE_COPIES_KEPT}"`
}

// storageFlags are all storage settings, as text: flag, variable and help of each
// in one place, judged together by engine.ParseConfig.
type storageFlags struct {
	Fsync                    string  `name:"fsync" env:"FELIX_DURABLE_FSYNC_MODE" placeholder:"none|periodic|on_commit" group:"storage" help:"${FELIX_DURABLE_FSYNC_MODE}"`
	FsyncInterval            string  `name:"fsync-interval-ms" env:"FELIX_DURABLE_FSYNC_INTERVAL_MS" placeholder:"MS" group:"storage" help:"${FELIX_DURABLE_FSYNC_INTERVAL_MS}"`
	SegmentBytes             string  `name:"segment-bytes" env:"FELIX_DURABLE_SEGMENT_BYTES" placeholder:"BYTES" group:"storage" help:"${FELIX_DURABLE_SEGMENT_BYTES}"`
	MaxRecordsPerRead        string  `name:"max-records-per-read" env:"FELIX_DURABLE_MAX_RECORDS_PER_READ" placeholder:"N" group:"storage" help:"${FELIX_DURABLE_MAX_RECORDS_PER_READ}"`
	Preallocate              rawBool `name:"preallocate" env:"FELIX_DURABLE_PREALLOCATE" group:"storage" help:"${FELIX_DURABLE_PREALLOCATE}"`
	NoPreallocate            bool    `name:"no-preallocate" xor:"preallocate" group:"storage" help:"the same as --preallocate=false"`
	RolloverThresholdPercent string  `name:"rollover-threshold-percent" env:"FELIX_DURABLE_ROLLOVER_THRESHOLD_PERCENT" placeholder:"PERCENT" group:"storage" help:"${FELIX_DURABLE_ROLLOVER_THRESHOLD_PERCENT}"`
	MaxOvershootPercent      string  `name:"max-overshoot-percent" env:"FELIX_DURABLE_MAX_OVERSHOOT_PERCENT" placeholder:"PERCENT" group:"storage" help:"${FELIX_DURABLE_MAX_OVERSHOOT_PERCENT}"`
	recoveryFlags
	CommitJournal        string  `name:"commit-journal" env:"FELIX_DURABLE_COMMIT_JOURNAL" placeholder:"off|auto|require" group:"storage" help:"${FELIX_DURABLE_COMMIT_JOURNAL}"`
	CommitJournalBytes   string  `name:"commit-journal-bytes" env:"FELIX_DURABLE_COMMIT_JOURNAL_BYTES" placeholder:"BYTES" group:"storage" help:"${FELIX_DURABLE_COMMIT_JOURNAL_BYTES}"`
	ProducerDigests      rawBool `name:"producer-digests" env:"FELIX_DURABLE_PRODUCER_DIGESTS" group:"storage" help:"${FELIX_DURABLE_PRODUCER_DIGESTS}"`
	MarkSyncInterval     string  `name:"mark-sync-interval-ms" env:"FELIX_DURABLE_MARK_SYNC_INTERVAL_MS" placeholder:"MS" group:"storage" help:"${FELIX_DURABLE_MARK_SYNC_INTERVAL_MS}"`
	RetentionBytes       string  `name:"retention-bytes" env:"FELIX_DURABLE_RETENTION_BYTES" placeholder:"BYTES" group:"storage" help:"${FELIX_DURABLE_RETENTION_BYTES}"`
	RetentionSeconds     string  `name:"retention-seconds" env:"FELIX_DURABLE_RETENTION_SECONDS" placeholder:"S" group:"storage" help:"${FELIX_DURABLE_RETENTION_SECONDS}"`
	RetentionInterval    string  `name:"retention-interval-seconds" env:"FELIX_DURABLE_RETENTION_INTERVAL_SECONDS" placeholder:"S" group:"storage" help:"${FELIX_DURABLE_RETENTION_INTERVAL_SECONDS}"`
	MinFreeBytes         string  `name:"min-free-bytes" env:"FELIX_DURABLE_MIN_FREE_BYTES" placeholder:"BYTES" group:"storage" help:"${FELIX_DURABLE_MIN_FREE_BYTES}"`
	MinFreeInodes        string  `name:"min-free-inodes" env:"FELIX_DURABLE_MIN_FREE_INODES" placeholder:"N" group:"storage" help:"${FELIX_DURABLE_MIN_FREE_INODES}"`
	OpenSealedMax        string  `name:"open-sealed-max" env:"FELIX_DURABLE_OPEN_SEALED_MAX" placeholder:"N" group:"storage" help:"${FELIX_DURABLE_OPEN_SEALED_MAX}"`
	OpenFilesMax         string  `name:"open-files-max" env:"FELIX_DURABLE_OPEN_FILES_MAX" placeholder:"N" group:"storage" help:"${FELIX_DURABLE_OPEN_FILES_MAX}"`
	StagedBytesMax       string  `name:"staged-bytes-max" env:"FELIX_DURABLE_STAGED_BYTES_MAX" placeholder:"BYTES" group:"storage" help:"${FELIX_DURABLE_STAGED_BYTES_MAX}"`
	StagedBytesPerLogMax string  `name:"staged-bytes-per-log-max" env:"FELIX_DURABLE_STAGED_BYTES_PER_LOG_MAX" placeholder:"BYTES" group:"storage" help:"${FELIX_DURABLE_STAGED_BYTES_PER_LOG_MAX}"`
	FileMode             string  `name:"file-mode" env:"FELIX_DURABLE_FILE_MODE" placeholder:"OCTAL" group:"storage" help:"${FELIX_DURABLE_FILE_MODE}"`
	DirMode              string  `name:"dir-mode" env:"FELIX_DURABLE_DIR_MODE" placeholder:"OCTAL" group:"storage" help:"${FELIX_DURABLE_DIR_MODE}"`
	backendFlags
}

// backendFlags choose how operations reach the disk.
type backendFlags struct {
	IOURing        string `name:"io-uring" env:"FELIX_STORAGE_IO_URING" placeholder:"1|0|require" group:"storage" help:"${FELIX_STORAGE_IO_URING}"`
	RingEntries    string `name:"ring-entries" env:"FELIX_STORAGE_RING_ENTRIES" placeholder:"N" group:"storage" help:"${FELIX_STORAGE_RING_ENTRIES}"`
	RingWorkersMax string `name:"ring-workers-max" env:"FELIX_STORAGE_RING_WORKERS_MAX" placeholder:"N" group:"storage" help:"${FELIX_STORAGE_RING_WORKERS_MAX}"`
	PoolWorkers    string `name:"pool-workers" env:"FELIX_STORAGE_POOL_WORKERS" placeholder:"N" group:"storage" help:"${FELIX_STORAGE_POOL_WORKERS}"`
}

// rawBool is a flag that may stand alone and whose text engine.ParseConfig reads.
type rawBool string

// IsBool tells kong that the flag needs no value.
func (*rawBool) IsBool() bool { return true }

// Decode keeps a value given with "=" or by the environment as it is.
func (b *rawBool) Decode(ctx *kong.DecodeContext) error {
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		*b = "true"
		return nil
	}
	*b = rawBool(ctx.Scan.Pop().String())
	return nil
}

// config judges the flags; defaults apply where neither flag nor variable is set.
func (f *storageFlags) config(defaults map[string]string) (engine.Config, error) {
	if f.NoPreallocate {
		f.Preallocate = "false"
	}
	if !isBlank(f.FsyncInterval) {
		// Set alone it implies periodic, whatever the command's default is.
		defaults = maps.Clone(defaults)
		delete(defaults, "FELIX_DURABLE_FSYNC_MODE")
	}
	return parse(f, defaults)
}

// choosesFsync says that somebody has said what an acknowledgement is to mean.
func (f *storageFlags) choosesFsync() bool { return !isBlank(f.Fsync) || !isBlank(f.FsyncInterval) }

func (f *recoveryFlags) config() (engine.Config, error) { return parse(f, nil) }

func (f *backendFlags) config() (engine.Config, error) { return parse(f, nil) }

func parse(flags any, defaults map[string]string) (engine.Config, error) {
	settings := maps.Clone(defaults)
	if settings == nil {
		settings = make(map[string]string)
	}
	maps.Copy(settings, given(flags))
	return engine.ParseConfig(settings)
}

// given is the text of every setting that was given by a flag or a variable.
func given(flags any) map[string]string {
	settings := make(map[string]string)
	collect(reflect.ValueOf(flags).Elem(), settings)
	return settings
}

// collect reads the text of every field that has a variable.
func collect(flags reflect.Value, settings map[string]string) {
	for i := range flags.NumField() {
		field := flags.Type().Field(i)
		variable := field.Tag.Get("env")
		switch {
		case field.Anonymous:
			collect(flags.Field(i), settings)
		case variable != "" && !isBlank(flags.Field(i).String()):
			settings[variable] = flags.Field(i).String()
		}
	}
}

func isBlank(text string) bool { return strings.TrimSpace(text) == "" }
