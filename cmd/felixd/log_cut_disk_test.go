package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/segment"
)

// inPart moves a shard of a rig's closed root into a part of it.
func inPart(t *testing.T, r *backupRig, part engine.SubRoot, dir string) string {
	t.Helper()
	to := filepath.Join(part.Dir(r.root), filepath.Base(dir))
	if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o750), os.Rename(dir, to)); err != nil {
		t.Fatal(err)
	}
	return to
}

// cutOf runs a cut and gives its event.
func cutOf(t *testing.T, args ...string) (e cutEvent, code int, stderr string) {
	t.Helper()
	var out, complaints bytes.Buffer
	code = run(append([]string{"log"}, args...), &out, &complaints)
	if line := out.Bytes(); len(line) > 0 {
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err, out.String())
		}
	}
	return e, code, complaints.String()
}

// A shard of groups, caches, counters or dead letters lies in the same data directory as
// those of streams: it is locked, and its storage id renewed.
func TestACutInAPartOfARootIsOneOfTheRoot(t *testing.T) {
	for _, part := range engine.SubRoots() {
		t.Run(filepath.Base("./"+string(part)), func(t *testing.T) {
			r := newBackupRig(t)
			l := r.open(0)
			r.append(l, 30)
			dir := l.Dir()
			if err := r.store.Close(r.ctx); err != nil {
				t.Fatal(err)
			}
			if part != engine.StreamShards {
				dir = inPart(t, r, part, dir)
			}
			lock, err := device.OS().Lock(r.root, false)
			if err != nil {
				t.Fatal(err)
			}
			before := engineID(t, r.root)
			for _, dry := range []string{"--dry-run=false", "--dry-run"} {
				if _, code, stderr := cutOf(t, "truncate", dir, "--to", "20", dry); code != exitLocked || !strings.Contains(stderr, r.root) {
					t.Errorf("with the root locked, %s: exit code %d, %s", dry, code, stderr)
				}
			}
			if err := lock.Close(); err != nil {
				t.Fatal(err)
			}
			if e, code, _ := cutOf(t, "truncate", dir, "--to", "20", "--dry-run"); code != 0 || e.Dropped != 10 || e.StorageID != "" || engineID(t, r.root) != before {
				t.Errorf("a dry run: exit code %d, %+v", code, e)
			}
			e, code, stderr := cutOf(t, "truncate", dir, "--to", "20")
			if id := engineID(t, r.root); code != 0 || e.Dropped != 10 || id == before || e.StorageID != id.String() {
				t.Errorf("exit code %d, %+v, storage id %v after %v, %s", code, e, id, before, stderr)
			}
			for _, aside := range []string{filepath.Dir(dir), dir} {
				if _, err := os.Lstat(filepath.Join(aside, "storage-id")); aside != r.root && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s has a storage-id: %v", aside, err)
				}
			}
		})
	}
}

// What is printed is what was carried out, also when the log is not any more what it was
// when it was looked at; and nobody else can change it from then on.
func TestTheFiguresOfACutAreThoseThatWereCarriedOut(t *testing.T) {
	r := newBackupRig(t)
	l := r.open(0)
	r.append(l, 30)
	dir := l.Dir()
	if err := r.store.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	looks := 0
	how := cut{
		"truncate", func(l logBounds, to uint64) (uint64, uint64, error) {
			for _, locked := range []string{r.root, dir} {
				_, err := device.OS().Lock(locked, false)
				var held *device.LockedError
				if !errors.As(err, &held) {
					t.Errorf("%s is not locked: %v", locked, err)
				}
			}
			if looks++; looks == 1 {
				shorten(t, dir)
			}
			return l.base, to, nil
		},
		func(ctx context.Context, l *engine.Log, to uint64) error { return l.Truncate(ctx, to) },
	}
	var out bytes.Buffer
	a := &app{ctx: r.ctx, stdout: &out, stderr: &out, logger: r.cfg.Logger}
	c := cutFlags{Dir: dir, To: 20}
	c.IOURing = "0"
	if err := c.run(a, how); err != nil {
		t.Fatal(err)
	}
	var e cutEvent
	if err := json.Unmarshal(out.Bytes(), &e); err != nil {
		t.Fatal(err, out.String())
	}
	if e.TailBefore != 29 || e.TailOffset != 20 || e.Dropped != 9 || looks != 2 {
		t.Errorf("after %d looks: %+v", looks, e)
	}
}

// shorten takes the last byte of a log.
func shorten(t *testing.T, dir string) {
	t.Helper()
	var newest string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, is := segment.ParseLogName(e.Name()); is {
			newest = filepath.Join(dir, e.Name())
		}
	}
	info, err := os.Stat(newest)
	if err == nil {
		err = os.Truncate(newest, info.Size()-1)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Run by root on the directory of a service, a cut leaves nothing that the service could
// not write.
func TestACutByRootLeavesTheDirectoryToItsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: who else runs it is the owner of what it makes")
	}
	const uid, gid = 12345, 23456
	r := newBackupRig(t)
	l := r.open(0)
	r.append(l, 30)
	dir := l.Dir()
	if err := r.store.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(r.root, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, uid, gid))
	})
	if err := errors.Join(err, os.Chmod(filepath.Join(r.root, "storage-id"), 0o604)); err != nil {
		t.Fatal(err)
	}
	before := engineID(t, r.root)
	for _, command := range [][]string{{"truncate", dir, "--to", "25"}, {"restore", dir, "--to", "20"}, {"reset", dir, "--to", "100"}} {
		if _, code, stderr := cutOf(t, command...); code != 0 {
			t.Fatal(command, code, stderr)
		}
		err := filepath.WalkDir(r.root, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			if owner := info.Sys().(*syscall.Stat_t); owner.Uid != uid || owner.Gid != gid {
				t.Errorf("%v: %s is of user %d, group %d", command, path, owner.Uid, owner.Gid)
			}
			if e.Name() == "storage-id" && info.Mode().Perm() != 0o604 {
				t.Errorf("%v: %s has mode %v", command, path, info.Mode())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if engineID(t, r.root) == before {
		t.Error("the storage id is the former one")
	}
}
