package engine

import (
	"context"
	"log/slog"
	"path/filepath"

	"felix.local/felix/recovery"
)

// tellRecovered counts what opening a log did to its files, and gives each change
// and each warning a line in the log. Nothing of a shard goes without a trace: what
// was cut is named with its place and its side copy, also when the open failed
// after it.
func (s *Store) tellRecovered(dir, label string, r recovery.Report) {
	c := &s.counters
	c.recoveryTruncated.Add(uint64(r.TruncatedBytes))
	c.recoveryBelowMark.Add(uint64(r.TruncatedBelowMark))
	c.recoveryAbandoned.Add(uint64(r.AbandonedRolls))
	c.recoveryIndexRebuilds.Add(uint64(r.IndexRebuilds))
	for _, step := range r.Steps {
		message := "opening a log changed its files"
		if step.BelowMark {
			message = "opening a log cut a tail although bytes are missing that were on the disk"
		}
		s.logger.LogAttrs(context.Background(), stepLevel(step), message, stepAttrs(dir, label, step)...)
	}
	for _, warning := range r.Warnings {
		s.logger.Warn("opening a log found something to look at", "log", label, "dir", dir, "warning", warning)
	}
}

// stepLevel: records may leave the log only with the steps that an error or a warning
// tells of; the others take what is empty, derived or a copy.
func stepLevel(step recovery.Step) slog.Level {
	switch {
	case step.BelowMark:
		return slog.LevelError
	case step.Action == recovery.CutTail, step.Action == recovery.SetAside, step.Action == recovery.DeleteCopied:
		return slog.LevelWarn
	case step.Repair(), step.Action == recovery.PruneSideCopy:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}

// stepAttrs name the place; bytes are those that went.
func stepAttrs(dir, label string, step recovery.Step) []slog.Attr {
	attrs := []slog.Attr{
		slog.String("log", label), slog.String("action", string(step.Action)),
		slog.String("file", filepath.Join(dir, step.File)), slog.String("reason", step.Reason),
	}
	switch step.Action {
	case recovery.CutTail:
		attrs = append(attrs, slog.Int64("position", step.Position), slog.Int64("bytes", step.Cut()))
	case recovery.SetAside, recovery.DeleteSegment, recovery.DeleteCopied:
		attrs = append(attrs, slog.Int64("position", 0), slog.Int64("bytes", step.Size))
	}
	if step.RecordsDropped > 0 {
		attrs = append(attrs, slog.Uint64("records_dropped", step.RecordsDropped))
	}
	if step.SideCopy != "" {
		attrs = append(attrs, slog.String("side_copy", filepath.Join(dir, step.SideCopy)))
	}
	return attrs
}
