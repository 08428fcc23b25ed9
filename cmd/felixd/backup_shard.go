package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"felix.local/felix/device"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// copyAttempts is how often a shard is copied that was cut back, or deleted and made
// again, meanwhile.
const copyAttempts = 5

// errMoved says that a shard is not what it was when its copy began.
var errMoved = errors.New("it changed in a way that no copy of it can hold")

// copyShard copies one shard and verifies the copy. A copy that would be refused is
// made again: the log may have been cut back meanwhile. When it stays so, the shard
// itself is damaged, and the copy is as good.
func (c *copier) copyShard(name string) error {
	for attempt := 1; ; attempt++ {
		if err := os.RemoveAll(filepath.Join(c.to, name)); err != nil {
			return err
		}
		e := copiedEvent{Shard: name, Attempts: attempt}
		err := c.copyOnce(name, &e)
		switch {
		case errors.Is(err, fs.ErrNotExist) && isGone(filepath.Join(c.from, name)):
			return os.RemoveAll(filepath.Join(c.to, name)) // deleted meanwhile
		case errors.Is(err, errMoved), errors.Is(err, fs.ErrNotExist):
			if attempt == copyAttempts {
				return fmt.Errorf("%s: %w; try again, or stop the server first", filepath.Join(c.from, name), err)
			}
			continue
		case err != nil:
			return err
		}
		plan, refused, err := c.verify(name)
		if err != nil {
			return err
		}
		if refused && attempt < copyAttempts {
			continue
		}
		e.Verdict = plan.Verdict()
		if refused {
			e.Verdict = "refuse"
			c.refused++
		}
		e.BaseOffset, e.TailOffset, _ = tailOf(plan)
		c.shards++
		c.files += e.Files
		c.bytes += e.Bytes
		return c.out.emit(e)
	}
}

// copyOnce copies the files of a shard: the small ones first, then the segments,
// oldest first, then their indexes.
func (c *copier) copyOnce(name string, e *copiedEvent) error {
	dir := filepath.Join(c.from, name)
	began, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if err := c.makeDirs(name); err != nil {
		return err
	}
	before, err := measure(dir)
	if err != nil {
		return err
	}
	taken, err := imprints(dir, before)
	if err != nil {
		return err
	}
	for _, copyAll := range []func(string, *copiedEvent) error{c.copySmall, c.copySegments, c.copyIndexes} {
		if err := copyAll(name, e); err != nil {
			return err
		}
	}
	ended, err := os.Stat(dir)
	if err == nil && !os.SameFile(began, ended) {
		err = errMoved
	}
	if err != nil {
		return err
	}
	// The log has what the small files spoke of, and what the copy has of it.
	copied, err := measure(filepath.Join(c.to, name))
	if err != nil {
		return err
	}
	have, err := imprints(filepath.Join(c.to, name), copied)
	if err != nil {
		return err
	}
	return errors.Join(unmoved(dir, taken), unmoved(dir, have))
}

func (c *copier) copySmall(shard string, e *copiedEvent) error { return c.copyEach(shard, isSmall, e) }

func (c *copier) copyIndexes(shard string, e *copiedEvent) error {
	return c.copyEach(shard, func(name string) bool { return isIndexName(name) || isCopyName(name) }, e)
}

// copyEach copies files of which the log can do without one that is gone meanwhile.
func (c *copier) copyEach(shard string, belongs func(string) bool, e *copiedEvent) error {
	entries, err := os.ReadDir(filepath.Join(c.from, shard))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() || !belongs(entry.Name()) {
			continue
		}
		err := c.copyFile(filepath.Join(shard, entry.Name()), wholeFile, e)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// segmentLength is a segment and how much of it belongs to the copy.
type segmentLength struct {
	name  string
	bytes int64
}

// copySegments copies the segments, oldest first.
//
// What belongs to the copy is found out first, newest first: whatever a segment
// holds then, those before it are complete when they are looked at. With a roll in
// the background the older of two may still grow while the newer is there.
func (c *copier) copySegments(shard string, e *copiedEvent) error {
	segments, err := measure(filepath.Join(c.from, shard))
	if err != nil {
		return err
	}
	for i, s := range segments {
		err := c.copyFile(filepath.Join(shard, s.name), s.bytes, e)
		if errors.Is(err, fs.ErrNotExist) && i < len(segments)-1 {
			err = c.dropOldest(shard, s.name, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// measure lists segments, oldest first, and looks at them newest first.
func measure(dir string) ([]segmentLength, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var segments []segmentLength
	for _, entry := range slices.Backward(entries) { // by name, which is by age
		if !entry.Type().IsRegular() || !isLogName(entry.Name()) {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) && len(segments) > 0 {
			break // retention took it, and those before it
		}
		if err != nil {
			return nil, err
		}
		segments = append(segments, segmentLength{entry.Name(), info.Size()})
	}
	slices.Reverse(segments)
	return segments, nil
}

// dropOldest takes from the copy what is older than a segment that is gone: so it
// is when retention took that. A log that was cut back lost its newest ones instead.
func (c *copier) dropOldest(shard, gone string, e *copiedEvent) error {
	left, err := os.ReadDir(filepath.Join(c.from, shard))
	if err != nil {
		return err
	}
	newer := false
	for _, entry := range left {
		if isLogName(entry.Name()) && entry.Name() < gone {
			return errMoved
		}
		newer = newer || isLogName(entry.Name())
	}
	if !newer {
		return errMoved
	}
	entries, err := os.ReadDir(filepath.Join(c.to, shard))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if isLogName(entry.Name()) && entry.Name() < gone {
			if err := os.Remove(filepath.Join(c.to, shard, entry.Name())); err != nil {
				return err
			}
			e.Files--
		}
	}
	return nil
}

func isLogName(name string) bool { _, ok := segment.ParseLogName(name); return ok }

func isIndexName(name string) bool { _, ok := segment.ParseIndexName(name); return ok }

// isCopyName: what recovery once cut off or set aside.
func isCopyName(name string) bool { return strings.Contains(name, ".torn-") }

func isSmall(name string) bool {
	return !isLogName(name) && !isIndexName(name) && !isCopyName(name) && !isTemporary(name)
}

func isGone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

func (c *copier) fs() device.FS { return device.OS() }

// verify says what opening a copied shard would do.
func (c *copier) verify(name string) (plan *recovery.Plan, refused bool, err error) {
	dir := filepath.Join(c.to, name)
	snapshot, err := recovery.Inspect(c.fs(), dir, name, c.policy)
	if err != nil {
		return nil, false, err
	}
	plan = recovery.Decide(snapshot, c.policy)
	refused = plan.Refused()
	for _, e := range shardSidecars(c.fs(), dir, plan) {
		refused = refused || e.Refuses
	}
	return plan, refused, nil
}

// wholeFile is the length of a file as it is when it is copied.
const wholeFile = -1

// copyFile copies so many bytes of a file. What is appended meanwhile is left out, so
// that a log that grows does not keep the copy from ending.
func (c *copier) copyFile(name string, length int64, e *copiedEvent) error {
	from, err := os.OpenFile(filepath.Join(c.from, name), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer from.Close() // only read from
	info, err := from.Stat()
	if err != nil {
		return err
	}
	if length == wholeFile {
		length = info.Size()
	}
	if err := c.writeFrom(name, &stoppable{c: c, r: from, left: length}, info); err != nil {
		return err
	}
	e.Files++
	e.Bytes += length
	if c.copied != nil {
		c.copied(name)
	}
	return nil
}
