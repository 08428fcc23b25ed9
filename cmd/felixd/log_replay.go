package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/journal"
	"felix.local/felix/recovery"
)

type replayCommand struct {
	Dir    string `name:"dir" required:"" type:"path" placeholder:"ROOT" help:"the data directory; no server may be running on it"`
	DryRun bool   `name:"dry-run" help:"say what would be replayed and change nothing"`
	storageFlags
	outputFlags
}

// replayedEvent says what is in segments now that only the journal held.
type replayedEvent struct {
	Dir     string `json:"dir"`
	Entries uint64 `json:"entries"`
	Shards  int    `json:"shards"`
	Bytes   int64  `json:"bytes"`
}

func (replayedEvent) kind() string { return "replayed" }

func (e replayedEvent) text() string {
	if e.Entries == 0 {
		return e.Dir + ": the commit journal holds nothing; any Felix may open the directory"
	}
	return fmt.Sprintf("%s: %d bytes of %d shards were in the commit journal alone and are in their segments now (%d entries); any Felix may open the directory",
		e.Dir, e.Bytes, e.Shards, e.Entries)
}

// Run brings a data directory to what a store without a commit journal leaves: it is
// opened, which replays, and closed.
func (c *replayCommand) Run(a *app) (err error) {
	config, err := c.config(nil)
	if err != nil {
		return err
	}
	config.Logger, config.Journal = a.logger, engine.JournalOff
	policy, err := c.policy()
	if err != nil {
		return err
	}
	c.Dir = resolved(c.Dir)
	if err := needRoot(c.Dir); err != nil {
		return err
	}
	// Locked before it is looked at: what is said is what will be found.
	disk := newCutDisk()
	defer joined(&err, disk.unlock)
	if err := disk.hold(c.Dir); err != nil {
		return err
	}
	config.FS = disk
	plan, err := recovery.InspectJournal(device.OS(), c.Dir, policy)
	if err != nil {
		return err
	}
	out := a.output(c.outputFlags)
	if plan != nil && (c.DryRun || plan.Refused()) {
		err := out.emit(journalEvent{plan})
		if err == nil && plan.Refused() {
			err = &exitError{code: exitRefused}
		}
		return err
	}
	done := replayedEvent{Dir: c.Dir}
	if plan != nil {
		done.Entries, done.Shards, done.Bytes = plan.Entries-plan.Void, len(plan.Shards), plan.BytesMissing()
	}
	if !c.DryRun {
		store, err := engine.OpenStore(a.ctx, c.Dir, config)
		if err != nil {
			return err
		}
		if err := store.Close(context.WithoutCancel(a.ctx)); err != nil {
			return err
		}
	}
	return out.emit(done)
}

// needRoot refuses a directory that is no store's: opening would make one of it.
func needRoot(dir string) error {
	if err := needDir("data", dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	switch {
	case err != nil:
		return err
	case holdsLog(entries):
		return usage("%s is a shard; name its root, %s", dir, filepath.Dir(dir))
	}
	_, err = os.Lstat(filepath.Join(dir, journal.DirName))
	if errors.Is(err, os.ErrNotExist) && !isRoot(dir) {
		return fmt.Errorf("%s is no data directory: no store was ever opened in it", dir)
	}
	return nil
}
