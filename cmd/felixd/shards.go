package main

import (
	"context"
	"errors"
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
// holds segments, or nothing at all, and every directory below it that does. A
// root in which somebody wrote a log by mistake thus still shows its shards.
// Hidden directories are the store's own and hold no live shard.
func shardDirectories(ctx context.Context, path string) ([]string, error) {
	if err := needDir("log", path); err != nil {
		return nil, err
	}
	var found []string
	err := filepath.WalkDir(path, func(dir string, entry fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if !entry.IsDir() {
			if dir == path {
				return usage("%s is not a directory", path) // a link to one, which a walk does not follow
			}
			return nil
		}
		if dir != path && isHidden(entry) {
			return fs.SkipDir
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		if holdsLog(entries) || dir == path && len(entries) == 0 {
			found = append(found, dir)
		}
		return nil
	})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s %w: no segment file in it or below", path, errNoLog)
	}
	return found, err
}

// errNoLog says that there is no shard in a directory, nor below it.
var errNoLog = errors.New("holds no log")

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

func isHidden(entry fs.DirEntry) bool { return strings.HasPrefix(entry.Name(), ".") }

// needLog refuses a directory that holds no log. Opening would make one there:
// a mistyped path would be verified as an empty log, and a root would become a
// shard among its shards.
func needLog(dir string) error {
	if err := needDir("log", dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	switch {
	case err != nil:
		return err
	case holdsLog(entries):
		return nil
	default:
		return &noLogError{dir: dir, shards: shardsBelow(dir)}
	}
}

// refuseRoot refuses to make a log in a directory that has shards below it.
func refuseRoot(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case holdsLog(entries):
		return nil
	}
	if shards := shardsBelow(dir); len(shards) > 0 {
		return &noLogError{dir: dir, shards: shards}
	}
	return nil
}

// refuseLog refuses a directory that a log is in, or below.
func refuseLog(dir string) error {
	if err := refuseRoot(dir); err != nil {
		return err
	}
	if entries, err := os.ReadDir(dir); err == nil && holdsLog(entries) {
		return fmt.Errorf("%s holds a log; a measurement needs a directory of its own: name another, or remove this one", dir)
	}
	return nil
}

// noLogError says that a directory holds no log, and which ones below it do.
type noLogError struct {
	dir string
	// shards are at most shardsNamedMax, and one more when there are more.
	shards []string
}

// shardsNamedMax is how many directories a message names.
const shardsNamedMax = 5

// Error names the shards.
func (e *noLogError) Error() string {
	return "no log in " + e.dir + didYouMean(e.shards)
}

// didYouMean ends a message with a few directories that may have been meant.
func didYouMean(dirs []string) string {
	switch n := len(dirs); {
	case n == 0:
		return ""
	case n == 1:
		return "; did you mean " + dirs[0] + "?"
	case n > shardsNamedMax:
		return "; did you mean one of " + strings.Join(dirs[:shardsNamedMax], ", ") + " and others?"
	default:
		return "; did you mean one of " + strings.Join(dirs, ", ") + "?"
	}
}

// The bounds of the search for shards to suggest: a path may as well be "/".
const (
	shardDepthMax   = 3
	shardsLookedMax = 10_000
)

// shardsBelow finds shard directories below dir, as many as a message may need.
// What cannot be read is passed over: this is a hint.
func shardsBelow(dir string) (found []string) {
	looked := 0
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if path == dir || err == nil && !entry.IsDir() {
			return nil
		}
		if looked++; looked > shardsLookedMax || len(found) > shardsNamedMax {
			return fs.SkipAll
		}
		if err != nil || isHidden(entry) {
			return fs.SkipDir
		}
		if entries, err := os.ReadDir(path); err == nil && holdsLog(entries) {
			found = append(found, path)
		}
		below, err := filepath.Rel(dir, path)
		if err != nil || strings.Count(below, string(filepath.Separator))+1 >= shardDepthMax {
			return fs.SkipDir
		}
		return nil
	})
	return found
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
