package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/segment"
)

// rootVariable tells a child which root to open.
const rootVariable = "ENGINE_TEST_ROOT"

// openAndAppend opens a root and its log, appends one record and says what the
// disk answered.
func openAndAppend() error {
	cfg := testConfig()
	cfg.Logger = slog.New(slog.DiscardHandler)
	store, err := engine.OpenStore(context.Background(), os.Getenv(rootVariable), cfg)
	if err == nil {
		var log *engine.Log
		if log, err = store.OpenLog(context.Background(), testKey(0)); err == nil {
			_, err = log.Append(context.Background(), engine.Record{Payload: []byte("x")})
		}
		err = errors.Join(err, store.Close(context.Background()))
	}
	var failed *device.Error
	var locked *device.LockedError
	switch {
	case err == nil:
		fmt.Print("fine")
	case errors.As(err, &locked):
		fmt.Printf("locked %s self %v", locked.Dir, locked.Self)
	case errors.As(err, &failed):
		fmt.Printf("%s %s %v %v", failed.Op, failed.Path, failed.Class, errors.Is(err, syscall.EACCES))
	default:
		return err
	}
	return nil
}

// asNobody runs a job as a user without rights; tests that run as one need no
// child for it.
func asNobody(t *testing.T, root string) string {
	t.Helper()
	cmd := child(t, "open and append", rootVariable+"="+root)
	if os.Geteuid() == 0 {
		// The test binary is in a directory that only root may enter.
		b, err := os.ReadFile(cmd.Path)
		if err != nil {
			t.Fatal(err)
		}
		public, err := os.MkdirTemp("", "felix-nobody-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(public) })
		cmd.Path = filepath.Join(public, "test")
		if err := errors.Join(os.Chmod(public, 0o755), os.WriteFile(cmd.Path, b, 0o755)); err != nil {
			t.Fatal(err)
		}
		const nobody = 65534
		cmd.Dir = public
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	out, err := cmd.Output()
	if errors.Is(err, fs.ErrPermission) {
		t.Skip("no process without rights can be started here:", err)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func TestC220WhatMayNotBeOpenedIsNamedWithPathAndOperation(t *testing.T) {
	for _, c := range []struct {
		name   string
		forbid func(root, dir, file string) error
		want   func(root, dir, file string) string
	}{
		{
			"a root without permission to write", func(root, _, _ string) error {
				return errors.Join(os.RemoveAll(filepath.Join(root, testKey(0).DirName())), os.Chmod(root, 0o555))
			},
			func(root, _, _ string) string { return "open " + filepath.Join(root, "run-state.tmp") },
		},
		{
			"a root without permission to enter", func(root, _, _ string) error { return os.Chmod(root, 0o644) },
			func(root, _, _ string) string { return "lstat " + filepath.Join(root, engine.RestoringName) },
		},
		{
			"a shard directory without permission to write", func(_, dir, _ string) error { return os.Chmod(dir, 0o555) },
			func(_, _, _ string) string { return "fine" },
		},
		{
			"a shard directory without permission to list", func(_, dir, _ string) error { return os.Chmod(dir, 0o311) },
			func(_, dir, _ string) string { return "read_dir " + dir },
		},
		{
			"a segment that may only be read", func(_, _, file string) error { return os.Chmod(file, 0o444) },
			func(_, _, file string) string { return "open " + file },
		},
		{
			"a segment of another owner", func(_, _, file string) error { return errors.Join(os.Chmod(file, 0o600), os.Chown(file, 0, 0)) },
			func(_, _, file string) string { return "open " + file },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if os.Geteuid() != 0 && strings.Contains(c.name, "owner") {
				t.Skip("only root can give a file to another owner")
			}
			base, err := os.MkdirTemp("", "felix-row-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(base) })
			if err := os.Chmod(base, 0o777); err != nil {
				t.Fatal(err)
			}
			root := filepath.Join(base, "root")
			if got := asNobody(t, root); got != "fine" {
				t.Fatal(got)
			}
			dir := filepath.Join(root, testKey(0).DirName())
			file := filepath.Join(dir, segment.LogName(0))
			if err := c.forbid(root, dir, file); err != nil {
				t.Fatal(err)
			}
			got := asNobody(t, root)
			_ = os.Chmod(root, 0o755)
			_ = os.Chmod(dir, 0o755)
			want := c.want(root, dir, file)
			if !strings.Contains(got, want) || want != "fine" && !strings.HasSuffix(got, " read-only true") {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestC221ARootBehindASymbolicLinkWorks(t *testing.T) {
	base := t.TempDir()
	real, link := filepath.Join(base, "real"), filepath.Join(base, "link")
	if err := errors.Join(os.Mkdir(real, 0o750), os.Symlink(real, link)); err != nil {
		t.Fatal(err)
	}
	r := newRigIn(t, link)
	r.appendSizes(10, 20)
	// One lock, whichever way the root is named.
	_, err := engine.OpenStore(r.ctx, real, r.cfg)
	errorAs[*device.LockedError](t, err)
	r.close()
	r.root = real
	r.open()
	if n := len(r.readAll()); n != 2 {
		t.Fatalf("%d records through the other name", n)
	}
}

func TestC221ARootThatIsDeletedPoisonsTheNextCommit(t *testing.T) {
	eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
		for _, appended := range []bool{true, false} {
			t.Run(fmt.Sprintf("the segment is open %v", appended), func(t *testing.T) {
				r := newRig(t, mode)
				if appended {
					r.appendSizes(10)
				}
				if err := os.RemoveAll(r.root); err != nil {
					t.Fatal(err)
				}
				tail := r.log.TailOffset()
				_, err := r.log.Append(r.ctx, engine.Record{Payload: []byte("into nowhere")})
				if r.cfg.FsyncMode != engine.FsyncOnCommit && err == nil {
					// Acknowledged as being in the page cache, and never as durable.
					err = r.log.Sync(r.ctx)
				}
				errorAs[*engine.PoisonedError](t, err)
				if r.log.DurableOffset() > tail {
					t.Errorf("durable is %d", r.log.DurableOffset())
				}
				if err := r.store.Close(r.ctx); !errors.Is(err, engine.ErrPoisoned) {
					t.Errorf("close: %v", err)
				}
				r.store = nil
			})
		}
	})
}

func TestC221AShardDirectoryThatIsDeletedPoisonsTheNextRoll(t *testing.T) {
	for _, background := range []bool{false, true} {
		r := newRig(t, func(c *engine.Config) {
			c.FsyncMode = engine.FsyncNone
			if background {
				c.RolloverThresholdPercent = 50
			}
		})
		r.appendSizes(1000)
		if err := os.RemoveAll(r.log.Dir()); err != nil {
			t.Fatal(err)
		}
		var err error
		for range 20 {
			if _, err = r.log.Append(r.ctx, engine.Record{Payload: make([]byte, 1000)}); err != nil {
				break
			}
		}
		errorAs[*engine.PoisonedError](t, err)
		_ = r.store.Close(r.ctx)
		r.store = nil
	}
}

func TestC225SegmentIDsEndWithATypedErrorAndTheLogStaysReadable(t *testing.T) {
	r := newRig(t)
	r.appendSizes(1000, 1000)
	r.close()
	dir := filepath.Join(r.root, testKey(0).DirName())
	for _, name := range []func(uint64) string{segment.LogName, segment.IndexName} {
		if err := os.Rename(filepath.Join(dir, name(0)), filepath.Join(dir, name(1<<64-1))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "durable.mark")); err != nil {
		t.Fatal(err)
	}
	r.open()
	r.appendSizes(1000)
	_, err := r.log.Append(r.ctx, engine.Record{Payload: make([]byte, 4000)})
	if e := errorAs[*engine.ExhaustedError](t, err); e.What != "segment ids" {
		t.Errorf("%+v", e)
	}
	if _, err := r.log.Seal(r.ctx); err == nil {
		t.Error("a seal had no id for the next segment, and succeeded")
	} else {
		errorAs[*engine.ExhaustedError](t, err)
	}
	r.checkPayloads(func(uint64) int { return 1000 })
	// What fits is still taken.
	r.appendSizes(500)
	r.reopen()
	if n := len(r.readAll()); n != 4 {
		t.Errorf("%d records", n)
	}
}

func TestC231ARootIsOpenOnlyOnce(t *testing.T) {
	r := newRig(t)
	r.appendSizes(10)
	t.Run("in one process", func(t *testing.T) {
		_, err := engine.OpenStore(r.ctx, r.root, r.cfg)
		if locked := errorAs[*device.LockedError](t, err); !locked.Self {
			t.Errorf("%+v", locked)
		}
	})
	t.Run("in two processes", func(t *testing.T) {
		want := "locked " + r.root + " self false"
		if got := runChild(t, "open and append", rootVariable+"="+r.root); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("whatever file is deleted", func(t *testing.T) {
		entries, err := os.ReadDir(r.root)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !e.IsDir() {
				if err := os.Remove(filepath.Join(r.root, e.Name())); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := runChild(t, "open and append", rootVariable+"="+r.root); !strings.HasPrefix(got, "locked") {
			t.Error(got)
		}
	})
	t.Run("and again once it is closed", func(t *testing.T) {
		r.close()
		if got := runChild(t, "open and append", rootVariable+"="+r.root); got != "fine" {
			t.Error(got)
		}
	})
}
