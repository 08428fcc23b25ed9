package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// logLines captures a logger's lines, without their time.
type logLines struct{ bytes.Buffer }

func (b *logLines) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// with gives the lines whose attributes have these values.
func (b *logLines) with(t testing.TB, want map[string]any) (found []map[string]any) {
	t.Helper()
	for line := range strings.Lines(b.String()) {
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		matches := true
		for key, value := range want {
			matches = matches && got[key] == value
		}
		if matches {
			found = append(found, got)
		}
	}
	return found
}

func (b *logLines) wantOne(t testing.TB, want map[string]any) {
	t.Helper()
	if got := b.with(t, want); len(got) != 1 {
		t.Errorf("%d lines with %v, want 1, in\n%s", len(got), want, b)
	}
}

func TestACutBelowTheMarkIsAnErrorInTheLogAndCounted(t *testing.T) {
	r := newRig(t)
	r.appendSizes(80, 80)
	path := filepath.Join(r.log.Dir(), segment.LogName(0))
	r.close()
	// The end of a record that was acknowledged is gone.
	if err := os.Truncate(path, 200); err != nil {
		t.Fatal(err)
	}
	var lines logLines
	r.cfg.Logger = lines.logger()
	r.open()
	if n := r.store.Stats().RecoveryTruncatedBelowMark; n != 1 {
		t.Errorf("%d cuts below the mark are counted, want 1", n)
	}
	lines.wantOne(t, map[string]any{
		"level": "ERROR", "log": testKey(0).Label(), "action": "cut tail", "file": path, "position": 140.0, "bytes": 60.0,
		"side_copy": filepath.Join(r.log.Dir(), r.log.Recovery().SideCopies[0]),
	})
	lines.Reset()
	r.reopen()
	if got := lines.with(t, map[string]any{"log": testKey(0).Label()}); len(got) != 0 {
		t.Errorf("a clean open has these lines: %v", got)
	}
	if n := r.store.Stats().RecoveryTruncatedBelowMark; n != 0 {
		t.Errorf("a clean open counts %d cuts below the mark", n)
	}
}

func TestEveryRepairAndEveryWarningOfAnOpenIsALineInTheLog(t *testing.T) {
	dir := fastDir(t)
	records := damagedShard(t, dir, sharedPool(t))
	var lines logLines
	r := newRigIn(t, dir, func(c *engine.Config) {
		*c = faultConfig(engine.FsyncOnCommit, false)
		c.Logger = lines.logger()
	})
	if tail := r.log.TailOffset(); tail != records {
		t.Fatalf("tail %d, want %d", tail, records)
	}
	label, report := r.log.Label(), r.log.Recovery()
	levels := map[recovery.Action]string{
		recovery.CutTail: "WARN", recovery.SetAside: "WARN", recovery.RebuildIndex: "INFO",
		recovery.RefreshIndex: "DEBUG", recovery.RemoveIndex: "DEBUG", recovery.RemoveLeftover: "DEBUG",
	}
	var seen []recovery.Action
	for _, step := range report.Steps {
		seen = append(seen, step.Action)
		want := map[string]any{
			"level": levels[step.Action], "log": label, "action": string(step.Action),
			"file": filepath.Join(r.log.Dir(), step.File), "reason": step.Reason,
		}
		switch step.Action {
		case recovery.CutTail:
			want["position"], want["bytes"] = float64(step.Position), float64(step.Cut())
		case recovery.SetAside:
			want["bytes"] = float64(step.Size)
		}
		if step.SideCopy != "" {
			want["side_copy"] = filepath.Join(r.log.Dir(), step.SideCopy)
		}
		lines.wantOne(t, want)
	}
	for _, action := range []recovery.Action{recovery.CutTail, recovery.SetAside, recovery.RebuildIndex} {
		if !slices.Contains(seen, action) {
			t.Errorf("%s is not among the steps %v", action, seen)
		}
	}

	// A mark of a later segment is a warning.
	r.close()
	mark := recovery.Mark{Segment: 1 << 20, Synced: 500}.AppendTo(nil)
	if err := os.WriteFile(filepath.Join(dir, testKey(0).DirName(), recovery.MarkName), mark, 0o640); err != nil {
		t.Fatal(err)
	}
	lines.Reset()
	r.open()
	if warnings := r.log.Recovery().Warnings; len(warnings) != 1 {
		t.Fatal(warnings)
	} else {
		lines.wantOne(t, map[string]any{"level": "WARN", "log": label, "warning": warnings[0]})
	}
}

// The next open finds nothing to repair, so what was cut has to be told now.
func TestAnOpenThatFailsAfterACutTellsOfTheCut(t *testing.T) {
	dir := fastDir(t)
	pool := sharedPool(t)
	damagedShard(t, dir, pool)
	var lines logLines
	cfg := faultConfig(engine.FsyncOnCommit, false)
	cfg.Logger = lines.logger()
	w := newFaultWorld(dir, pool, cfg, faultdisk.Options{})
	w.disk.Inject(faultdisk.Fault{Kinds: faultdisk.WriteDsync, Path: named(recovery.MarkName), Errno: syscall.EIO})
	store, _, err := w.open(context.Background())
	if err == nil {
		t.Fatal("the log opened without a mark")
	}
	if n := store.Stats().RecoveryTruncatedBytes; n == 0 {
		t.Error("the cut is not counted")
	}
	lines.wantOne(t, map[string]any{"level": "WARN", "action": "cut tail", "bytes": 70.0})
	if err := store.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
