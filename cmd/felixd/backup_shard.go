package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
	// The segments are listed after the small files are copied: none of those may
	// speak of a segment that is not on the list.
	for _, belongs := range []func(string) bool{isSmall, isLogName, isIndexName, isCopyName} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, entry := range entries { // by name, which is by age
			if !entry.Type().IsRegular() || !belongs(entry.Name()) {
				continue
			}
			n, err := c.copyFile(filepath.Join(name, entry.Name()))
			switch {
			case errors.Is(err, fs.ErrNotExist) && !isLogName(entry.Name()):
				continue
			case errors.Is(err, fs.ErrNotExist):
				if err := c.dropOldest(name, entry.Name(), e); err != nil {
					return err
				}
				continue
			case err != nil:
				return err
			}
			e.Files++
			e.Bytes += n
		}
	}
	ended, err := os.Stat(dir)
	if err == nil && !os.SameFile(began, ended) {
		err = errMoved
	}
	return err
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

// copyFile copies a file as long as it is now. What is appended meanwhile is left
// out, so that a log that grows does not keep the copy from ending.
func (c *copier) copyFile(name string) (int64, error) {
	from, err := os.OpenFile(filepath.Join(c.from, name), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return 0, err
	}
	defer from.Close() // only read from
	info, err := from.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), c.writeFrom(name, &stoppable{c: c, r: from, left: info.Size()}, info)
}
