package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/journal"
	"felix.local/felix/recovery"
	"felix.local/felix/sidecar"
)

// copier copies a data directory that may be in use, in an order in which no file
// claims more than what is copied after it holds:
//
//  1. the shards of caches, counters, groups and dead letters, of which compaction
//     rewrites the beginning;
//  2. the shards of streams;
//  3. what the root says of its streams, and of itself.
//
// So a stream that the copy knows has its records, as of when its shards were
// copied or later; of one that is made or deleted meanwhile the copy may hold
// nothing, or directories that nothing refers to.
type copier struct {
	*app
	out      *output
	policy   recovery.Policy
	from, to string
	// copied is called after each file of a shard, for tests that change what is
	// still to be copied; nil for none. now is the clock's time, unless nil.
	copied func(name string)
	now    func() time.Time
	// view is the newest of the commit journal; nil for none.
	view *journalView

	shards, files, refused int
	bytes                  int64
}

// copyRoot fills a directory, which is there.
func (c *copier) copyRoot() (err error) {
	defer joined(&err, c.dropView)
	// Before anything is copied, see whether there is something that cannot be.
	if err := c.walkSmallFiles(func(string) error { return nil }); err != nil {
		return err
	}
	for _, part := range []engine.SubRoot{
		engine.CacheShards, engine.CounterShards, engine.GroupShards, engine.DeadLetterShards, engine.StreamShards,
	} {
		if err := c.copyShards(string(part)); err != nil {
			return err
		}
	}
	if err := c.copySmallFiles(); err != nil {
		return err
	}
	files, err := rootSidecars(c.fs(), c.to)
	if err != nil {
		return err
	}
	for _, e := range files {
		if e.Refuses {
			c.refused++
			if err := c.out.emit(e); err != nil {
				return err
			}
		}
	}
	return c.flushDirs()
}

// copyShards copies the shards of one part of the root.
func (c *copier) copyShards(part string) error {
	entries, err := os.ReadDir(filepath.Join(c.from, part))
	if errors.Is(err, fs.ErrNotExist) && part != "" {
		return nil
	}
	if err != nil {
		return err
	}
	if part != "" {
		if err := c.makeDir(part); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if !e.IsDir() || isHidden(e) || part == "" && isPart(e.Name()) {
			continue
		}
		if err := c.ctx.Err(); err != nil {
			return err
		}
		name := filepath.Join(part, e.Name())
		is, err := isShard(filepath.Join(c.from, name))
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && !is:
			continue
		case err == nil:
			err = c.copyShard(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isShard says that a directory holds a log, or what a replica promised about one.
func isShard(dir string) (bool, error) {
	if filepath.Base(dir) == "lost+found" {
		return false, nil
	}
	entries, err := os.ReadDir(dir)
	return holdsLog(entries) || slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return e.Name() == sidecar.ReplicaName || e.Name() == sidecar.BallotName
	}), err
}

func isPart(name string) bool {
	return name != "" && slices.Contains(engine.SubRoots(), engine.SubRoot(name))
}

// The bounds of the small files of a root, which are held in memory.
const (
	smallBytesMax      = 1 << 20
	smallFilesMax      = 1_000_000
	smallTotalBytesMax = 64 << 20
)

// agreeAttempts is how often the small files are read until they do not change.
const agreeAttempts = 20

// copySmallFiles copies what lies beside the shards: who the root is, the markers
// and definitions of its streams. They are read until two readings agree, so that
// what one file says of another fits.
func (c *copier) copySmallFiles() error {
	var before map[string][]byte
	for range agreeAttempts {
		now, err := c.readSmallFiles()
		if err != nil {
			return err
		}
		if before != nil && sameContents(before, now) {
			return c.writeSmallFiles(now)
		}
		before = now
	}
	return fmt.Errorf("%s: its small files change faster than they can be read; try again when fewer streams are made and deleted", c.from)
}

func (c *copier) readSmallFiles() (map[string][]byte, error) {
	files := make(map[string][]byte)
	total := 0
	err := c.walkSmallFiles(func(name string) error {
		b, err := readSmall(filepath.Join(c.from, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		files[name] = b
		if total += len(b); len(files) > smallFilesMax || total > smallTotalBytesMax {
			return &boundError{Path: c.from, Bound: fmt.Sprintf("%d files and %d bytes beside its shards", smallFilesMax, smallTotalBytesMax)}
		}
		return nil
	})
	return files, err
}

// walkSmallFiles visits what lies beside the shards, by its name below the root. A
// link is refused: it may lead to a shard, or to all that is known of the streams.
func (c *copier) walkSmallFiles(visit func(name string) error) error {
	return filepath.WalkDir(c.from, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != c.from {
			return nil // gone meanwhile
		}
		if err = errors.Join(err, c.ctx.Err()); err != nil {
			return err
		}
		name, err := filepath.Rel(c.from, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && skipsDir(name):
			return fs.SkipDir
		case isLink(entry):
			return &linkError{Path: path}
		case !entry.Type().IsRegular() || isTemporary(name):
			return nil
		default:
			return visit(name)
		}
	})
}

// linkError refuses a link within a data directory. A copy without what it leads to
// would not be whole, and one of what it leads to would be on another filesystem than
// somebody wanted it.
type linkError struct {
	Path string
}

func (e *linkError) Error() string {
	return e.Path + " is a link, which is not followed: move what it leads to into its place, or mount that there, or remove the link"
}

func isLink(entry fs.DirEntry) bool { return entry.Type()&fs.ModeSymlink != 0 }

// refuseLinks refuses a shard with a link in it.
func refuseLinks(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if isLink(e) {
			return &linkError{Path: filepath.Join(dir, e.Name())}
		}
	}
	return err
}

// skipsDir says that a directory holds no small file of the root: it is a shard's,
// or holds what was deleted, or is the commit journal, whose records come into the
// copies of their shards.
func skipsDir(name string) bool {
	top, below, nested := strings.Cut(name, string(filepath.Separator))
	switch {
	case strings.HasPrefix(filepath.Base(name), "."):
		return filepath.Base(name) == ".deleted" || filepath.Base(name) == journal.DirName
	case isPart(top) && !nested, strings.HasPrefix(top, "."), isPart(top) && strings.HasPrefix(below, "."):
		return false
	default:
		return true
	}
}

func isTemporary(name string) bool {
	return strings.HasSuffix(name, ".tmp") || filepath.Base(name) == engine.RestoringName
}

// boundError says that a data directory holds more than is copied.
type boundError struct {
	Path, Bound string
}

func (e *boundError) Error() string {
	return fmt.Sprintf("%s: at most %s are copied; move what is not of the data directory out of it", e.Path, e.Bound)
}

func readSmall(path string) (content []byte, err error) {
	err = read(path, func(f *os.File, _ fs.FileInfo) error {
		content, err = io.ReadAll(io.LimitReader(f, smallBytesMax+1))
		if err == nil && len(content) > smallBytesMax {
			err = &boundError{Path: path, Bound: fmt.Sprintf("%d bytes of a file beside the shards", smallBytesMax)}
		}
		return err
	})
	return content, err
}

func sameContents(a, b map[string][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for name, content := range a {
		if other, there := b[name]; !there || !bytes.Equal(content, other) {
			return false
		}
	}
	return true
}

func (c *copier) writeSmallFiles(files map[string][]byte) error {
	for name, content := range files {
		if err := c.makeDirs(filepath.Dir(name)); err != nil {
			return err
		}
		if err := c.write(name, content); err != nil {
			return err
		}
	}
	return nil
}
