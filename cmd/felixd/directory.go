package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"felix.local/felix/engine"
	"felix.local/felix/journal"
	"felix.local/felix/sidecar"
)

// needDir refuses a path at which there is no directory, in words that the system call
// which noticed has none for. what is looked for in it.
func needDir(what, path string) error {
	info, err := os.Stat(path)
	switch {
	case isAbsent(err):
		return fmt.Errorf("no %s in %s: there is no such directory", what, path)
	case err != nil:
		return err
	case !info.IsDir():
		return usage("%s is not a directory", path)
	default:
		return nil
	}
}

// mayBeRoot refuses a data directory that a store could not be opened in because something
// else is at its path, or above. There need not be anything: opening makes it.
func mayBeRoot(root string) error {
	above := nearest(root)
	info, err := os.Stat(above)
	switch {
	case err != nil || info.IsDir():
		return nil // what else may be wrong, opening says
	case above == root:
		return usage("%s is not a directory, and --dir has to be one", root)
	default:
		return usage("--dir %s cannot be made: %s is not a directory", root, above)
	}
}

// nearest is the path itself where there is something, or else the nearest one above it
// where there is; "" where nothing can be seen.
func nearest(path string) string {
	for {
		_, err := os.Stat(path)
		switch parent := filepath.Dir(path); {
		case err == nil:
			return path
		case !isAbsent(err) || parent == path:
			return ""
		default:
			path = parent
		}
	}
}

// isAbsent says that there is nothing at a path; below a file there is nothing either.
func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

// needData refuses a directory that no store was opened in and that holds no shard:
// where a volume is not mounted, or above the data directory, a copy would be whole,
// verified and empty. Other engines keep no storage-id, so one shard is enough.
func needData(what, dir string) error {
	if err := needDir(what, dir); err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dir, journal.DirName)); err == nil || isRoot(dir) {
		return nil
	}
	for _, part := range engine.SubRoots() {
		found, err := holdsShard(part.Dir(dir))
		if err != nil || found {
			return err
		}
	}
	return &exitError{code: exitUsage, err: &noDataError{dir: dir, what: what, roots: rootsBelow(dir)}}
}

// holdsShard says that a directory lies directly in dir that is a shard's.
func holdsShard(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if isAbsent(err) {
		return false, nil
	}
	for _, e := range entries {
		if !e.IsDir() || isHidden(e) {
			continue
		}
		if is, err := isShard(filepath.Join(dir, e.Name())); is || err != nil && !isAbsent(err) {
			return is, err
		}
	}
	return false, err
}

// noDataError says that a directory is no data directory, nor a copy of one, and which
// ones in it are.
type noDataError struct {
	dir, what string
	// roots are at most shardsNamedMax, and one more when there are more.
	roots []string
}

func (e *noDataError) Error() string {
	s := "no " + e.what + " in " + e.dir + ": it has no " + sidecar.StorageIDName + " and no shard"
	if len(e.roots) == 0 {
		return s + "; is its volume mounted?"
	}
	return s + didYouMean(e.roots)
}

// rootsBelow finds data directories in dir, as many as a message may need: those with a
// storage id, or those that shards lie in. What cannot be read is passed over: this is a
// hint.
func rootsBelow(dir string) (found []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries[:min(len(entries), shardsLookedMax)] {
		path := filepath.Join(dir, e.Name())
		if _, err := os.Lstat(filepath.Join(path, sidecar.StorageIDName)); err == nil && !isHidden(e) {
			found = append(found, path)
		}
	}
	if len(found) > 0 {
		return found[:min(len(found), shardsNamedMax+1)]
	}
	for _, shard := range shardsBelow(dir) {
		root := filepath.Dir(shard)
		if isPart(filepath.Base(root)) {
			root = filepath.Dir(root)
		}
		if root != dir && !slices.Contains(found, root) {
			found = append(found, root)
		}
	}
	return found
}
