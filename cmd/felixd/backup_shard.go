package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"felix.local/felix/device"
	"felix.local/felix/recovery"
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
		plan, err := c.copyOnce(name, &e)
		switch {
		case errors.Is(err, fs.ErrNotExist) && isGone(filepath.Join(c.from, name)):
			return os.RemoveAll(filepath.Join(c.to, name)) // deleted meanwhile
		case errors.Is(err, errMoved), errors.Is(err, fs.ErrNotExist):
			if attempt == copyAttempts {
				var refused *recovery.JournalRefusedError
				if errors.As(err, &refused) {
					return refused
				}
				return fmt.Errorf("%s: %w; try again, or stop the server first", filepath.Join(c.from, name), err)
			}
			continue
		case err != nil:
			return err
		}
		refused := c.refuses(name, plan)
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

// copyOnce copies the files of a shard and says what opening the copy would do: the
// small files first, then the segments, oldest first, then their indexes, and then
// what only the commit journal holds, as of between the small files and the segments.
// What is derived from the records is made to fit those that the copy has.
func (c *copier) copyOnce(name string, e *copiedEvent) (plan *recovery.Plan, err error) {
	dir := filepath.Join(c.from, name)
	began, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(refuseLinks(dir), c.makeDirs(name)); err != nil {
		return nil, err
	}
	taken, err := c.imprints(dir)
	if err != nil {
		return nil, err
	}
	if err := c.copySmall(name, e); err != nil {
		return nil, err
	}
	aside, err := c.setAside(name)
	defer joined(&err, aside.remove)
	if err != nil {
		return nil, err
	}
	copied, err := c.copySegments(name, e)
	if err != nil {
		return nil, err
	}
	if err := c.copyIndexes(name, e); err != nil {
		return nil, err
	}
	if err := c.bringOver(aside, e); err != nil {
		return nil, err
	}
	plan, err = c.inspect(name)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(c.copyEpochs(name, plan, e), c.dropUnfit(name, plan, e)); err != nil {
		return nil, err
	}
	ended, err := os.Stat(dir)
	if err == nil && !os.SameFile(began, ended) {
		err = errMoved
	}
	if err != nil {
		return nil, err
	}
	// The log has what the small files spoke of, and what the copy has of it.
	return plan, errors.Join(c.unmoved(dir, taken), c.unmoved(dir, copied))
}

func isGone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

func (c *copier) fs() device.FS { return device.OS() }

// inspect says what opening a copied shard would do with its segments.
func (c *copier) inspect(name string) (*recovery.Plan, error) {
	snapshot, err := recovery.Inspect(c.fs(), filepath.Join(c.to, name), name, c.policy)
	if err != nil {
		return nil, err
	}
	return recovery.Decide(snapshot, c.policy), nil
}

// refuses says that opening a copied shard would be refused.
func (c *copier) refuses(name string, plan *recovery.Plan) bool {
	refused := plan.Refused()
	for _, e := range shardSidecars(c.fs(), filepath.Join(c.to, name), plan) {
		refused = refused || e.Refuses
	}
	return refused
}
