package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"felix.local/felix/device"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// shardDirectories lists the shard directories that path means: itself when it
// holds segments, or nothing at all; else every directory below it that does.
// Hidden directories are the store's own and hold no live shard.
func shardDirectories(path string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(path, func(dir string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !entry.IsDir() {
			if dir == path {
				return fmt.Errorf("%s is not a directory", path)
			}
			return nil
		}
		if dir != path && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		if holdsLog(entries) || dir == path && len(entries) == 0 {
			found = append(found, dir)
			return fs.SkipDir
		}
		return nil
	})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s holds no log: no segment file in it or below", path)
	}
	return found, err
}

// holdsLog says that a directory is a shard's.
func holdsLog(entries []fs.DirEntry) bool {
	for _, e := range entries {
		_, isLog := segment.ParseLogName(e.Name())
		if isLog || e.Name() == recovery.MarkName {
			return true
		}
	}
	return false
}

// warnIfInUse says on standard error that a log is open in another process. The
// store locks its root, which is the shard directory or the one above it. The
// lock is looked up, not taken: a store that starts now must not be in its way.
func (a *app) warnIfInUse(dir string) {
	for _, root := range []string{dir, filepath.Dir(dir)} {
		if pid := device.LockHolder(root); pid != 0 {
			fmt.Fprintf(a.stderr, "felixd: warning: %s is open in process %d; what is written meanwhile may look like damage here\n", root, pid)
			return
		}
	}
}
