package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"felix.local/felix/bench"
	"felix.local/felix/engine"
	"felix.local/felix/segment"
)

const (
	// logRecordBytes is the size of the records of a log that is to be opened, and
	// logBatch of them are appended at once.
	logRecordBytes = 1 << 10
	logBatch       = 256
)

// What was before a log is opened.
const (
	afterStop = "clean stop"
	afterKill = "killed"
)

func (m measurer) logSizeCurve() curve {
	return curve{
		name: "log size", axis: "payload", show: binary,
		columns: []column{
			{"open_ms", "open ms", 1},
			{"seconds_per_gib", "s/GiB", 3},
		},
		about: "Opening a store of one log that has everything in its active segment, in records of 1 KiB, on_commit in segments: after a clean stop, " +
			"and as a process that was killed right after its last append leaves it.",
		measure: func(ctx context.Context, into *lines) error {
			for _, bytes := range m.sizes.logs {
				if err := m.within(func(dir string) error { return m.logSize(ctx, dir, bytes, into) }); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// logSize writes a log, copies it while it is open, and opens both by turns.
func (m measurer) logSize(ctx context.Context, dir string, bytes int64, into *lines) error {
	m.note("log size: making %s", binary(bytes))
	config := segmentsMode.config()
	config.SegmentBytes = 2*bytes + engine.DefaultSegmentBytes
	o := bench.LogOptions{Dir: root(dir), Config: config, Logs: 1}
	killed, beside := filepath.Join(dir, "killed"), filepath.Join(dir, "beside")
	var copying error
	trial := m.trial(
		func(ctx context.Context) (*bench.System, error) { return bench.OpenLogs(ctx, o) },
		bench.Load{Records: max(1, bytes/logRecordBytes), PayloadBytes: logRecordBytes, Batch: logBatch, Concurrency: 1})
	trial.Opened = func(*bench.System) func() {
		return func() {
			copying = errors.Join(copyTree(killed, o.Dir, func(string) bool { return true }), copyTree(beside, killed, isSmall))
		}
	}
	if _, err := trial.Run(ctx); err != nil {
		return err
	}
	if copying != nil {
		return fmt.Errorf("copying the open log: %w", copying)
	}
	for round := range m.rounds {
		for _, before := range []string{afterStop, afterKill} {
			m.note("log size: %s, %s, round %d", binary(bytes), before, round+1)
			root := o.Dir
			if before == afterKill {
				if root = killed; round > 0 {
					if err := putBack(killed, beside); err != nil {
						return err
					}
				}
			}
			took, err := openTime(ctx, root, config, trial.Load.Records)
			if err != nil {
				return err
			}
			into.add(bytes, before, sample{
				"open_ms":         took.Seconds() * 1e3,
				"seconds_per_gib": took.Seconds() / float64(trial.Load.Records*logRecordBytes) * (1 << 30),
			})
		}
	}
	return nil
}

// openTime opens a store with one log, which has so many records in one segment.
func openTime(ctx context.Context, root string, config engine.Config, records int64) (took time.Duration, err error) {
	began := time.Now()
	store, err := engine.OpenStore(ctx, root, config)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close(context.WithoutCancel(ctx))) }()
	log, err := store.OpenLog(ctx, engine.ShardKey{Tenant: "bench", Namespace: "default", Stream: "load"})
	if err != nil {
		return 0, err
	}
	took = time.Since(began)
	if got, segments := log.TailOffset(), len(log.Segments()); got != uint64(records) || segments != 1 {
		return 0, fmt.Errorf("the log in %s ends at offset %d and has %d segments, want %d and one", root, got, segments, records)
	}
	return took, nil
}

// isSmall says that a file is none of those that hold records.
func isSmall(path string) bool {
	_, log := segment.ParseLogName(filepath.Base(path))
	return !log
}

// putBack makes a directory what it was before it was opened. Opening leaves the file
// of records as it is, since none of them is damaged.
func putBack(dir, beside string) error {
	err := eachFile(dir, func(path string) error {
		if !isSmall(path) {
			return nil
		}
		return os.Remove(filepath.Join(dir, path))
	})
	return errors.Join(err, copyTree(dir, beside, isSmall))
}

// copyTree copies the chosen files of a directory into another, durably, so that
// opening them waits for nothing that was written here.
func copyTree(to, from string, chosen func(path string) bool) error {
	return eachFile(from, func(path string) error {
		if !chosen(path) {
			return nil
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, path)), 0o750); err != nil {
			return err
		}
		return copyFile(filepath.Join(to, path), filepath.Join(from, path))
	})
}

// eachFile calls do with the path of every file, relative to the directory.
func eachFile(dir string, do func(path string) error) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		if path, err = filepath.Rel(dir, path); err != nil {
			return err
		}
		return do(path)
	})
}

func copyFile(to, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() // it was only read
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := out.ReadFrom(in); err != nil {
		return err
	}
	return out.Sync()
}
