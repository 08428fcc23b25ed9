package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
	"felix.local/felix/segment"
	"felix.local/felix/sidecar"
)

// below counts files, and their bytes.
func below(t *testing.T, dir string) (files int, bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			files++
			bytes += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, bytes
}

// A copy without what a link leads to would not be whole.
func TestALinkWithinADataDirectoryIsRefusedByName(t *testing.T) {
	shard := backupKey(0).DirName()
	for _, name := range []string{
		backupKey(1).DirName(), ".felixd", broker.DefinitionsDir, string(engine.CacheShards), filepath.Join(string(engine.GroupShards), shard),
		sidecar.RunStateName, filepath.Join(sidecar.MarkersDir, "t_n_s-0000000000000001"), filepath.Join(shard, sidecar.ReplicaName), filepath.Join(shard, segment.LogName(7)),
	} {
		r := newBackupRig(t)
		r.append(r.open(0), 10)
		link := filepath.Join(r.root, name)
		if err := errors.Join(os.RemoveAll(link), os.MkdirAll(filepath.Dir(link), 0o750), os.Symlink(t.TempDir(), link)); err != nil {
			t.Fatal(err)
		}
		c := r.copier()
		err := c.copyRoot()
		var linked *linkError
		if !errors.As(err, &linked) || linked.Path != link || !strings.Contains(err.Error(), link) {
			t.Errorf("%s: %v", name, err)
		}
		if c.shards != 0 {
			t.Errorf("%s: %d shards were copied first", name, c.shards)
		}
	}
}

func TestSmallFilesBeyondTheirBoundsAreRefusedByName(t *testing.T) {
	r := newBackupRig(t)
	r.append(r.open(0), 10)
	large := func(name string, size int64) string {
		path := filepath.Join(r.root, name)
		if err := errors.Join(os.WriteFile(path, nil, 0o640), os.Truncate(path, size)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	refused := func(path string) {
		t.Helper()
		var bound *boundError
		if err := r.copier().copyRoot(); !errors.As(err, &bound) || bound.Path != path {
			t.Error(err)
		}
	}
	path := large("notes", smallBytesMax)
	if err := r.copier().copyRoot(); err != nil {
		t.Error(err)
	}
	large("notes", smallBytesMax+1)
	refused(path)
	large("notes", smallBytesMax)
	for i := range smallTotalBytesMax / smallBytesMax {
		large(fmt.Sprint("notes-", i), smallBytesMax)
	}
	refused(r.root)
}

// Of backups to one name at the same time one makes the copy.
func TestOfTwoBackupsToOneNameTheSecondIsRefused(t *testing.T) {
	r := newBackupRig(t)
	r.append(r.open(0), 10)
	c := &backupCommand{Dir: r.root, To: filepath.Join(t.TempDir(), "copy")}
	var claims sync.WaitGroup
	refused := make(chan error, 8)
	for range cap(refused) {
		claims.Go(func() { refused <- c.claim(c.To + ".partial") })
	}
	claims.Wait()
	claimed := 0
	for range cap(refused) {
		err := <-refused
		var taken *takenError
		switch {
		case err == nil:
			claimed++
		case !errors.As(err, &taken) || taken.Path != c.To+".partial":
			t.Error(err)
		}
	}
	if claimed != 1 {
		t.Errorf("%d have the name", claimed)
	}
	var out, stderr bytes.Buffer
	if code := run([]string{"backup", "--dir", c.Dir, "--to", c.To}, &out, &stderr); code != exitFailure || !strings.Contains(stderr.String(), c.To+".partial is there already") {
		t.Errorf("exit code %d, %s", code, &stderr)
	}
}

// The first backup ends after the second one looked whether the name is free.
func TestABackupThatComesTooLateLeavesNothing(t *testing.T) {
	c := &backupCommand{Dir: t.TempDir(), To: filepath.Join(t.TempDir(), "copy")}
	if err := os.Mkdir(c.To, 0o750); err != nil {
		t.Fatal(err)
	}
	var taken *takenError
	if err := c.claim(c.To + ".partial"); !errors.As(err, &taken) || taken.Path != c.To {
		t.Error(err)
	}
	if !isGone(c.To + ".partial") {
		t.Error("the name it took first is left")
	}
}

// The server's user owns everything that root copies and brings back: else the
// server could not start on it.
func TestWhatRootCopiesAndRestoresHasItsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give files away")
	}
	const user, group = 12345, 23456
	for _, there := range []bool{false, true} {
		r := newBackupRig(t)
		r.append(r.open(0), 30)
		if err := r.store.Close(r.ctx); err != nil {
			t.Fatal(err)
		}
		err := filepath.WalkDir(r.root, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, user, group))
		})
		if err = errors.Join(err, os.Chmod(r.root, 0o700)); err != nil {
			t.Fatal(err)
		}
		copied, restored := filepath.Join(t.TempDir(), "copy"), filepath.Join(t.TempDir(), "restored")
		if there {
			if err := os.Mkdir(restored, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, command := range [][]string{{"backup", "--dir", r.root, "--to", copied}, {"restore", "--from", copied, "--dir", restored}} {
			var out, stderr bytes.Buffer
			if code := run(command, &out, &stderr); code != exitOK {
				t.Fatalf("%v: exit code %d, %s%s", command, code, &out, &stderr)
			}
		}
		for _, root := range []string{copied, restored} {
			err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := os.Lstat(path)
				if err != nil {
					return err
				}
				if owner := info.Sys().(*syscall.Stat_t); owner.Uid != user || owner.Gid != group {
					t.Errorf("%s is owned by %d:%d", path, owner.Uid, owner.Gid)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(root); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%s: %v, %v", root, info.Mode(), err)
			}
		}
	}
}
